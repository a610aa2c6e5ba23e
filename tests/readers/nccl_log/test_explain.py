"""What a single line means, in words, for people."""

from __future__ import annotations

from nccl_insight.readers.nccl_log.explain import explain


def test_a_line_is_explained_by_its_head_its_rule_and_its_values() -> None:
    said = explain("gpu1:11:22 [3] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>")
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert {"level INFO", "host gpu1", "pid 11", "tid 22"} <= set(lines)
    assert any(line.startswith("message bootstrap_using (") for line in lines)
    assert any(line.endswith(" eth0") for line in lines)


def test_an_unknown_text_is_near_to_rules_that_follow_it() -> None:
    said = explain("gpu1:11:22 [3] NCCL INFO Bootstrap : Using eth0 and")
    assert "no rule knows this text; nearest:" in said
    assert "bootstrap_using" in said
    cut = explain("gpu1:11:22 [3] NCCL INFO /gdrdrv gdr_open() failed;")
    assert "note_gdr_open follows it up to character 26: '/gdrdrv gdr_open() failed;' ... then it wants more\n" in cut


def test_a_line_of_another_program_is_said_to_be_one() -> None:
    assert explain("loss 2.5").startswith("not an NCCL line")
    assert explain("").startswith("not an NCCL line")
