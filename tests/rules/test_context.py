"""What a check is given."""

from __future__ import annotations

from nccl_insight.base.model import Ref, Severity
from nccl_insight.rules.context import Context, hit
from nccl_insight.tables.run import Asked
from tests.by_hand import rows, run

LINES = rows(
    "errors",
    *(
        {"input_id": 0, "line": n, "rank": r, "host": h}
        for n, r, h in ((4, 1, "b"), (7, 0, "a"), (8, 1, "b"), (9, 2, None))
    ),
)


def test_a_finding_is_about_the_ranks_and_hosts_of_its_rows() -> None:
    found = hit(LINES, "it broke", severity=Severity.WARNING)
    assert (found.title, found.severity) == ("it broke", Severity.WARNING)
    assert found.ranks == (0, 1, 2)
    assert found.hosts == ("a", "b")
    assert [ref.line for ref in found.evidence] == [4, 7, 8]


def test_whom_it_is_about_may_be_others_than_whose_lines_show_it() -> None:
    found = hit([Ref(0, 4)], "it broke", whom=[3, "c", None])
    assert (found.ranks, found.hosts, found.evidence) == ((3,), ("c",), (Ref(0, 4),))
    other = hit(LINES.head(1), "it broke", whom=LINES.tail(1))
    assert (other.ranks, other.hosts) == ((2,), ())
    assert [ref.line for ref in other.evidence] == [4]
    bare = hit(LINES.drop("rank", "host"), "it broke")
    assert (bare.ranks, bare.hosts) == ((), ())


def test_a_threshold_is_that_of_the_policy_or_of_the_page() -> None:
    one = run()
    assert Context(one, "slow-rank", {"ratio": 1.5})["ratio"] == 1.5
    told = one.judged_as(Asked(thresholds={"slow-rank": {"ratio": 2.0}}))
    assert Context(told, "slow-rank", {"ratio": 1.5})["ratio"] == 2.0
    assert Context(told, "other", {"ratio": 1.5})["ratio"] == 1.5


def test_all_lines_are_one_finding_and_no_line_is_none() -> None:
    line = {"input_id": 0, "diagnosis": "connection-refused", "role": "root", "level": "WARN"}
    loud = run(errors=[{**line, "line": 3, "rank": 1, "host": "a"}, {**line, "line": 5, "rank": 2, "host": "b"}])
    (found,) = Context(loud, "connection-refused").report("Refused")
    assert (found.ranks, found.hosts, found.severity) == ((1, 2), ("a", "b"), None)
    assert [ref.line for ref in found.evidence] == [3, 5]
    quiet = run(errors=[{**line, "line": 3, "level": "INFO"}])
    (note,) = Context(quiet, "connection-refused").report("Refused")
    assert note.severity is Severity.INFO
    assert list(Context(loud, "another").report("Refused")) == []
    assert Context(loud, "another").lines("connection-refused") is not None
