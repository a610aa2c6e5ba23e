"""rocm-smi and amd-smi: values of GPUs, and the matrices of how they are linked."""

from __future__ import annotations

from nccl_insight.readers.host_tools.model import Found, Output, described


def read(name: str, text: str) -> tuple[str, dict[tuple[str | None, str], str]]:
    tool = next(tool for tool in described() if tool.name == name)
    found = Found()
    said = tool.read(Output(tool, list(enumerate(text.splitlines(), 1))), found)
    return said, {(device, name): value for _, _, device, name, value, _, _ in found.facts}


ROCM = """======================= ROCm System Management Interface =======================
================================= Temperature =================================
GPU[0]		: Temperature (Sensor junction) (C): 61.0
GPU[1]		: Temperature (Sensor junction) (C): N/A
================================ Link Type =================================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
========================= End of ROCm SMI Log =========================="""


def test_values_and_links_of_rocm_smi() -> None:
    said, facts = read("rocm-smi", ROCM)
    assert facts["GPU0->GPU1", "p2p.link"] == "XGMI"
    assert ("GPU0->GPU0", "p2p.link") not in facts
    assert [value for (device, key), value in facts.items() if device == "GPU 0" and "temperature" in key] == ["61.0"]
    assert not any(device == "GPU 1" for device, _ in facts)
    assert said.startswith("2 GPUs; 2 pairs over XGMI; Temperature")


def test_a_tree_of_amd_smi_is_of_the_gpu_above_it() -> None:
    told = ("GPU: 0", "    ECC:", "        TOTAL_CORRECTABLE_COUNT: 3")
    told = (*told, "        TOTAL_UNCORRECTABLE_COUNT: 0", "GPU: 1", "    ECC:")
    _, facts = read("amd-smi", "\n".join((*told, "        TOTAL_CORRECTABLE_COUNT: 7")))
    assert facts["GPU 0", "gpu.ecc.correctable.total"] == "3"
    assert facts["GPU 0", "gpu.ecc.uncorrectable.total"] == "0"
    assert facts["GPU 1", "gpu.ecc.correctable.total"] == "7"
