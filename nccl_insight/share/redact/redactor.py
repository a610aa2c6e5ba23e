"""Replaces names in text."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from nccl_insight.base import toml
from nccl_insight.base.data import dataclass, field
from nccl_insight.share.redact import patterns, shapes
from nccl_insight.share.redact.loose import loosened
from nccl_insight.share.redact.names import Names, certain
from nccl_insight.share.redact.ordinary import Ordinary
from nccl_insight.share.redact.words import Words

COVERED: Final[str] = toml.beside(__file__)["covered"]
NOT_PROMISED: Final[str] = toml.beside(__file__)["not_promised"]
# Shorter texts are not worth being looked at by lines.
_SHORT: Final = 2000
_SHAPES: Final = 50_000
_LONGEST_SHAPE: Final = 2000
# How templates of unknown lines mask figures.
_TEMPLATE: Final = "<N>"
_MASKED: Final = re.compile(_TEMPLATE, re.IGNORECASE)


@dataclass
class Redactor:
    """Replaces names and what looks like them. Fill it with :func:`nccl_insight.share.redact.collect`.

    Names that were not collected but match a pattern get a pseudonym when they are met. ``strict``: every word that is
    neither ordinary nor known to the grammar, too (:mod:`nccl_insight.share.redact.ordinary`).
    """

    names: Names = field(default_factory=Names)
    strict: bool = False

    def __post_init__(self) -> None:
        """Makes what follows from the names."""
        self._words = Words(self.names)
        self._ordinary = Ordinary(self.names)
        self._lenient = Redactor(self.names) if self.strict else self
        self._plain: dict[str, shapes.Change | None] = self.names.cache()
        self._sections: dict[str, shapes.Change | None] = self.names.cache()
        self._steps: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
            ("secret", patterns.RE["secret"], self._secret),
            ("secret", patterns.RE["bearer"], lambda m: f"{m[1]} {self.names.secret(m[2])}"),
            ("keys", patterns.RE["keys"], lambda m: self.names.secret(m[0])),
            ("marked", patterns.RE["marked"], self._marked),
            ("person", patterns.RE["person"], lambda m: m[1] + self.names.user(m[2])),
            ("images", patterns.RE["image"], self._image),
            ("places", patterns.RE["places"], self._places),
            ("number", patterns.RE["job_number"], self._job_number),
            ("job", patterns.RE["job"], lambda m: m[1] + self.names.job(m[2])),
            ("numbers", patterns.RE["numbers"], self._numbered),
            ("head", patterns.RE["head"], self._head),
            ("place", patterns.RE["place"], self._place),
            ("guid", patterns.RE["guid"], lambda m: m[1] + self.names.identifier("guid", m[2])),
        )
        # Heads have a way of their own.
        self._wanted = loosened([pattern for kind, pattern, _ in self._steps if kind != "head"] + [_MASKED])

    def text(self, text: str) -> str:
        """The text with every name replaced."""
        if len(text) < _SHORT:
            return self._denied(self._words.replaced(self._by_patterns([text])[0]))
        lines = shapes.pieces(text)
        sections = shapes.sections(lines, self._wanted, self.names.odd)
        changed = self._by_patterns(["".join(lines[begin:end]) for begin, end in sections])
        mixed: list[str] = []
        plain: list[bool] = []
        behind = 0
        for (begin, end), section in zip((*sections, (len(lines), len(lines))), (*changed, ""), strict=True):
            parts = shapes.pieces(section)
            mixed += lines[behind:begin] + parts
            plain += [True] * (begin - behind) + [False] * len(parts)
            behind = end
        return "".join(self._by_shapes(mixed, plain))

    def _by_patterns(self, texts: list[str]) -> list[str]:
        """The texts after each pattern has gone over all of them."""
        for kind, pattern, change in self._steps:
            texts = [pattern.sub(change, text) if patterns.may_match(kind, text) else text for text in texts]
        return shapes.replaced([self._templates(text) for text in texts], self.names.odd)

    def _by_shapes(self, lines: list[str], plain: list[bool]) -> Iterator[str]:
        """The lines with their words replaced; ``plain``: which the patterns have not gone over."""
        at = 0
        while at < len(lines):
            integers = self.names.like_numbers
            masked = shapes.shapes(lines[at:], self.names.numbers, integers=integers)
            for shape in masked:
                yield self._line(lines[at], shape, plain[at])
                at += 1
                if integers != self.names.like_numbers:
                    break

    def _line(self, line: str, shape: str | None, plain: bool) -> str:
        if shape is None or len(shape) > _LONGEST_SHAPE:
            return self._changed(line, plain)
        changes = self._plain if plain else self._sections
        if shape not in changes:
            new = self._changed(shape, plain)
            if len(changes) > _SHAPES:
                changes.clear()
            changes[shape] = shapes.change(shape, new)
        found = changes[shape]
        return self._changed(line, plain) if found is None else found.apply(line)

    def _changed(self, text: str, plain: bool) -> str:
        return self._denied(self._words.replaced(patterns.RE["head"].sub(self._head, text) if plain else text))

    def _denied(self, text: str) -> str:
        return self._ordinary.replaced(text) if self.strict else text

    @property
    def kept(self) -> set[str]:
        """The words of foreign text that stayed, where the redactor is strict."""
        return self._ordinary.kept

    def learn(self, texts: Iterable[str]) -> None:
        """Goes over foreign texts first, where texts of ours (:meth:`own`) are to have the same names."""
        if self.strict:
            for text in texts:
                self.text(text)

    def own(self, text: str) -> str:
        """A text of ours, with the names that foreign text had before: our own words are ordinary."""
        return self._ordinary.learned(self._lenient.text(text))

    def _head(self, match: re.Match[str]) -> str:
        return self.names.hosts.get(match[1], match[1])

    def _templates(self, text: str) -> str:
        """What is left of a host when its figures are masked."""
        lowered = text.lower() if _TEMPLATE in text else ""
        for masked in self.names.masked if lowered else ():
            if masked in lowered:
                text = re.sub(re.escape(masked), f"node{_TEMPLATE}", text, flags=re.IGNORECASE)
        return text

    def _image(self, match: re.Match[str]) -> str:
        index = match.lastindex or 0
        place, path = match[index - 1], match[index]
        mark = "--" if place in ("models--", "datasets--") else "/"
        parts = path.split(mark)
        if len(parts) > 1 and parts[0].lower() in patterns.PUBLIC_OWNERS:
            return match[0]
        return place + mark.join(self.names.file(part) for part in parts)

    def _places(self, match: re.Match[str]) -> str:
        index = match.lastindex or 0
        return match[index - 1] + patterns.RE["place_of_list"].sub(lambda m: self._listed(m[0]), match[index])

    def _listed(self, name: str) -> str:
        return self.names.host(name) if certain(name) and name not in self.names.given else name

    def _place(self, match: re.Match[str]) -> str:
        index = match.lastindex or 0
        name = match[index]
        if name not in self.names.hosts:
            return match[0]
        start, end = match.start(index) - match.start(), match.end(index) - match.start()
        return match[0][:start] + self.names.hosts[name] + match[0][end:]

    def _secret(self, match: re.Match[str]) -> str:
        value = match["value"]
        # "tokens: 4096", "key=value" of a table: a secret is longer than a word and no number.
        plain = "pass" not in match["name"].lower() and (value.isdigit() or len(value) < 8)
        if plain or value in self.names.given:
            return match[0]
        return match["name"] + self.names.secret(value)

    def _marked(self, match: re.Match[str]) -> str:
        index = match.lastindex or 0
        value = match[index]
        return match[0] if value in self.names.given else match[index - 1] + self.names.secret(value)

    def _numbered(self, match: re.Match[str]) -> str:
        index = match.lastindex or 0
        value = match[index]
        if value in self.names.given or not any(c.isdigit() for c in value):
            return match[0]
        return match[index - 1] + self.names.identifier("number", value)

    def _job_number(self, match: re.Match[str]) -> str:
        number = match[match.lastindex or 0]
        return match[0].replace(number, self.names.job(number))
