"""What programs beside NCCL say around a name."""

from __future__ import annotations

from nccl_insight.share.redact.said import names, numbered_part, others


def test_lines_of_nccl_are_left_to_others() -> None:
    lines = ["loss 2.5", "gpu1:7:7 [0] NCCL INFO NCCL_ALGO set by environment to Ring.", "loss 2.5", "x"]
    assert others(lines) == ["loss 2.5", "x"]


def test_hosts_users_and_lists_are_learned_from_what_is_said_around_them() -> None:
    found = set(names(["session opened for user mwinter", "srun --nodelist=ares[01-16,20] ./train"]))
    assert ("user", "mwinter", "") in found
    assert ("series", "ares", "01-16,20") in found
    assert list(names(["loss 2.5", ""])) == []


def test_a_part_of_a_machine_with_its_number_is_no_name() -> None:
    assert numbered_part("rank3")
    assert numbered_part("gpu07")
    assert not numbered_part("ares07")
    assert not numbered_part("rank")
