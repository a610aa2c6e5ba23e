"""Pickles of plain data from strangers: no globals, no reductions, only the opcodes that plain data needs.

The pure-Python unpickler is used on purpose: its memo is a dictionary (the C one allocates a table as large as
the largest memo index a file names), and its opcode table can be cut down.
"""

from __future__ import annotations

import io
import itertools
import pickle
from typing import Any, ClassVar

_PLAIN = (
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2",
    "LONG1", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "SHORT_BINSTRING",
    "BINSTRING", "SHORT_BINBYTES", "BINBYTES", "EMPTY_LIST", "APPEND", "APPENDS", "LIST", "EMPTY_DICT", "DICT",
    "SETITEM", "SETITEMS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "PUT", "BINPUT", "LONG_BINPUT",
    "MEMOIZE", "GET", "BINGET", "LONG_BINGET", "POP", "POP_MARK",
)  # fmt: skip


class _PlainUnpickler(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Any]] = {
        code: pickle._Unpickler.dispatch[code] for name in _PLAIN for code in getattr(pickle, name)
    }

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(f"the pickle asks for {module_name[:40]}.{global_name[:40]}")

    def unfinished(self) -> list[Any]:
        """What stood on the stacks when reading stopped, outermost first."""
        metastack = getattr(self, "metastack", [])
        return [item for level in [*metastack, getattr(self, "stack", [])] for item in level]


def load_plain(data: bytes) -> tuple[Any, str]:
    """The object, or a dictionary put together from what a damaged pickle held, and the problem if any.

    A pickle that needs more than plain data is refused: (None, reason).
    """
    unpickler = _PlainUnpickler(io.BytesIO(data), encoding="utf-8", errors="replace")
    try:
        return unpickler.load(), ""
    except KeyError as error:
        code = error.args[0] if error.args else None
        if (
            isinstance(code, int)
            and code != 0
            and any(
                name for name, value in vars(pickle).items() if value == bytes([code]) and name not in _PLAIN
            )
        ):
            return None, "the pickle holds more than plain data (it could run code); it was not read"
        return _salvage(unpickler.unfinished()), "the pickle is damaged; complete entries were kept"
    except pickle.UnpicklingError as error:
        if "asks for" in str(error):
            return None, f"{error} (it could run code); it was not read"
        return _salvage(
            unpickler.unfinished()
        ), f"the pickle is damaged ({error}); complete entries were kept"
    except Exception as error:  # truncated or malformed data raises nearly anything
        return (
            _salvage(unpickler.unfinished()),
            f"the pickle ends early ({type(error).__name__}); complete entries were kept",
        )


def _salvage(items: list[Any]) -> dict[str, Any]:
    """Keys and values in the order they were pushed; loose dictionaries with a record id are entries."""
    found: dict[str, Any] = {}
    entries: list[Any] = []
    for key, value in itertools.pairwise(items):
        if isinstance(key, str) and isinstance(value, (dict, list, str, int)):
            found.setdefault(key, value)
    for item in items:
        for candidate in item if isinstance(item, list) else [item]:
            if isinstance(candidate, dict) and "profiling_name" in candidate:
                entries.append(candidate)
    found["entries"] = entries
    return found
