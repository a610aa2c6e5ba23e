"""What every start needs of the grammar's files, kept so that they need not be taken apart again.

The file is JSON and stands beside Python's bytecode of this package: it is written where and when Python would write
that (``PYTHONDONTWRITEBYTECODE``, ``PYTHONPYCACHEPREFIX``), and who may write there could change the program itself. It
is of use only with the key that it was written with: a digest of the grammar's files and of the modules of this package
that take them apart. A file that cannot be read or written costs time, nothing else.
"""

import contextlib
import hashlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

_HOME: Final = Path(__file__).parent


class Outline(NamedTuple):
    """A message for the index: literals that its texts can start with, one that all have in their first line, how
    specific it is, and whether it may stand without a head."""

    prefixes: tuple[str, ...]
    required: str
    weight: int
    headless: bool


class Index(NamedTuple):
    """The definitions of a grammar as they stand there, (name, body, directives, file:line), its messages, and by file
    the blocks of directives that belong to no rule."""

    definitions: Sequence[tuple[str, str, dict[str, str], str]]
    outlines: Mapping[str, Outline]
    blocks: Mapping[str, Sequence[dict[str, str]]]


def place() -> Path:
    """Where the index of the packaged grammar is kept."""
    return Path(importlib.util.cache_from_source(str(_HOME / "index.py"))).with_suffix(".json")


def key_of(digest: str) -> str:
    """The key of a grammar with that digest, taken apart by the modules of this package as they are now."""
    sources = sorted(_HOME.glob("*.py"))
    return f"{digest} {hashlib.sha256(b''.join(source.read_bytes() for source in sources)).hexdigest()}"


def kept(path: Path, key: str) -> Index | None:
    """The index that was kept with that key, or None."""
    try:
        found: Any = orjson.loads(path.read_bytes())
        if found["key"] != key:
            return None
        outlines = {
            name: Outline(tuple(prefixes), required, weight, headless)
            for name, (prefixes, required, weight, headless) in found["outlines"].items()
        }
        return Index(found["definitions"], outlines, found["blocks"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def keep(path: Path, key: str, index: Index) -> None:
    """Writes the index whole, or not at all; never where Python writes no bytecode."""
    if sys.dont_write_bytecode:
        return
    outlines = {name: tuple(outline) for name, outline in index.outlines.items()}
    content = orjson.dumps({"key": key, **index._asdict(), "outlines": outlines})
    # Only here: most starts read the index and do not write it.
    from nccl_insight.base.errors import UsageError
    from nccl_insight.base.writing import writing

    with contextlib.suppress(OSError, UsageError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path) as out:
            os.chmod(out.fileno(), 0o644)
            out.write(content)
