# ruff: noqa: E501 - log lines and expected output are long
"""Terminal output: verdict line, lines per finding, what was not judged, hostile text."""

from __future__ import annotations

import dataclasses

import pytest

from nccl_insight.base.model import Analysis, Coverage, Evidence
from nccl_insight.engine.steps import steps_of
from nccl_insight.report import text, words
from tests import render_samples as samples


def test_verdict_line_of_a_failing_run_has_counts_size_version_and_coverage() -> None:
    first = text.render(samples.failing()[0]).splitlines()[0]
    assert first == "FAIL  Queue pair set-up to 10.1.7.23 timed out on 2 ranks"
    second = text.render(samples.failing()[0]).splitlines()[1]
    assert second == (
        "  2 errors, 2 warnings, 64 ranks on 8 nodes, NCCL 2.27.3 and 2.26.2, 61,204 lines (99.0% of 58,000 NCCL lines understood)"
    )


def test_verdict_line_of_a_healthy_run_says_ok_and_counts_notes() -> None:
    out = text.render(samples.healthy()[0])
    assert out.startswith("OK  No problem found\n  1 note, 16 ranks on 2 nodes, NCCL 2.27.3")


def test_a_finding_about_a_whole_file_shows_what_was_seen_in_it() -> None:
    first = text.render(samples.failing()[0])
    evidence = Evidence("rank2.json.gz", 0, "rank 2: last 6 of 6, worst 832 us", primary=True)
    analysis = samples.failing()[0]
    finding = dataclasses.replace(analysis.findings[0], evidence=(evidence,))
    shown = text.render(dataclasses.replace(analysis, findings=(finding,)))
    assert "   --> rank2.json.gz" in shown
    assert "    |  rank 2: last 6 of 6, worst 832 us" in shown
    assert "rank 2: last" not in first


def test_not_judged_is_neither_ok_nor_fail() -> None:
    analysis = Analysis("not_judged", (), samples.healthy()[0].job, Coverage(lines=3, foreign=3), (), samples.TOOL)
    out = text.render(analysis)
    assert out.startswith("NOT JUDGED  ")
    assert "3 lines (none from NCCL)" in out


def test_a_finding_shows_its_place_its_line_and_what_to_do() -> None:
    block = text.render(samples.failing()[0]).split("\n\n")[1].splitlines()
    assert block[0] == "error[NI223] ib-qp-timeout: Queue pair set-up to 10.1.7.23 timed out on 2 ranks"
    assert block[1] == "   --> job-4711/all.log:214   1 more with -v, ranks 40-41 on gpu-node-05"
    assert block[2].startswith("    |  gpu-node-05:")
    assert block[-1] == "    = more: nccl-insight explain NI223"
    assert "    = expected: a connected queue pair in under 1 s" in block
    assert any(line.startswith("    = do: Run `ibping") for line in block)


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ("df -h /dev/shm; ls -l /dev/shm   # inside the container; fix: docker run --shm-size=1g",
         [("check", "df -h /dev/shm; ls -l /dev/shm", "inside the container"), ("fix", "docker run --shm-size=1g", "")]),
        ("ip -brief address; export NCCL_SOCKET_IFNAME=eth0   # or ^docker",
         [("check", "ip -brief address", "or ^docker"), ("fix", "export NCCL_SOCKET_IFNAME=eth0", "")]),
        ("compare the work per rank", [("do", "compare the work per rank", "")]),
        ("grep -E 'a;b' x", [("check", "grep -E 'a;b' x", "")]),
        ("nvidia-smi topo -m; then NCCL_NET_GDR_LEVEL=SYS python x.py",
         [("check", "nvidia-smi topo -m", ""), ("fix", "NCCL_NET_GDR_LEVEL=SYS python x.py", "")]),
        ("dmesg -T | grep oom   # on gpu02; sacct -j <job>   # or kubectl describe pod",
         [("check", "dmesg -T | grep oom", "on gpu02"), ("check", "sacct -j <job>", "or kubectl describe pod")]),
        ("nvidia-smi -L   # all must see the same GPUs; or NCCL_CUMEM_ENABLE=0",
         [("check", "nvidia-smi -L", "all must see the same GPUs"), ("fix", "NCCL_CUMEM_ENABLE=0", "")]),
        ("mlxlink -d mlx5_1   # link errors; the switch port's log",
         [("check", "mlxlink -d mlx5_1", "link errors; the switch port's log")]),
        ("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL <the same job>   # shows the call; then compare the ranks",
         [("check", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL <the same job>", "shows the call"),
          ("do", "compare the ranks", "")]),
        ("NCCL_CROSS_NIC=0 <the same job>   # if that works, the fabric is rail-only",
         [("check", "NCCL_CROSS_NIC=0 <the same job>", "if that works, the fabric is rail-only")]),
        ("ls -ld /dev/shm; id; mount | grep /dev/shm   # inside the container; fix: chmod 1777 /dev/shm",
         [("check", "ls -ld /dev/shm; id; mount | grep /dev/shm", "inside the container"),
          ("fix", "chmod 1777 /dev/shm", "")]),
        ("ibstat   # the port; fix: repair the cable; the job runs slower until then",
         [("check", "ibstat", "the port"), ("do", "repair the cable; the job runs slower until then", "")]),
        ("NCCL_CROSS_NIC=0 on fabrics without links between rails; otherwise repair routing",
         [("fix", "NCCL_CROSS_NIC=0", "on fabrics without links between rails"), ("do", "otherwise repair routing", "")]),
        ("docker run --shm-size=1g (or --ipc=host)", [("fix", "docker run --shm-size=1g", "or --ipc=host")]),
        ("unset NCCL_ALGO (2.21 and later), and compare", [("fix", "unset NCCL_ALGO", "2.21 and later, and compare")]),
        ("iperf3 -s on one host; iperf3 -c <the other host> on the other",
         [("check", "iperf3 -s", "on one host"), ("check", "iperf3 -c <the other host>", "on the other")]),
        ("ps -o pid,cmd -p $(pgrep -f 'train on gpu')", [("check", "ps -o pid,cmd -p $(pgrep -f 'train on gpu')", "")]),
        ("export the variable that the line names", [("do", "export the variable that the line names", "")]),
        ("", []),
    ],
)  # fmt: skip
def test_checks_and_fixes_are_commands_of_their_own(given: str, steps: list[tuple[str, str, str]]) -> None:
    assert [(s.label, s.text, s.where) for s in steps_of(given)] == steps


def test_a_place_repeats_nothing_of_the_headline_and_found_only_what_is_new() -> None:
    whole = dataclasses.replace(
        samples.finding(),
        title="Rank 3 never came (2 lines, ranks 40-41 on gpu-node-05)",
        ranks=(40, 41),
        hosts=("gpu-node-05",),
        observed="Rank 3 never came; rank 4 waits",
        unit="",
    )
    out = text.render(Analysis("findings", (whole,), samples.healthy()[0].job, Coverage(), (), samples.TOOL))
    place = next(line for line in out.splitlines() if "-->" in line)
    assert "ranks 40-41" not in place
    assert "    = found: rank 4 waits" in out.splitlines()


def test_a_unit_follows_a_number_and_never_a_phrase() -> None:
    bad = dataclasses.replace(
        samples.finding(), observed="0 of 368", expected="GDRDMA where GPU and NIC can do it", unit="connections"
    )
    out = text.render(Analysis("findings", (bad,), samples.healthy()[0].job, Coverage(), (), samples.TOOL))
    assert "can do it connections" not in out
    numbers = dataclasses.replace(bad, observed="41", expected=">= 180", unit="GB/s")
    assert words.compared(numbers) == "observed 41 GB/s, expected >= 180 GB/s"


def test_a_cascade_names_its_root_and_low_confidence_is_said() -> None:
    out = text.render(samples.failing()[0])
    assert "follows from ib-qp-timeout" in out
    assert "= confidence: medium" in out


def test_footer_says_what_was_not_judged_what_was_suppressed_and_what_was_not_understood() -> None:
    out = text.render(samples.failing()[0])
    assert "Suppressed: NI106 env-deprecated (known on this cluster, until 2027-01-01)" in out
    assert "Not understood: 600 NCCL lines of unknown kind, 4 torn lines." in out
    assert "Note: rank 63's log ends in the middle of a line" in out


def test_quiet_gives_the_verdict_line_only_and_very_quiet_nothing() -> None:
    analysis, _ = samples.failing()
    assert len(text.render(analysis, verbosity=-1).splitlines()) == 1
    assert text.render(analysis, verbosity=-2) == ""


def test_verbose_lists_all_evidence() -> None:
    out = text.render(samples.failing()[0], verbosity=1)
    assert "job-4711/all.log:215: gpu-node-05:24140:24640 [0] NCCL INFO transport/net_ib.cc:1293 -> 2" in out


def test_width_wraps_but_does_not_change_the_words() -> None:
    analysis, _ = samples.failing()
    wrapped = text.render(analysis, width=80)
    assert [w for w in wrapped.split() if w not in ("...",)]
    assert (
        max(len(line) for line in wrapped.splitlines() if not line.startswith(("  NCCL", "    = more", "   -->"))) <= 80
    )
    assert "job-4711/all.log:214" in wrapped


def test_hostile_evidence_cannot_move_the_cursor_or_fake_a_line() -> None:
    nasty = "\x1b[2J\x1b[1;1HOK 0 errors\nERROR faked \u202egnp.exe\u2066 \x9b31m \x07 \udce2 \u200bzero"
    bad = dataclasses.replace(
        samples.finding(), observed="", expected="", title=nasty, hosts=(nasty,), evidence=(Evidence(nasty, 1, nasty, True),)
    )  # fmt: skip
    out = text.render(Analysis("findings", (bad,), samples.healthy()[0].job, Coverage(), (), samples.TOOL), verbosity=2)
    out.encode()
    assert not [c for c in out if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2066\u200b"]
    assert not [line for line in out.splitlines() if line.startswith("ERROR faked")]
    assert "\\u202egnp.exe" in out
