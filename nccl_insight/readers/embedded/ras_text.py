"""The report of NCCL's RAS client (``ncclras`` or port 28028) as text, among lines of text.

Values can be garbage (releases before 2.27.5 report communicators that do not exist); they are kept as printed.
"""

import re
from typing import Final

import polars as pl

from nccl_insight.base import texts
from nccl_insight.tables.schema import of_input, of_rows

_RE: Final = texts.compiled(__file__)

SCHEMA: Final = of_input("ras")
MARK = r"Group +Comms +Nodes|Job summary|Communicators\.\.\.|\((?:0x)?[0-9a-f]{6,16}\) (?:MISMATCH|INCOMPLETE|ERROR)"
MONITOR = r"RAS Monitor Mode|\[[0-9 :-]{19}\] PEER_[A-Z_]+: Process [0-9]+ on node"
MARK = rf"{MARK}|{MONITOR}"
NEAR = (
    r"^\s*(?:[0-9]+\s+[0-9]+\s+[0-9]+\s+[0-9-]+\s+[0-9]+\s+[0-9]+\s+[A-Z]|#[0-9]+-[0-9]+ \(|INCOMPLETE$|DEAD$"
    r"|TIMEOUT$|Missing communicator data|The missing rank|Rank [0-9]+ |Process [0-9]+ on node|[0-9]+ ranks? "
    r"|[0-9]+ job process|Encountered [0-9]+|Communicator ranks have|Communicators\.\.\.|(?:Init|Asynchronous)"
    r"|\[[0-9 :-]+\] [A-Z_]+:)"
)


def scan_lines(lines: pl.DataFrame) -> pl.DataFrame:
    """Facts of RAS reports in ``lines`` (``line``, ``text``), one row each; ``event`` says which:

    ``group`` (a row of the table of communicators), ``incomplete``/``incomplete_member``,
    ``dead``/``dead_member``, ``mismatch``/``mismatch_member``, ``error``/``error_member``, ``timeout``, ``peer``
    (monitor mode). ``report`` counts reports in the text. Empty unless the text holds a report.
    """
    text = pl.col("text")
    if lines.filter(text.str.contains(MARK)).is_empty():
        return pl.DataFrame(schema=SCHEMA)
    near = lines.filter(text.str.contains(NEAR))
    reader = _Reader()
    for line, raw in near.select("line", "text").iter_rows():
        reader.take(line, raw.strip())
    return of_rows(reader.rows, SCHEMA)


class _Reader:
    """Keeps the section that following lines belong to."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self._section = ""
        self._comm: str | None = None
        self._group: int | None = None
        self._op: str | None = None
        self._claim: dict[str, object] = {}
        self._report = 0

    def take(self, line: int, text: str) -> None:
        """Reads one line."""
        if text.startswith("Communicators..."):
            self._report += 1
            self._section, self._comm = "", None
        elif match := _RE["group"].match(text):
            groups = {"group": 1, "comms": 2, "n_nodes": 3, "ranks_per_comm": 5, "ranks_in_group": 6}
            counts = {name: int(match[n]) for name, n in groups.items()}
            self._add(line, text, "group", **counts, ranks_per_node=match[4], status=match[7], errors=match[8])
        elif match := _RE["comm"].match(text):
            self._section, self._group = match[3].split(",")[0].lower(), int(match[1][:9])
            self._comm, self._op, self._claim = match[2].lower().rjust(16, "0"), None, {}
        elif text in ("INCOMPLETE", "DEAD", "TIMEOUT"):
            self._section, self._comm, self._group, self._op = text.lower(), None, None, None
        elif match := _RE["peer"].match(text):
            self._add(line, text, "peer", status=match[2], **_owner(text[match.end() :]))
        elif match := _RE["kind"].match(text):
            self._op = match[1]
        elif self._section:
            self._detail(line, text)

    def _detail(self, line: int, text: str) -> None:
        if text.startswith("The missing rank"):
            for number in re.findall(r"\d{1,12}", text.split(":", 1)[-1])[:1000]:
                self._add(line, text, "incomplete_member", comm_hash=self._comm, group=self._group, rank=int(number))
            return
        member = _RE["rank"].match(text) or text.startswith("Process ")
        columns = self._columns(text)
        if member:
            number = _RE["rank"].match(text)
            gpu = _RE["gpu"].search(text)
            columns = {**self._claim, **columns, **_owner(text)}
            columns["rank"] = int(number[1]) if number else None
            columns["gpu"] = gpu[1] if gpu else columns.get("gpu")
            columns.pop("count", None)
            self._add(
                line, text, f"{self._section}_member", comm_hash=self._comm, group=self._group, op=self._op, **columns
            )
            return
        count = _RE["count"].search(text)
        self._claim = columns
        where = {"comm_hash": self._comm, "group": self._group, "op": self._op}
        self._add(line, text, self._section, **where, count=int(count[1]) if count else None, **columns)

    @staticmethod
    def _columns(text: str) -> dict[str, object]:
        found: dict[str, object] = {}
        if match := _RE["launched"].search(text):
            found["op_count"] = int(match[1]) if match[1] else 0
        if match := _RE["status"].search(text):
            found["status"] = match[1]
        return found

    def _add(self, line: int, text: str, event: str, **columns: object) -> None:
        self.rows.append({"line": line, "event": event, "report": self._report, "text": text[:300], **columns})


def _owner(text: str) -> dict[str, object]:
    match = _RE["owner"].search(text)
    if match is None:
        return {}
    return {"pid": int(match[1]), "host": match[2], **({"gpu": match[3].strip()} if match[3] else {})}
