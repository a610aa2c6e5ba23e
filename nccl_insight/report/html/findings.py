"""The findings, each with its figures and its evidence among the lines around it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nccl_insight.base import toml
from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Analysis, Evidence, Finding, FindingClass
from nccl_insight.base.units import format_ranks, plural
from nccl_insight.report import words
from nccl_insight.report.figures.base import Figure
from nccl_insight.report.sanitize import one_line, sanitize
from nccl_insight.views.page import AROUND, EVIDENCE, FINDINGS

LINE_LIMIT = 500
_RELATED = 4
_MARKED = 256
#: Words of actions and classes; figures by family of diagnoses (first digit of the code), the most telling first.
WORDS: Final[Mapping[str, Any]] = toml.beside(__file__)
Context = Mapping[tuple[str, int], str]


@dataclass(frozen=True)
class Row:
    """A line of an input or, without a number, what was measured; ``far``: lines before it are left out."""

    text: str
    number: int = 0
    hit: bool = True
    far: bool = False
    source: str = ""


@dataclass(frozen=True)
class Block:
    """Rows of one input, or of evidence over whole inputs; ``said`` is for screen readers."""

    caption: str
    said: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Card:
    """A finding in full: anchor of its cause, where it is, the figures that show it, evidence and how much is left."""

    finding: Finding
    cause: str | None
    where: str
    figures: tuple[Figure, ...]
    blocks: tuple[Block, ...]
    left: int

    @property
    def marks(self) -> bool:
        """Whether its ranks can be marked in the figures."""
        return 0 < len(self.finding.ranks) <= _MARKED


def related(finding: Finding, figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """The figures that show what a finding is about, the most telling first."""
    there = {f.id: f for f in figures}
    wanted = WORDS["figures"].get(finding.code[:3], ()) if finding.finding_class is not FindingClass.INPUT else ()
    return tuple(there[name] for name in wanted if name in there)[:_RELATED]


def proof(analysis: Analysis, figures: Sequence[Figure]) -> Figure | None:
    """The figure of the first screen: what shows the first cause, or the machine where nothing is wrong."""
    causes = analysis.causes
    shown = related(causes[0], figures) if causes else figures[:1] if analysis.status == "ok" else ()
    return next(iter(shown), None)


def cards(analysis: Analysis, context: Context, figures: Sequence[Figure] = ()) -> list[Card]:
    """The first findings in full.

    ``context``: lines around the evidence by (path, line). ``figures``: those of the report; each card links to the
    ones that show what it is about.
    """
    items = analysis.findings[:FINDINGS]
    anchors: dict[str, str] = {}
    for item in items:
        for key in (item.name, item.code, item.anchor):
            anchors.setdefault(key, item.anchor)
    return [
        Card(
            item,
            anchors.get(item.caused_by or ""),
            _where(item),
            related(item, figures),
            tuple(_blocks(item, context)),
            len(item.evidence[EVIDENCE:]),
        )
        for item in items
    ]


def _where(finding: Finding) -> str:
    parts = []
    ranks, hosts = len(set(finding.ranks)), len(finding.hosts)
    if ranks:
        shown = format_ranks(finding.ranks, 40)
        parts.append(f"rank {shown}" if ranks == 1 else f"{plural(ranks, 'rank')}: {shown}")
    if hosts:
        named = words.host_list(finding.hosts, 16)
        parts.append(f"host {named}" if hosts == 1 else f"{plural(hosts, 'host')}: {named}")
    if finding.comm_id:
        parts.append(f"communicator {one_line(finding.comm_id, 60)}")
    return "; ".join(parts)


def _blocks(finding: Finding, context: Context) -> Iterator[Block]:
    """Excerpts by input, with the lines around them where they can be read back."""
    name, shown = f"{finding.anchor} {finding.name}", finding.evidence[:EVIDENCE]
    by_input: dict[str, list[Evidence]] = defaultdict(list)
    for item in shown:
        if item.line:
            by_input[item.input].append(item)
    for path, items in by_input.items():
        yield _excerpt(name, path, items, context)
    if whole := [item for item in shown if not item.line]:
        yield _measured(name, whole)


def _measured(name: str, items: Sequence[Evidence]) -> Block:
    """Evidence that is no line: what was counted, measured or looked for in vain, and in which input."""
    folder = words.common_folder(e.input for e in items)
    rows = []
    for item, after in zip(items, [*items[1:], None], strict=True):
        # Lines of one input that stand together name it once, under the last of them.
        told = after is not None and after.input == item.input
        path = one_line(item.input.removeprefix(folder), 300) or "all inputs"
        rows.append(Row(sanitize(item.text, LINE_LIMIT), source="" if told else path))
    caption = f"Over whole inputs in {one_line(folder, 300)}" if folder else "Over the whole input"
    return Block(caption, f"Evidence of {name} over the whole input", tuple(rows))


def _excerpt(name: str, path: str, items: Sequence[Evidence], context: Context) -> Block:
    hits = {e.line: e.text for e in items if e.line}
    near = {(path, line) for number in hits for line in range(number - AROUND, number + AROUND + 1)}
    lines = {key[1]: context[key] for key in near if key in context} | hits
    rows = tuple(
        Row(
            sanitize(lines[number].rstrip("\r\n"), LINE_LIMIT),
            number,
            number in hits,
            far=number - 1 not in lines and number > min(lines),
        )
        for number in sorted(lines)
    )
    caption = f"{one_line(path, 300) or 'input'}:{','.join(map(str, sorted(hits)))}"
    return Block(caption, f"Evidence of {name} in {one_line(path, 120)} line {min(hits)}", rows)
