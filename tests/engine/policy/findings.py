"""Findings for a policy to judge."""

from __future__ import annotations

from nccl_insight.base.model import Action, Confidence, Evidence, Finding, FindingClass, Role, Severity


def finding(name: str = "peer-died", title: str = "gone", host: str = "gpu07") -> Finding:
    return Finding(
        code="NI501", name=name, finding_class=FindingClass.SECONDARY, severity=Severity.ERROR,
        confidence=Confidence.MEDIUM, action=Action.TRIAGE, title=title, explanation="", next_step="look",
        observed="", expected="", unit="", ranks=(), hosts=(host,), comm_id=None, role=Role.INDEPENDENT,
        caused_by=None, evidence=(Evidence("run.log", 3, "Connection closed", True),), sources=(),
        fingerprint="0" * 16,
    )  # fmt: skip
