"""The language of kernel names: samples of every rule, both engines, and kernels that are compute."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from nccl_insight.language.catalog import Catalog
from nccl_insight.language.lint import lint
from nccl_insight.language.load import grammar_files, kernel_grammar
from nccl_insight.language.reference import Reference
from nccl_insight.readers.kernels import COMM, COMPUTE, OTHER, classify, function_path
from tests import message_samples
from tests.language.parsed import parse

SAMPLES = message_samples.read(Path(__file__).parents[2] / "fixtures" / "kernels.txt")


@cache
def catalog() -> Catalog:
    return Catalog(kernel_grammar())


@cache
def reference() -> Reference:
    return Reference(kernel_grammar())


def test_the_grammar_is_sound_and_apart_from_that_of_the_log() -> None:
    grammar = kernel_grammar()
    assert lint(grammar, frozenset()) == []
    assert set(SAMPLES) == set(grammar.messages)
    assert all("source" in m.directives for m in grammar.messages.values())
    assert not [name for name in grammar_files() if "kernels" in name]


@pytest.mark.parametrize("rule", SAMPLES)
def test_samples(rule: str) -> None:
    message = kernel_grammar().messages[rule]
    for name, values in ((sample.text, sample.values) for sample in SAMPLES[rule]):
        path = function_path(name)
        accepted = []
        while path:
            found = catalog().match(path)
            if found is not None:
                accepted.append((path, found.message.name))
            path = path.partition("::")[2]
        assert accepted, name
        assert accepted[0][1] == rule, name
        parsed = parse(reference(), kernel_grammar(), rule, accepted[0][0])
        assert parsed is not None
        numbers = {column for column, dtype in catalog().compiled(rule).columns if dtype == "int"}
        assert {c: int(v) if c in numbers else v for c, v in parsed.captures.items()} == values, name
        others = [m for m in kernel_grammar().messages if m != rule and catalog().try_rule(m, accepted[0][0])]
        assert others == [], name
        kind = COMM if message.constants.get("kind") == "nccl" else OTHER
        assert classify(name).kind == kind


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float>>>(x)",
        "triton_poi_fused_add_all_reduce_4",
        "void gemm_broadcast_bias<float>(x)",
        "triton_red_fused_all_gather_into_tensor_mean_3",
        "kernel_fused_gemm_allreduce",
        "void block_all_reduce_sum_kernel<float>(x)",
        "void at::native::small_gather_kernel<int>(x)",
        "void at::native::_scatter_gather_elementwise_kernel<128, 8>(x)",
        "void at::native::(anonymous namespace)::vectorized_gather_kernel<16, long>(x)",
        "void cub::CUB_200200_800_NS::DeviceReduceKernel<cub::DeviceReducePolicy>(x)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float>(x)",
        "void deep_ep::legacy::layout::get_dispatch_layout<256, 32>(x)",
        "void tensorrt_llm::kernels::moe_alltoall::moeA2ASanitizeExpertIdsKernel(x)",
        "void flashinfer::trtllm_alltoall::moeLocalGatherDevice(x)",
        "void tensorrt_llm::kernels::lowPrecisionPreprocessKernel<8, half>(x)",
        "compute_reduce_scatter_offsets_kernel",
        "void flash::flash_fwd_splitkv_combine_kernel<x>(x)",
        "void transformer_engine::dispatch::mxfp8::quantize_kernel::quantize_mxfp8_kernel<x>(x)",
        "nvjet_hsh_192x192_64x4_2x1_v_bz_coopA_TN",
        "void dispatch_tokens_kernel<int>(x)",
        "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64",
        "void moe::permute_kernel<ncclLike<int>>(x)",
        "",
        "_Z",
        "_ZN9999999x",
        "<<<>>>(((",
    ],
)
def test_compute_stays_compute(name: str) -> None:
    assert classify(name).kind == COMPUTE


def test_the_configuration_adds_names() -> None:
    name = "void ourlib::ring_exchange<float>(x)"
    assert classify(name).kind == COMPUTE
    assert classify(name, (r"ourlib::ring_",)).kind == OTHER


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("_all_gather_kernel_inner", "AllGather"),
        ("allreduce_double_tree_intra_node_kernel", "AllReduce"),
        ("void kernels::(anonymous namespace)::helixAllToAllKernel<true>(x)", "AllToAll"),
        ("consumer_all_reduce_kernel", "AllReduce"),
        ("reduce_scatter_ring_push_1d_intra_node_rma_kernel", "ReduceScatter"),
        ("void ddaAllReduceFlatIpc<float, 8>(x)", "AllReduce"),
        ("all2all_v2", "AllToAll"),
    ],
)
def test_a_name_that_says_a_collective_communicates(name: str, op: str) -> None:
    found = classify(name)
    assert (found.kind, found.op, found.library) == (OTHER, op, None)
