"""The grammar of the package, and notations that its samples must have."""

from __future__ import annotations

from nccl_insight.language.load import default_grammar

GRAMMAR = default_grammar()
FIELDS = r"""
INT: /-?[0-9]+/
HEX: /[0-9a-f]+/
TEXT: /[^\r\n]+/
WORD: /[^ \r\n]+/
rank: INT
nranks: INT
reason: TEXT
host: WORD
kind: "Abort" | "Destroy"
"""
NOTATIONS = (
    FIELDS
    + """
//! column: rank
rank_padded: PADDED
//! type: int
PADDED: /0[0-9]+/
//! column: reason
reason_word: WORD
"""
)
