"""The host itself: limits, kernel command line, modules, NUMA nodes, file systems, versions, environment."""

import re
from typing import Final

from nccl_insight.base import texts
from nccl_insight.readers.host_tools import shapes, vocabulary
from nccl_insight.readers.host_tools.model import Found, Output, count, listed, number, slug

_RE: Final = texts.compiled(__file__)

# zsh's has the unit behind the name.
_ZSH: Final = r"-(?P<letter>[a-zA-Z]): [^()]{3,40}?(?:\((?P<unit>\w+)\))?\s+(?P<value>[0-9]+|unlimited)\s*$"


def _ulimit(out: Output, found: Found) -> str:
    says = []
    for line, text in out.lines:
        name, value, scale = "", "", 1
        if match := _RE["ulimit"].match(text):
            name, value = vocabulary.table("ulimit").get(match["letter"], ""), match["value"]
            scale = 1024 if re.match(r"k", match["unit"] or "", re.I) else 1
        elif match := re.match(_ZSH, text):
            name, value = vocabulary.table("ulimit").get(match["letter"], ""), match["value"]
            scale = 1024 if match["unit"] == "kbytes" else 1
        elif match := re.match(r"(Max [a-z ]+?)\s{2,}(\S+)\s+(\S+)", text):
            name, value = vocabulary.table("proc_limits").get(match[1], ""), match[2]
        if name:
            size = name in ("memlock", "stack", "address_space", "resident", "core")
            text_ = value if not value.isdigit() else str(int(value) * scale)
            found.fact(line, None, f"limit.{name}", text_, "bytes" if size and value.isdigit() else None)
            told = f"{name} {value}{' KiB' if scale > 1 and value.isdigit() else ''}"
            says += [told] if name in ("memlock", "open_files", "processes", "stack") else []
    return listed(says, 6)


def _cmdline(out: Output, found: Found) -> str:
    line, text = out.lines[0]
    found.fact(line, None, "host.cmdline", text)
    told = [word for word in text.split() if _RE["concerns"].match(word)]
    for word in told:
        key, _, value = word.partition("=")
        found.fact(line, None, f"cmdline.{slug(key)}", value or "on")
    return listed(told, 8) or "no option that concerns GPUs, PCIe or the IOMMU"


def _lsmod(out: Output, found: Found) -> str:
    names = []
    for line, text in out.lines:
        if match := re.match(r"(\w+)\s+([0-9]+)\s+(-?[0-9]+)", text):
            names.append(match[1])
            found.fact(line, match[1], "module.size", match[2], "bytes")
    found.fact(out.line, None, "module.count", len(names))
    worth = [n for n in names if re.match(r"nvidia|nv_peer|gdrdrv|mlx|ib_|rdma|amdgpu|efa|irdma|bnxt|gdrcopy|ice$", n)]
    peermem = any(re.match(r"nvidia_peermem|nv_peer_mem", n) for n in names)
    missing = "; no nvidia_peermem" if "nvidia" in names and not peermem else ""
    return f"{count(len(names), 'module')}: {listed(worth, 10)}{missing}"


def _numactl(out: Output, found: Found) -> str:
    nodes = 0
    for line, text in out.lines:
        if match := re.match(r"available: ([0-9]+) nodes?", text):
            nodes = int(match[1])
            found.fact(line, None, "numa.nodes", match[1])
        elif match := re.match(r"node ([0-9]+) (cpus|size|free): ?(.*)", text):
            unit = None if match[2] == "cpus" else "MiB"
            found.fact(line, f"node {match[1]}", f"numa.{match[2]}", match[3].removesuffix(" MB"), unit)
        elif match := re.match(r"(physcpubind|nodebind|membind|preferred|policy|cpubind): ?(.*)", text):
            found.fact(line, None, f"numa.{match[1]}", match[2])
    return f"{count(nodes, 'NUMA node')}" if nodes else "binding of a process"


def _lscpu(out: Output, found: Found) -> str:
    values = {}
    for item in shapes.tree(out.lines):
        if found.fact(item.line, None, f"cpu.{slug(item.key)}", item.value):
            values[item.key] = item.value
    told = [f"{k} {values[k]}" for k in ("Model name", "CPU(s)", "Socket(s)", "NUMA node(s)") if k in values]
    return listed(told, 4) or count(len(values), "value")


def _df(out: Output, found: Found) -> str:
    """By the last columns: size, used, available, share, path; the header is translated."""
    says = []
    for line, text in out.lines:
        if match := _RE["file_system"].match(text):
            found.fact(line, match[5], "filesystem.size", f"{_bytes(match[1]):.0f}", "bytes")
            found.fact(line, match[5], "filesystem.available", f"{_bytes(match[3]):.0f}", "bytes")
            found.fact(line, match[5], "filesystem.used", match[4], "%")
            if match[5] in ("/dev/shm", "/", "/tmp"):
                says.append(f"{match[5]} {match[1]}, {match[4]} % used")
    return listed(says, 3) or count(len(out.lines) - 1, "file system")


def _bytes(text: str) -> float:
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}.get(text[-1:], 1 << 10)
    return (number(text) or 0.0) * scale


_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"


def _env(out: Output, found: Found) -> str:
    names, told = [], []
    for line, text in out.lines:
        match = re.match(rf"(?:declare -x )?({_NAME})=(.*)$", text)
        if match is None:
            continue
        name, value = match[1], match[2].removesuffix("\\").strip().strip("\"'")
        if name.startswith(("NCCL_", "RCCL_")) and " " in value:
            continue  # a sentence
        if _RE["concerns_jobs"].match(name):
            names.append(name)
            told += [f"{name}={value}"] if name.startswith(("NCCL", "RCCL")) else []
            if name.startswith(("NCCL_", "RCCL_")):
                found.env.append((line, found.host, name, value))
            if not re.search(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL", name):
                found.fact(line, None, f"env.{name}", value)
    said = f": {listed(told, 8)}" if told else f", none of NCCL: {listed(names, 6)}"
    return count(len(out.lines), "variable") + said


def _collect(out: Output, found: Found) -> str:
    """torch.utils.collect_env and vllm's, which adds topology and environment."""
    says = []
    for line, text in out.lines:
        key, colon, value = text.partition(":")
        named = vocabulary.table("collect_env").get(key.strip())
        name = named or (f"report.{slug(key)}" if re.match(r"[A-Z][\w ]{3,50}:\s*\S", text) else "")
        if colon and name:
            read = found.fact(line, None, name, value)
            worth = name in ("torch.version", "torch.cuda_version", "host.driver_version", "torch.cuda_available")
            says += [f"{key.strip()}:{value}"] if read and worth else []
        elif match := re.match(r"GPU ([0-9]+): (.*?)(?: \(UUID.*)?$", text):
            found.fact(line, f"GPU {match[1]}", "gpu.name", match[2])
        elif match := re.match(r"\[(?:pip3?|conda)\] (\S+?)(?:==|\s+)([0-9]\S*)", text):
            found.fact(line, match[1], "package.version", match[2])
            says += [f"{match[1]} {match[2]}"] if "nccl" in match[1] or "rccl" in match[1] else []
        elif match := re.match(rf"((?:NCCL|CUDA|TORCH|LD|VLLM|NVIDIA)_{_NAME})=(.*)", text):
            if match[1].startswith("NCCL_"):
                found.env.append((line, found.host, match[1], match[2]))
            found.fact(line, None, f"env.{match[1]}", match[2])
    return listed(says, 6)


def _free(out: Output, found: Found) -> str:
    says: list[str] = []
    for line, text in out.lines:
        if match := re.match(r"(\S+:)\s+([0-9.]+[KMGTP]?i?B?)\s+([0-9.]+[KMGTP]?i?B?)\s+([0-9.]+[KMGTP]?i?B?)", text):
            name = "memory" if not says else "swap"
            found.fact(line, None, f"{name}.total", match[2])
            found.fact(line, None, f"{name}.free", match[4])
            says.append(f"{name} {match[2]} total, {match[3]} used")
    return listed(says, 2)


def _module_version(out: Output, found: Found) -> str:
    line, text = out.lines[0]
    if match := re.search(r"(?:Kernel Module(?: for \S+)?)\s+([0-9][0-9.]+)", text):
        found.fact(line, None, "host.driver_version", match[1])
    return " ".join(text.split())[:120]
