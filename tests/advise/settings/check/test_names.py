"""Checks of names."""

from __future__ import annotations

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check.names import check_deprecated, check_name, check_too_new
from nccl_insight.base.model import Severity


def test_names() -> None:
    typo = check_name("NCCL_NSOCS_PERTHREAD")
    assert typo is not None
    assert (typo.severity, typo.expected) == (Severity.WARNING, "NCCL_NSOCKS_PERTHREAD")
    stranger = check_name("NCCL_MY_OWN_THING_ENTIRELY")
    assert stranger is not None
    assert stranger.severity is Severity.INFO
    timeout = check_name("NCCL_TIMEOUT")
    assert timeout is not None
    assert "init_process_group" in timeout.title
    assert check_name("MASTER_PORT") is None


def test_no_listed_name_is_called_unknown() -> None:
    assert [name for name in catalog().variables if check_name(name) is not None] == []


def test_deprecation_follows_the_release() -> None:
    assert check_deprecated("NCCL_IB_GID_INDEX", "2.18.3") is None
    found = check_deprecated("NCCL_IB_GID_INDEX", "2.21.5")
    assert found is not None
    assert (found.name, found.severity) == ("env-deprecated", Severity.INFO)
    gone = check_deprecated("NCCL_IB_CUDA_SUPPORT", "2.27.7")
    assert gone is not None
    assert gone.severity is Severity.WARNING
    assert "NCCL_NET_GDR_LEVEL" in gone.next_step
    assert check_deprecated("NCCL_IB_CUDA_SUPPORT", "2.3.7") is None
    recent = check_deprecated("NCCL_WORK_FIFO_DEPTH", None)
    assert recent is not None
    assert recent.severity is Severity.INFO


def test_names_of_later_releases() -> None:
    found = check_too_new("NCCL_RAS_ENABLE", "2.18.3")
    assert found is not None
    assert "2.24" in found.title
    assert check_too_new("NCCL_RAS_ENABLE", "2.27.7") is None
    assert check_too_new("NCCL_RAS_ENABLE", None) is None
