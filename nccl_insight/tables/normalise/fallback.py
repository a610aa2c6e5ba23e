"""What a failure line means that no rule of the grammar knows: the only patterns over texts outside the grammar.

They (``fallback.txt``) serve such lines alone, so what they say is a guess: findings that rest on them have low
confidence.
"""

from importlib import resources
from typing import Final

from nccl_insight.language.meanings import Meaning, parse_case
from nccl_insight.tables.normalise.ends import UNEXPLAINED

_CASES: Final = resources.files(__package__).joinpath("fallback.txt").read_text("utf-8").splitlines()[1:]
FALLBACK: Final = Meaning(UNEXPLAINED, "root", tuple(parse_case(c, "fallback") for c in _CASES))
