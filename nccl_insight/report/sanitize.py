"""Text made safe to show: no terminal control, no hidden or reordering characters, bounded length, no secrets (scrub).

Logs come from strangers. Every renderer passes every string through here before its own escaping.
"""

import re

from nccl_insight.base import late

_ANSI = late.compiled(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI ... final byte (colors, cursor movement)
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC ... BEL or ST (titles, hyperlinks)
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    r"|\x1b[@-Z\\-_]"
)
# C0 and C1 controls, zero-width and bidirectional controls, line separators, surrogates, private use, tags.
_HIDDEN = late.compiled(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\ue000-\uf8ff"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_SECRET = late.compiled(
    r"(?i)((?:^|[\s;-])[\w.-]{0,80}(?:token|secret|passw(?:or)?d|api[_-]?key|credential)[\w.-]{0,80})([=\s]{1,8})\S+"
)
_USERINFO = late.compiled(r"(?<!\w)(\w+://)[^/\s@]+@")
_WORD = 40


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def sanitize(text: str, limit: int | None = None) -> str:
    """The text with ANSI sequences dropped and other hidden characters shown as escapes (``\\u202e``).

    Tabs and newlines stay. Longer texts than ``limit`` are cut, and say by how much.
    """
    total = len(text)
    if limit is not None and total > limit:
        text = text[:limit]
        # Between words where one ends near; a long path or number is cut where it must be.
        space = max(text.rfind(" "), text.rfind("\n"))
        if space > 0 and limit - space <= _WORD:
            text = text[:space]
        left = total - len(text)
    text = _HIDDEN.sub(_visible, _ANSI.sub("", text))
    if limit is not None and total > limit:
        text += f" ... ({left:,} more characters)"
    return text


def one_line(text: str, limit: int | None = None) -> str:
    """As :func:`sanitize`, on one line: newlines and tabs become single spaces."""
    return " ".join(sanitize(text, limit).split())


def scrub(command: str) -> str:
    """The command line without values of options that look like secrets."""
    return _USERINFO.sub(r"\1***@", _SECRET.sub(r"\1\2***", command))
