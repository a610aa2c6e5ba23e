"""Records as JSON objects, one per line, in file order (the output of ``parse``)."""

import re
from collections.abc import Iterable, Iterator, Mapping

import orjson
import polars as pl

from nccl_insight.base.grouping import grouped
from nccl_insight.inputs.find import InputFile
from nccl_insight.language.catalog import default_catalog
from nccl_insight.language.syntax import labels_of
from nccl_insight.readers.nccl_log.classify import Classifier
from nccl_insight.readers.nccl_log.log import all_results
from nccl_insight.readers.nccl_log.records import ChunkResult, attach_heads, with_constants
from nccl_insight.tables.normalise import NORMALISERS
from nccl_insight.tables.normalise.meaning import meanings

_HEAD = ("host", "pid", "tid", "dev")
_TAIL = ("level", "source", "timestamp", "launcher")


def _fields(frame: pl.DataFrame, steps: str) -> list[dict[str, object]]:
    """Captured and normalised columns of every row; rows that a normaliser split become lists again."""
    out = _told(frame)
    names = [s for s in steps.replace(",", " ").split() if s in NORMALISERS]
    if not names or all(c.startswith("_") for c in frame.columns):
        return out
    rows = frame.with_row_index("_index")
    for name in names:
        rows = NORMALISERS[name](rows)
    for index, items in grouped(zip(rows["_index"].to_list(), _told(rows), strict=True)).items():
        out[index] |= _folded(items)
    return out


def _told(frame: pl.DataFrame) -> list[dict[str, object]]:
    """The values of every row, without those of the reader."""
    public = [c for c in frame.columns if not c.startswith("_")]
    rows = frame.select(public).to_dicts() if public else [dict[str, object]() for _ in range(frame.height)]
    return [{k: v for k, v in row.items() if v is not None} for row in rows]


def _folded(items: list[dict[str, object]]) -> dict[str, object]:
    """What the rows of one line share, and what is their own as ``items``."""
    if len(items) == 1:
        return items[0]
    shared = sorted(set.intersection(*map(set, items)))
    same = {k: items[0][k] for k in shared if all(i[k] == items[0][k] for i in items)}
    return {**same, "items": [{k: v for k, v in i.items() if k not in same} for i in items]}


# Words that NCCL's sources put in front of a value of that kind, wherever they stand.
_USUAL = frozenset(("rank", "size", "status", "index", "link", "stride"))


def _labelled(names: frozenset[str]) -> re.Pattern[str]:
    """Values behind these words, or behind any word and ``=``: addresses, numbers and hexadecimal digits."""
    words = "|".join(sorted(names | _USUAL, key=len, reverse=True))
    value = r"(0x[0-9a-fA-F]+|[0-9a-fA-F]*[a-fA-F][0-9a-fA-F]*\b|-?[0-9]+(?:\.[0-9]+)?)"
    return re.compile(rf"\b({words}|[A-Za-z_]\w*(?==))(?:=| ?: ?| )\(?{value}")


def _more(labelled: re.Pattern[str], text: str, values: Mapping[str, object]) -> dict[str, object]:
    """Values that the rule does not name, by the words in front of them; those that stand several times as a list."""
    pairs = ((word, value) for word, value in labelled.findall(text) if word not in values)
    found = grouped((word, int(value) if value.lstrip("-").isdigit() else value) for word, value in pairs)
    return {k: v[0] if len(v) == 1 else v for k, v in found.items()}


def _objects(
    name: str | None, frame: pl.DataFrame, paths: Mapping[int, str], classifier: Classifier
) -> Iterator[tuple[int, int, int, bytes]]:
    message = classifier.catalog.grammar.messages[name] if name else None
    fields = (
        _fields(frame.drop("input_id"), message.directives.get("normalise", ""))
        if message
        else [{} for _ in range(frame.height)]
    )
    heads = frame.select(["input_id", *(c for c in frame.columns if c.startswith("_"))]).to_dicts()
    means = meanings(frame, message).iter_rows()
    labelled = _labelled(labels_of(message.expr)) if message else None
    for head, values, (diagnosis, role) in zip(heads, fields, means, strict=True):
        rank = values.get("rank", head["_launcher_rank"])
        if labelled:
            values = {**values, **_more(labelled, head["_body"], values)}
        item = {
            "input": paths[head["input_id"]],
            "line": head["_line"],
            **{k: head[f"_{k}"] for k in _HEAD},
            "rank": rank if isinstance(rank, int) else None,
            **{k: head[f"_{k}"] for k in _TAIL},
            "message": name,
            "table": message.table if message else None,
            "diagnosis": diagnosis,
            "role": role,
            "fields": values,
            "text": head["_body"],
        }
        text = orjson.dumps(item, option=orjson.OPT_APPEND_NEWLINE, default=str)
        yield head["input_id"], head["_line"], head["_sub"], text


def _chunk_objects(
    result: ChunkResult, paths: Mapping[int, str], classifier: Classifier, keep_foreign: bool
) -> list[str]:
    found: list[tuple[int, int, int, bytes]] = []
    rules = classifier.catalog.grammar.messages
    for name, rows in result.messages.items():
        frame = with_constants(rows, rules[name])
        found += _objects(name, attach_heads(frame, result.heads), paths, classifier)
    if result.unknown.height:
        found += _objects(None, attach_heads(result.unknown, result.heads), paths, classifier)
    if keep_foreign:
        for number, line, text in result.foreign.select("input_id", "_line", "_text").iter_rows():
            item = {"input": paths[number], "line": line, "level": None, "message": None, "text": text}
            found.append((number, line, 0, orjson.dumps(item, option=orjson.OPT_APPEND_NEWLINE)))
    found.sort(key=lambda f: f[:3])
    return [f[3].decode("utf-8") for f in found]


def parse_objects(files: Iterable[InputFile], keep_foreign: bool = False) -> Iterator[str]:
    """JSON lines of every record of the inputs (docs/tables.md, ``parse``)."""
    classifier = Classifier(default_catalog())
    files = list(files)
    paths = {file.input_id: file.display for file in files}
    for result in all_results(files, classifier):
        yield from _chunk_objects(result, paths, classifier, keep_foreign)
