"""What a pasted line means: diagnosis, role, since when it is printed, what comes before it, what to do."""

from __future__ import annotations

from nccl_insight.report.line import explain_text


def test_a_line_without_a_fault_tells_what_nccl_does() -> None:
    said = explain_text("gpu1:11:22 [3] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>")
    assert said is not None
    assert "tells       nothing is wrong: what NCCL does" in said
    assert "message     bootstrap_using (" in said
    assert "eth0" in said.split("values", 1)[1]


def test_a_failure_tells_its_diagnosis_and_what_to_do() -> None:
    head = "gpu1:11:22 [3] misc/socket.cc:484 NCCL WARN "
    said = explain_text(head + "socketStartConnect: Connect to 10.0.0.2<4711> failed : Connection refused")
    assert said is not None
    assert "means       bootstrap-connect-refused (NI" in said
    assert "nccl-insight explain NI" in said


def test_a_part_of_known_texts_lists_them_and_nonsense_nothing() -> None:
    said = explain_text("Bootstrap : Using")
    assert said is not None
    assert "known message" in said or "message     bootstrap_using" in said
    assert explain_text("zqzq nobody prints this zqzq") is None
