"""All rules together: which rule does a text belong to, and what does it capture.

The index is by leading literal, so the cost of a lookup does not grow with the number of rules; a rule is
compiled when a text first needs it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice
from typing import Final, NamedTuple

from nccl_insight.base import late
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import GrammarError
from nccl_insight.language.compile import Compiled, Outline, compile_message, outline, python_pattern
from nccl_insight.language.load import default_grammar, kept_of_sources
from nccl_insight.language.syntax import Grammar, Message

_KEY = 5
_INSIDE = 6
_BLANKS: Final = re.compile(" +")
# The part of NCCL that speaks, and words of it that nobody else says.
_SPEAKER: Final = re.compile(r"([A-Z][A-Za-z]*/[A-Za-z/]+ ?: ?)(.*)", re.DOTALL)
_UNMISTAKABLE: Final = 24

# In the pattern of a rule: ` key=value` with the comma before it; the value is a group (up to three in one another) or
# a class. So many rules are tried where a part is missing, and only behind an opening of this length.
_GROUP: Final = r"\((?:[^()\\]|\\.|\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\))*\)"
_PART: Final = re.compile(rf",? [A-Za-z_]\w*=(?:{_GROUP}|(?:-\?)?\[[^\]]{{0,99}}\][+*])")
_KEYS: Final = re.compile(r",? \w+=")
_FEWER_MOST: Final = 40
_FEWER_LEAST: Final = 10


@dataclass(frozen=True)
class Match:
    """A text's rule and the raw captures (strings; columns of branches not taken are left out)."""

    message: Message
    captures: dict[str, str]


class _Entry(NamedTuple):
    name: str
    prefix: str
    required: str
    weight: int


class Catalog:
    """Lookup over the rules of one grammar.

    ``outlines``: of all its messages, where they are known from an earlier start.
    """

    def __init__(self, grammar: Grammar, outlines: Mapping[str, Outline] | None = None) -> None:
        self.grammar = grammar
        self.outlines = outlines or {name: outline(grammar, m) for name, m in grammar.messages.items()}
        self._compiled: dict[tuple[str, bool], Compiled] = {}
        self._regex: dict[tuple[str, bool, bool], re.Pattern[str]] = {}
        self._long: dict[str, list[_Entry]] = defaultdict(list)
        self._short: dict[str, list[_Entry]] = defaultdict(list)
        self._floating: list[_Entry] = []
        self._optional: dict[str, tuple[re.Pattern[str], int]] = {}
        self._broken: set[str] = set()
        self._headless: list[_Entry] = []
        first = sorted(self.outlines, key=lambda name: (-self.outlines[name].weight, name))
        for name, (prefixes, required, weight, headless) in ((name, self.outlines[name]) for name in first):
            for prefix in prefixes or ("",):
                entry = _Entry(name, prefix, required, weight)
                if len(prefix) >= _KEY:
                    self._long[prefix[:_KEY]].append(entry)
                else:
                    (self._short[prefix[0]] if prefix else self._floating).append(entry)
                if headless:
                    self._headless.append(entry)

    @cached_property
    def behind_speaker(self) -> dict[str, list[tuple[str, str]]]:
        """Words of which one stands in each text that :meth:`unspoken` finds something in: their rules and speakers."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for entry in self._headless:
            spoken = _SPEAKER.match(entry.prefix)
            words = (spoken[2] or entry.required) if spoken else ""
            if spoken is not None and len(words) >= _UNMISTAKABLE:
                found[words].append((entry.name, spoken[1]))
        return found

    def compiled(self, name: str, blanks: bool = False) -> Compiled:
        """The compiled rule of that name."""
        key = (name, blanks)
        if key not in self._compiled:
            self._compiled[key] = compile_message(self.grammar, self.grammar.messages[name], blanks)
        return self._compiled[key]

    def spans_lines(self, name: str) -> bool:
        """Whether a rule's messages have more than one line."""
        try:
            return self.compiled(name).head_pattern is not None
        except GrammarError:
            return False

    def prefixes(self, name: str) -> tuple[str, ...]:
        """Literals that a text of the rule can start with; empty when it starts with a value."""
        return self.outlines[name].prefixes

    @cached_property
    def headless_keys(self) -> Sequence[str]:
        """Literals of which at least one stands in every text that a headless rule accepts."""
        keys = {e.prefix if len(e.prefix) > len(e.required) else e.required for e in self._headless}
        return sorted(keys | self.behind_speaker.keys())

    def unspoken(self, text: str) -> Iterator[tuple[str, str, int]]:
        """(rule, text with NCCL's own speaker, where its words begin) for words whose speaker was lost or changed in
        pasting: ``NET/IB:Got completion from peer``."""
        for words, rules in self.behind_speaker.items():
            at = text.find(words)
            for name, speaker in rules if at >= 0 else ():
                yield name, speaker + text[at:].rstrip(), at

    @cached_property
    def headless_prefixes(self) -> list[str]:
        """Leading literals of headless rules that are long enough to be looked for inside a line."""
        return sorted({e.prefix for e in self._headless if len(e.prefix) >= _INSIDE})

    @cached_property
    def headless(self) -> Sequence[tuple[str, str]]:
        """(rule, leading literal or '') of the rules that may match without a head, most specific first."""
        return [(e.name, e.prefix) for e in self._headless]

    def _pattern(self, name: str, blanks: bool, head: bool) -> re.Pattern[str] | None:
        key = (name, blanks, head)
        if key not in self._regex:
            try:
                rule = self.compiled(name, blanks)
            except GrammarError:
                # `grammar lint` tells about it; one bad rule must not stop the reading of a log.
                self._broken.add(name)
                return None
            pattern = rule.head_pattern if head else rule.pattern
            if pattern is None:
                return None
            self._regex[key] = late.made(python_pattern(pattern, rule.guards, blanks))
        return self._regex[key]

    def try_rule(self, name: str, text: str, blanks: bool = False) -> Match | None:
        """Matches one rule; a rule that spans lines also accepts its first line alone."""
        if name in self._broken:
            return None
        for head in (False, True):
            pattern = self._pattern(name, blanks, head)
            found = pattern.fullmatch(text) if pattern else None
            if found is not None:
                rule = self.compiled(name, blanks)
                texts = found.groupdict()
                if all(guard.holds(texts.get(guard.group) or "") for guard in rule.guards):
                    pairs = zip(rule.groups, found.groups(), strict=False)
                    captures = {column: value for column, value in pairs if value is not None}
                    return Match(self.grammar.messages[name], captures)
        return None

    def candidates(self, text: str) -> list[str]:
        """Rules that the beginning of the text and the literal that all their texts have allow, most specific first."""
        return _fitting(text, (*self._long.get(text[:_KEY], ()), *self._short.get(text[:1], ())), self._floating)

    def ranked(self, opening: str) -> list[tuple[str, str]]:
        """(rule, literal that stands in all its texts) of every rule that some text with this opening could be tried
        on, in the order of :meth:`match`."""
        long = self._long.values() if len(opening) < _KEY else [self._long.get(opening[:_KEY], ())]
        fixed = [*long, self._short.get(opening[:1], ())] if opening else [*long, *self._short.values()]
        found = [
            e for entries in fixed for e in entries if opening.startswith(e.prefix) or e.prefix.startswith(opening)
        ]
        found.sort(key=lambda e: (-e.weight, e.name))
        return list(dict.fromkeys((e.name, e.required) for e in (*found, *self._floating)))

    def match(self, text: str) -> Match | None:
        """The rule of a text (a message without its head, trailing blanks removed)."""
        text = text.rstrip()
        return next(filter(None, (self.try_rule(name, text) for name in self.candidates(text))), None)

    def match_fewer(self, text: str) -> Match | None:
        """Like :meth:`match` for a text that lacks one ``key=value`` of its message."""
        opening = text.partition("=")[0].rpartition(" ")[0]
        near = self.ranked(opening) if len(opening) >= _FEWER_LEAST else []
        fitting = (n for n, required in near if all(words in text for words in _KEYS.split(required)))
        for name in islice(fitting, _FEWER_MOST):
            if name not in self._optional:
                pattern, parts = _PART.subn(r"(?:\g<0>)?", self.compiled(name).pattern)
                self._optional[name] = late.made(pattern), parts
            wanted, parts = self._optional[name]
            if 2 <= parts <= text.count("=") + 1 and (found := wanted.fullmatch(text.rstrip())):
                pairs = zip(self.compiled(name).groups, found.groups(), strict=False)
                return Match(self.grammar.messages[name], {c: v for c, v in pairs if v is not None})
        return None

    def match_collapsed(self, text: str) -> Match | None:
        """Like :meth:`match` for a text whose runs of blanks were folded into one."""
        text = _folded(text.strip())
        places, floating = self._collapsed
        names = _fitting(text, (*places.get(text[:_KEY], ()), *places.get(text[:1], ())), floating)
        return next(filter(None, (self.try_rule(name, text, blanks=True) for name in names)), None)

    @cached_property
    def _collapsed(self) -> tuple[dict[str, list[_Entry]], list[_Entry]]:
        """Entries by how their literals begin once runs of blanks are folded, and those that begin with a value."""
        places: dict[str, list[_Entry]] = defaultdict(list)
        for entry in (e for entries in (*self._long.values(), *self._short.values()) for e in entries):
            prefix = _folded(entry.prefix)
            place = prefix[:_KEY] if len(prefix) >= _KEY else prefix[:1]
            places[place].append(entry._replace(prefix=prefix, required=_folded(entry.required)))
        return dict(places), [e._replace(required=_folded(e.required)) for e in self._floating]


def _fitting(text: str, fixed: Sequence[_Entry], floating: Sequence[_Entry]) -> list[str]:
    """The rules of entries that a text may be of, most specific first; ``floating``: those that begin with a value."""
    found = [e for e in fixed if text.startswith(e.prefix) and e.required in text]
    found.sort(key=lambda e: (-e.weight, e.name))
    found += [e for e in floating if e.required in text]
    return list(dict.fromkeys(e.name for e in found))


def _folded(text: str) -> str:
    return _BLANKS.sub(" ", text) if "  " in text else text


@cache
def default_catalog() -> Catalog:
    """The catalog of the packaged grammar, built once per process."""
    grammar = default_grammar()
    rows = kept_of_sources("outlines", lambda: {k: tuple(outline(grammar, m)) for k, m in grammar.messages.items()})
    return Catalog(grammar, {name: Outline(*row) for name, row in rows.items()})
