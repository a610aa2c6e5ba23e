"""JUnit XML for CI systems: a test case per finding, skipped ones for what was not judged."""

from xml.etree import ElementTree

from nccl_insight.base.model import Analysis, Finding, Severity
from nccl_insight.report import words
from nccl_insight.report.sanitize import one_line, sanitize


def render(analysis: Analysis, *, fail_on: Severity = Severity.ERROR) -> str:
    """The analysis as one test suite.

    Findings at or above ``fail_on`` are failures, quieter ones pass with their text as output, diagnoses
    that were not judged are skipped, and a run that could not be judged at all is an error.
    """
    suite = ElementTree.Element("testsuite", {"name": "nccl-insight"})
    _verdict(suite, analysis)
    for finding in analysis.findings:
        case = _case(suite, finding.name, finding.code, finding.anchor)
        if finding.severity.order <= fail_on.order:
            failure = ElementTree.SubElement(
                case, "failure", {"type": finding.severity.value, "message": one_line(finding.title, 500)}
            )
            failure.text = _details(finding)
        else:
            ElementTree.SubElement(case, "system-out").text = _details(finding)
    for item in analysis.not_judged:
        reason = ": ".join(filter(None, [item.reason, item.how_to_enable]))
        ElementTree.SubElement(_case(suite, item.name, "not-judged", ""), "skipped", {"message": one_line(reason, 500)})
    for hidden in analysis.suppressed:
        reason = f"suppressed: {hidden.reason}" + (f", until {hidden.until}" if hidden.until else "")
        case = _case(suite, hidden.finding.name, "suppressed", hidden.finding.anchor)
        ElementTree.SubElement(case, "skipped", {"message": one_line(reason, 500)})
    return document(suite)


def document(suite: ElementTree.Element) -> str:
    """A whole document of one suite of cases, which it counts."""
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite)))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _case(suite: ElementTree.Element, name: str, group: str, anchor: str) -> ElementTree.Element:
    number = anchor.rpartition("-")[2] if anchor else ""
    shown = one_line(name, 200) + (f" #{number}" if number not in ("", "1") else "")
    return ElementTree.SubElement(suite, "testcase", {"classname": f"nccl-insight.{group}", "name": shown})


def _verdict(suite: ElementTree.Element, analysis: Analysis) -> None:
    case = _case(suite, "verdict", "analysis", "")
    summary = f"{analysis.verdict}: {words.cause(analysis)}. {words.facts_line(analysis)}".strip()
    if analysis.status == "not_judged":
        ElementTree.SubElement(case, "error", {"type": "not-judged", "message": summary})
    else:
        ElementTree.SubElement(case, "system-out").text = summary


def _details(finding: Finding) -> str:
    rows = [f"{finding.severity.word.upper()} {finding.code} {finding.name}: {one_line(finding.title, 500)}"]
    rows += [
        f"{label}: {text}"
        for label, text in (
            ("where", words.affected(finding)),
            ("why", words.compared(finding)),
            ("do", one_line(finding.next_step, 1000)),
        )
        if text
    ]
    rows += map(words.quoted, finding.evidence[:10])
    return sanitize("\n".join(rows))
