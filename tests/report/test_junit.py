"""JUnit XML: what fails, what passes, what is skipped, and that hostile text stays well-formed."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

from nccl_insight.base.model import Analysis, Coverage, Evidence, Severity
from nccl_insight.report import junit
from tests import render_samples as samples


def _suite(analysis: Analysis, **options: Severity) -> ElementTree.Element:
    suite = ElementTree.fromstring(junit.render(analysis, **options)).find("testsuite")
    assert suite is not None
    return suite


def test_errors_fail_warnings_pass_with_output_and_gaps_are_skipped() -> None:
    suite = _suite(samples.failing()[0])
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "9",
        "failures": "2",
        "errors": "0",
        "skipped": "4",
    }
    failed = [c.get("name") for c in suite.findall("testcase") if c.find("failure") is not None]
    assert failed == ["ib-qp-timeout", "version-mix"]
    failure = suite.find("testcase[@name='ib-qp-timeout']/failure")
    assert failure is not None
    assert failure.get("message") == "Queue pair set-up to 10.1.7.23 timed out on 2 ranks"
    assert "do: Run `ibping" in (failure.text or "")
    assert suite.findtext("testcase[@name='peer-died']/system-out", "").startswith("WARNING NI501")


def test_fail_on_warning_makes_warnings_failures() -> None:
    assert _suite(samples.failing()[0], fail_on=Severity.WARNING).get("failures") == "4"


def test_a_healthy_run_has_a_passing_case() -> None:
    suite = _suite(samples.healthy()[0])
    assert suite.get("failures") == suite.get("errors") == "0"
    assert suite.findtext("testcase[@name='verdict']/system-out", "").startswith(
        "OK: No problem found. 16 ranks on 2 nodes"
    )


def test_a_run_that_was_not_judged_is_an_error_not_a_pass() -> None:
    suite = _suite(Analysis("not_judged", (), samples.healthy()[0].job, Coverage(), (), samples.TOOL))
    assert suite.get("errors") == "1"


def test_characters_that_xml_forbids_are_shown_as_escapes() -> None:
    nasty = "]]><!-- &lt; \x00\x0b\ufffe\uffff\udc80 <failure/>"
    bad = dataclasses.replace(samples.finding(), title=nasty, evidence=(Evidence(nasty, 1, nasty, True),))
    suite = _suite(Analysis("findings", (bad,), samples.healthy()[0].job, Coverage(), (), samples.TOOL))
    assert suite.get("failures") == "1"
    message = suite.find("testcase/failure")
    assert message is not None
    assert message.get("message") == "]]><!-- &lt; \\x00\\x0b\\ufffe\\uffff\\udc80 <failure/>"
