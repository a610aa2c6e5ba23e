"""Ends of processes from exit codes, signals, statuses of wait(2) and words of schedulers."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.tables.normalise.ends import CRASHED, EFFECT, ENDED, FAILED, KILLED, OTHER, end_family


def test_an_exit_code_of_python_or_a_shell_is_a_signal() -> None:
    """Python has the signal below zero, a shell above 128; signal(7): 9 KILL, 11 SEGV, 15 TERM, 6 ABRT."""
    rows = end_family(pl.DataFrame({"exit_code": [-9, 137, 139, 143, -6, 1, 0, None]}))
    assert rows["signal"].to_list() == [9, 9, 11, 15, 6, None, None, None]
    assert rows["end_kind"].to_list() == [KILLED, KILLED, CRASHED, EFFECT, CRASHED, FAILED, OTHER, OTHER]


def test_a_status_of_wait_holds_the_code_times_256_or_the_signal() -> None:
    """wait(2): 9 and 137 (with a core) are signal 9, 139 is signal 11 with a core, 256 is exit code 1."""
    rows = end_family(pl.DataFrame({"wait_status": [9, 139, 256, 3]}))
    assert rows["signal"].to_list() == [9, 11, None, None]
    assert rows["exit_code"].to_list() == [None, None, 1, 3]
    assert rows["end_kind"].to_list() == [KILLED, CRASHED, FAILED, FAILED]


@pytest.mark.parametrize(
    ("column", "words", "kind"),
    [
        ("k8s_reason", "OOMKilled", KILLED), ("signal_text", "Segmentation fault", CRASHED),
        ("lsf_reason", "TERM_RUNLIMIT: job killed after reaching LSF run time limit.", KILLED),
        ("end_reason", "DUE TO TIME LIMIT", ENDED), ("end_reason", "PREEMPTION", ENDED),
        ("task_end", "Terminated", EFFECT), ("task_end", "Exited with exit code 7", FAILED),
    ],
)  # fmt: skip
def test_words_of_launchers_and_schedulers(column: str, words: str, kind: str) -> None:
    rows = end_family(pl.DataFrame({column: [words]}))
    assert rows["end_kind"].to_list() == [kind]


def test_of_the_codes_of_all_nodes_a_bystanders_is_not_the_end() -> None:
    rows = end_family(pl.DataFrame({"exit_codes": ["[0, 137, 1]", "[137, 137]", "[0, 0]"]}))
    assert rows["exit_code"].to_list() == [1, 137, 0]
    assert rows["end_kind"].to_list() == [FAILED, KILLED, OTHER]


def test_ends_that_several_files_tell_without_words() -> None:
    """Failures of torchrun on several hosts: a frame of several chunks, codes with and without a signal, no words."""
    parts = [pl.DataFrame({"exit_code": [code]}) for code in (1, 1, 1, 1, -6, 1, -9, 1)]
    rows = end_family(pl.concat(parts, rechunk=False))
    assert rows["signal"].to_list() == [None, None, None, None, 6, None, 9, None]
    assert rows["end_kind"].to_list() == [*[FAILED] * 4, CRASHED, FAILED, KILLED, FAILED]
