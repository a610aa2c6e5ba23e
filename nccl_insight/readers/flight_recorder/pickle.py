"""Pickles of plain data from strangers, read without Python's unpickler.

Only the opcodes that build numbers, texts, lists, tuples and dictionaries exist here, so there is nothing that
could import or call. The memo is a dictionary: the one of ``pickle`` in C allocates a table as large as the
largest index that a file names. The opcodes are those of protocols 2 to 5 (``pickletools`` describes them).
"""

from __future__ import annotations

import itertools
import struct
from typing import Any, Final

# Steps that a file may ask for; a dump of a node's largest ring buffer takes about a hundredth of this.
MOST_STEPS: Final = 50_000_000
_CODE: Final = frozenset(b"cRbioPQ\x81\x82\x83\x84\x92\x93\x97\x98")
_CONSTANTS: Final = {0x4E: None, 0x88: True, 0x89: False}
_U4 = struct.Struct("<I").unpack_from
_I4 = struct.Struct("<i").unpack_from
_U2 = struct.Struct("<H").unpack_from
_INTEGERS: Final = {0x4D: (_U2, 2), 0x4A: (_I4, 4)}  # BININT2, BININT
_U8 = struct.Struct("<Q").unpack_from
_F8 = struct.Struct(">d").unpack_from


class _Refused(Exception):
    """The pickle asks for more than plain data."""


class _TooLong(Exception):
    """The pickle takes more steps than are made."""


def _key(value: Any) -> Any:
    """A key as it is, if it is a plain value: the hash of nested tuples can take for ever."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise ValueError(f"a dictionary with keys of type {type(value).__name__}")


def _pairs(items: list[Any]) -> zip[tuple[Any, Any]]:
    return zip(map(_key, items[::2]), items[1::2], strict=True)


def load_plain(data: bytes, most_steps: int = MOST_STEPS) -> tuple[Any, str]:
    """The object, or a dictionary put together from what a damaged pickle held, and the problem if any.

    A pickle that needs more than plain data is refused: (None, reason).
    """
    stack: list[Any] = []
    try:
        return _run(data, stack, most_steps), ""
    except _Refused:
        return None, "the pickle holds more than plain data (it could run code); it was not read"
    except _TooLong:
        return _salvage(
            stack
        ), f"the pickle takes more than {most_steps:,} steps (limit pickle-steps); what came before was kept"
    except Exception as error:  # truncated or malformed data ends in IndexError, struct.error, TypeError ...
        kind = "ends early" if isinstance(error, (IndexError, EOFError, struct.error)) else "is damaged"
        return _salvage(stack), f"the pickle {kind} ({type(error).__name__}); complete entries were kept"


def _text(data: bytes, start: int, size: int) -> str:
    piece = data[start : start + size]
    if len(piece) != size:
        raise EOFError
    return piece.decode("utf-8", "replace")


def _run(data: bytes, stack: list[Any], most_steps: int) -> Any:
    """Executes the opcodes, most frequent first; ``stack`` shows how far it came."""
    memo: dict[int, Any] = {}
    marks: list[int] = []
    push = stack.append
    at = 0
    for _ in range(most_steps):
        code = data[at]
        at += 1
        if code == 0x68:  # BINGET
            push(memo[data[at]])
            at += 1
        elif code == 0x58:  # BINUNICODE
            size = _U4(data, at)[0]
            push(_text(data, at + 4, size))
            at += 4 + size
        elif code == 0x71:  # BINPUT
            memo[data[at]] = stack[-1]
            at += 1
        elif code == 0x72:  # LONG_BINPUT
            memo[_U4(data, at)[0]] = stack[-1]
            at += 4
        elif code == 0x94:  # MEMOIZE
            memo[len(memo)] = stack[-1]
        elif code == 0x6A:  # LONG_BINGET
            push(memo[_U4(data, at)[0]])
            at += 4
        elif code == 0x4B:  # BININT1
            push(data[at])
            at += 1
        elif code in _INTEGERS:
            integer, size = _INTEGERS[code]
            push(integer(data, at)[0])
            at += size
        elif code == 0x8A:  # LONG1
            size = data[at]
            push(int.from_bytes(data[at + 1 : at + 1 + size], "little", signed=True))
            at += 1 + size
        elif code in _CONSTANTS:
            push(_CONSTANTS[code])
        elif code == 0x28:  # MARK
            marks.append(len(stack))
        elif code == 0x65:  # APPENDS
            start = marks.pop()
            items = stack[start:]
            del stack[start:]
            stack[-1].extend(items)
        elif code == 0x75:  # SETITEMS
            start = marks.pop()
            items = stack[start:]
            del stack[start:]
            stack[-1].update(_pairs(items))
        elif code == 0x5D:  # EMPTY_LIST
            push([])
        elif code == 0x7D:  # EMPTY_DICT
            push({})
        elif code == 0x8C:  # SHORT_BINUNICODE
            size = data[at]
            push(_text(data, at + 1, size))
            at += 1 + size
        elif code == 0x2E:  # STOP
            return stack.pop()
        elif code in _CODE:
            raise _Refused
        else:
            at = _rare(code, data, at, stack, marks)
    raise _TooLong


def _rare(code: int, data: bytes, at: int, stack: list[Any], marks: list[int]) -> int:
    """The opcodes that occur seldom; returns the position after them."""
    if code == 0x61:  # APPEND
        item = stack.pop()
        stack[-1].append(item)
    elif code == 0x73:  # SETITEM
        value, key = stack.pop(), stack.pop()
        stack[-1][_key(key)] = value
    elif code == 0x29:  # EMPTY_TUPLE
        stack.append(())
    elif code in (0x85, 0x86, 0x87):  # TUPLE1 TUPLE2 TUPLE3
        size = code - 0x84
        if len(stack) < size:
            raise IndexError
        stack[-size:] = [tuple(stack[-size:])]
    elif code in (0x74, 0x6C, 0x64, 0x31):  # TUPLE LIST DICT POP_MARK
        start = marks.pop()
        items = stack[start:]
        del stack[start:]
        if code == 0x64:
            stack.append(dict(_pairs(items)))
        elif code != 0x31:
            stack.append(tuple(items) if code == 0x74 else items)
    elif code == 0x47:  # BINFLOAT
        stack.append(_F8(data, at)[0])
        at += 8
    elif code == 0x80:  # PROTO
        at += 1
    elif code == 0x95:  # FRAME
        at += 8
    elif code in (0x42, 0x54):  # BINBYTES BINSTRING
        size = _U4(data, at)[0]
        stack.append(_text(data, at + 4, size))
        at += 4 + size
    elif code in (0x43, 0x55):  # SHORT_BINBYTES SHORT_BINSTRING
        size = data[at]
        stack.append(_text(data, at + 1, size))
        at += 1 + size
    elif code == 0x8D:  # BINUNICODE8
        size = _U8(data, at)[0]
        stack.append(_text(data, at + 8, size))
        at += 8 + size
    elif code == 0x30:  # POP
        stack.pop()
    else:
        raise ValueError(f"opcode {code:#x}")
    return at


def _salvage(items: list[Any]) -> dict[str, Any]:
    """Keys and values in the order they were pushed; loose dictionaries with an operation's name are entries."""
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
