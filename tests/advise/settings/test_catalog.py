"""The catalog of environment variables against facts looked up in NCCL's documentation and sources."""

from __future__ import annotations

import sys
from dataclasses import fields
from importlib import resources

import pytest

from nccl_insight.advise.settings.catalog import PREFIXES, catalog, edit_distance
from nccl_insight.advise.settings.check import check_setting
from nccl_insight.advise.settings.check.combine import check_together
from nccl_insight.advise.settings.check.issue import Issue
from nccl_insight.base.versions import at_least, version_key

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


TYPES = {
    "bool", "int", "bool01", "boolword", "enum", "set", "level", "algo", "proto", "ctapolicy", "ifname", "hca",
    "hostport", "path", "float", "string",
}  # fmt: skip


def test_every_entry_is_complete() -> None:
    data = catalog()
    assert len(data.variables) > 500
    for name, variable in data.variables.items():
        assert variable.type in TYPES, name
        assert variable.source in data.sources, name
        assert variable.library in {
            "nccl", "rccl", "ofi", "libfabric", "sharp-plugin", "nccl-plugins", "torch", "rdma-core",
        }, name  # fmt: skip
        if variable.type in {"enum", "set"}:
            assert variable.values, name
        if variable.removed or variable.deprecated or variable.deprecated_any:
            assert variable.advice, name
        if variable.replaced_by:
            assert variable.replaced_by in data.variables, name
        for version in (variable.since, variable.until, variable.deprecated, variable.removed):
            assert version is None or version_key(version), name
        if variable.min is not None and variable.max is not None:
            assert variable.min < variable.max, name


@pytest.mark.parametrize(
    ("name", "since", "default"),
    [
        ("NCCL_IB_TIMEOUT", None, "20"),
        ("NCCL_NVLS_ENABLE", "2.17.1", "2"),
        ("NCCL_MAX_CTAS", "2.17.1", "unset"),
        ("NCCL_RAS_ENABLE", "2.24.3", "1"),
        ("NCCL_SOCKET_RETRY_CNT", "2.24.3", "34"),
        ("NCCL_CROSS_NIC", "2.5.6", "2"),
        ("NCCL_P2P_NET_CHUNKSIZE", "2.14.3", "131072"),
        ("NCCL_IB_QPS_PER_CONNECTION", "2.10.3", "1"),
        ("NCCL_NET_GDR_LEVEL", "2.4.2", "PXB"),
        ("NCCL_IB_AR_THRESHOLD", "2.6.4", "automatic"),
        ("NCCL_RUN_DIAGNOSTICS", "2.31.2", "0"),
        ("NCCL_IB_WQE_LATENCY_THRESHOLD_NS", "2.31.2", "0"),
        ("NCCL_GIN_PROXY_POLL_BATCH", "2.31.2", "32"),
    ],
)
def test_facts_of_releases(name: str, since: str | None, default: str) -> None:
    variable = catalog().variables[name]
    assert (variable.since, variable.default) == (since, default)


def test_defaults_that_changed() -> None:
    assert catalog().variables["NCCL_IB_TIMEOUT"].default_history == ("2.3.5: 14", "2.14.3: 18", "2.23.4: 20")


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("NCCL_NSOCS_PERTHREAD", "NCCL_NSOCKS_PERTHREAD"),
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOCKET_IFANME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_DISABLE_IB", "NCCL_IB_DISABLE"),
        ("NCLL_DEBUG", "NCCL_DEBUG"),
        ("nccl_debug", "NCCL_DEBUG"),
        ("NCCL_DEBUG_SUBSYSTEM", "NCCL_DEBUG_SUBSYS"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLNIG", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    ],
)
def test_nearest_name(typo: str, meant: str) -> None:
    assert catalog().nearest(typo) == meant


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_SOCKET_FAMILY", "NCCL_IB_CUDA_SUPPORT", "NCCL_FASTRAK_NUM_FLOWS", "NCCL_HOME", "NCCL_VERSION",
        "NCCL_GPUDIRECTTCPX_CTRL_DEV", "RCCL_MSCCL_ENABLE", "NCCL_ASYNC_ERROR_HANDLING", "NCCL_TOPO_DUMP_FILE_RANK",
        "NCCL_INSPECTOR_ENABLE", "OFI_NCCL_PROTOCOL", "NCCL_TUNER_CONFIG_PATH", "NCCL_RINGS",
    ],
)  # fmt: skip
def test_valid_names_are_known(name: str) -> None:
    assert catalog().known(name)


def test_other_peoples_names_are_not_ours() -> None:
    data = catalog()
    for name in ("PATH", "CCL_ATL_TRANSPORT", "HCCL_SOCKET_IFNAME", "MASTER_ADDR", "CUDA_VISIBLE_DEVICES", "_DEBUG"):
        assert not data.relevant(name)
    assert all(data.relevant(f"{prefix}X") for prefix in PREFIXES)


@pytest.mark.parametrize(
    ("left", "right", "distance"),
    [
        ("abc", "abc", 0),
        ("abc", "acb", 1),
        ("abc", "abd", 1),
        ("abc", "ab", 1),
        ("kitten", "sitting", 3),
        ("ab", "xyzab", 3),
    ],
)
def test_edit_distance(left: str, right: str, distance: int) -> None:
    assert edit_distance(left, right, 3) == distance
    assert edit_distance(right, left, 3) == distance


def test_edit_distance_stops_at_the_limit() -> None:
    assert edit_distance("kitten", "sitting", 2) == 3


def test_versions() -> None:
    assert version_key("2.21.5+cuda12.4") == (2, 21, 5)
    assert version_key("2.30.4-1") == (2, 30, 4)
    assert version_key("hello") is None
    assert at_least("2.21.5", "2.21") is True
    assert at_least("2.9.9", "2.21") is False
    assert at_least(None, "2.21") is None


def test_sections_read_one_by_one_are_the_file_read_at_once() -> None:
    text = resources.files("nccl_insight.advise.settings").joinpath("env_vars.toml").read_text(encoding="utf-8")
    whole = tomllib.loads(text)["variables"]
    assert list(catalog().variables) == list(whole)
    for name, given in whole.items():
        read = catalog().variables[name]
        for key, value in given.items():
            assert getattr(read, key) == (tuple(value) if isinstance(value, list) else value), name
        unset = [f for f in fields(read) if f.name not in given and f.name != "name"]
        assert all(getattr(read, f.name) == f.default for f in unset), name


def judged(settings: dict[str, str]) -> list[Issue]:
    single = [issue for name, value in settings.items() for issue in check_setting(name, value)]
    return [*single, *check_together(settings, None)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"NCCL_DEBUG": "ERROR"}, "RCCL and NCCLX only"),
        ({"NCCL_IB_TIMEOUT": "0"}, "hang forever"),
        ({"NCCL_IB_TIMEOUT": "32"}, "hang forever"),
        ({"NCCL_BRAND_NEW_THING": "1"}, "not in the catalog of this tool (NCCL up to 2.32.6"),
    ],
)
def test_wording_of_doubtful_settings(settings: dict[str, str], words: str) -> None:
    issues = judged(settings)
    assert any(words in issue.title or words in issue.explanation for issue in issues), issues


@pytest.mark.parametrize(
    "settings",
    [
        {"NCCL_DEBUG": "ATTN"},
        {"NCCL_IB_TIMEOUT": "22"},
        {"NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "1"},
        {"NCCL_RUN_RAS_DIAGNOSTICS": "1", "NCCL_IB_WQE_LATENCY_THRESHOLD_NS": "100000"},
        {"NCCL_LOG_PLUGIN": "/opt/x.so"},
    ],
)
def test_settings_that_are_no_mistake(settings: dict[str, str]) -> None:
    loud = {"env-unknown-name", "env-contradiction", "env-invalid-value"}
    assert [issue for issue in judged(settings) if issue.name in loud] == []
