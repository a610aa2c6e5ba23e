"""What the readers of side files share: bounded reading of damaged input, decoding, and rows for ``notes``."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl

from nccl_insight.base import texts
from nccl_insight.base.data import dataclass
from nccl_insight.inputs.find import InputFile
from nccl_insight.tables.notes import CUT, note_rows
from nccl_insight.tables.run import Partial

# Writers that cut a JSON string may cut a character beyond 16 bits in two; no table takes half of one.
_HALF = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)

_BETWEEN = frozenset(" \t\r\n,")


def whole_characters(text: str) -> str:
    """JSON text with halves of surrogate pairs replaced by U+FFFD, so that what is decoded is Unicode."""
    return _HALF.sub(r"\\ufffd", text) if "\\ud" in text or "\\uD" in text else text


@dataclass(frozen=True)
class Content:
    """Bytes of an input as far as they could be read; ``problem`` says why they may be incomplete."""

    data: bytes
    problem: str = ""

    @property
    def text(self) -> str:
        """The bytes as text, undecodable ones and halves of characters in JSON replaced, a byte order mark removed."""
        return whole_characters(self.data.decode("utf-8", "replace").removeprefix("\ufeff"))


def read_content(source: InputFile, limit_bytes: int | None = None) -> Content:
    """Everything up to the limit (that of the input when none is given); of a damaged file what came before."""
    most = source.limits.side_file_mib << 20 if limit_bytes is None else limit_bytes
    with source.open() as stream:
        data = stream.read(most + 1)
        if len(data) > most:
            return Content(data[:most], f"larger than {most >> 20} MiB (limit side-file-mib); the rest was not read")
        return Content(data, f"{stream.damage} (after {len(data):,} bytes)" if stream.damage else "")


def json_values(text: str, at: int = 0) -> Iterator[object]:
    """The JSON values that stand one after the other from a place on, up to the first that is damaged or no value."""
    decoder = json.JSONDecoder()
    while True:
        while text[at : at + 1] in _BETWEEN:
            at += 1
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield value


def patterns_of_fields(module: str, name: str) -> dict[str, tuple[str, type[pl.DataType]]]:
    """Pattern and type of each field, by the block of that name of the ``.txt`` beside a module (its ``__file__``)."""
    parted = {field: told.partition(" ") for field, told in texts.of_file(module)[name].items()}
    return {field: (pattern, getattr(pl, kind)) for field, (kind, _, pattern) in parted.items()}


def lines_frame(text: str) -> pl.DataFrame:
    """The text as ``line`` (1-based) and ``text``, carriage returns removed."""
    rows = [row.rstrip("\r") for row in text.split("\n")]
    return pl.DataFrame({"line": range(1, len(rows) + 1), "text": rows}, schema={"line": pl.UInt64, "text": pl.String})


def with_input(frame: pl.DataFrame, input_id: int) -> pl.DataFrame:
    """The frame with ``input_id`` as its first column."""
    return frame.select(pl.lit(input_id, dtype=pl.UInt16).alias("input_id"), pl.exclude("input_id"))


def partial(
    source: InputFile, tables: Mapping[str, pl.DataFrame], *problems: str, notes: Iterable[tuple[str, str]] = ()
) -> Partial:
    """The tables that have rows, and notes: ``problems`` say what the file lacks (empty: nothing), ``notes`` are (kind,
    detail) pairs beside them."""
    kept = {name: with_input(frame, source.input_id) for name, frame in tables.items() if frame.height}
    rows = [*((CUT, problem) for problem in problems if problem), *notes]
    return Partial({**kept, "notes": note_rows(source.input_id, *rows)} if rows else kept)


def noted(source: InputFile, tables: Mapping[str, pl.DataFrame], notes: Iterable[tuple[str, str]]) -> Partial:
    """The tables with the number of their input, and what was noticed about it."""
    stamp = pl.lit(source.input_id, pl.UInt16).alias("input_id")
    stamped = {name: frame.with_columns(stamp) for name, frame in tables.items() if frame.width}
    return Partial({**stamped, "notes": note_rows(source.input_id, *notes)})


def as_int(value: object, low: int = -(2**63), high: int = 2**63 - 1) -> int | None:
    """An integer within bounds from JSON or pickle values (numbers or digit strings), else None."""
    if type(value) is int:
        return value if low <= value <= high else None
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        if len(value) > 20 or not re.fullmatch(r"-?[0-9]+", value):
            return None
        value = int(value)
    if isinstance(value, float):
        if value != value or abs(value) > 2**63:
            return None
        value = int(value)
    return value if isinstance(value, int) and low <= value <= high else None


def as_float(value: object) -> float | None:
    """A finite number, also from a string, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < float("inf") else None


def as_text(value: object, limit: int = 400) -> str | None:
    """A string cut to ``limit`` characters, else None."""
    return value[:limit] if isinstance(value, str) else None


def mapping(value: object) -> dict[str, object]:
    """The value if it is a dictionary with string keys, else an empty one."""
    return value if isinstance(value, dict) and all(isinstance(k, str) for k in value) else {}


def sequence(value: object) -> Sequence[object]:
    """The value if it is a list or tuple, else an empty one."""
    return value if isinstance(value, (list, tuple)) else ()
