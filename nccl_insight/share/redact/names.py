"""The names that were found and their pseudonyms."""

import re
from typing import Any, Final

from nccl_insight.base import texts
from nccl_insight.base.data import dataclass, field
from nccl_insight.base.units import plural
from nccl_insight.readers.embedded.tags import read_path
from nccl_insight.share.redact.addresses import AddressBook, parse_v4
from nccl_insight.share.redact.patterns import COMMON, FILE_SUFFIXES, RE

_RE: Final = texts.compiled(__file__)

# Longer words are taken in parts: some patterns take the square of a word's length.
LONGEST: Final = 255
# How many parts of a name or path are looked at: their number is squared.
MOST_PARTS: Final = 33
# Users that are the same everywhere.
_NOBODY: Final = frozenset({"root", "git"})


def certain(name: str) -> bool:
    """Whether a word can only be that name: it is no everyday word and no number."""
    return len(name) > 2 and name.lower() not in COMMON and not name.isdigit()


def _mac(found: str) -> str:
    """One way to write an address that comes with colons, hyphens or dots."""
    digits = re.sub("[^0-9a-f]", "", found.lower())
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))


@dataclass
class Names:
    """Names by kind, each with the pseudonym that stands for it; pseudonyms are numbered by first appearance.

    ``reserved``: names that occur, which no pseudonym may be. ``numbers``: numbers of jobs that are long enough to
    be replaced wherever they stand. ``odd``: hosts that are no plain words. ``masked``: hosts with their numbers masked
    as templates of unknown lines mask them. ``like_numbers``: whether a name consists of hexadecimal digits or of
    nothing but digits and marks.
    """

    hosts: dict[str, str] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    book: AddressBook = field(default_factory=AddressBook)
    reserved: set[str] = field(default_factory=set)
    numbers: dict[str, str] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    masked: dict[str, None] = field(default_factory=dict)
    folded: dict[str, str] = field(default_factory=dict)
    domains: dict[str, None] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    like_numbers: bool = False
    _counters: dict[str, int] = field(default_factory=dict)
    _stems: dict[tuple[str, int, str], bool] = field(default_factory=dict)
    _caches: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def cache(self) -> dict[str, Any]:
        """A dictionary for what follows from the hosts; it is emptied when there is a new one."""
        made: dict[str, Any] = {}
        self._caches.append(made)
        return made

    def host(self, name: str) -> str:
        """Pseudonym of a host name (also of an address that stands for a host)."""
        if name in ("localhost", "node", "host", ""):  # words that name nobody
            return name
        if parse_v4(name):
            return self.book.ipv4(name)
        if name not in self.hosts:
            known = self.longer(name)
            if known is not None:
                self.hosts[name] = known
                self._remember(name)
            else:
                self.hosts[name] = self._new("node")
                self._remember(name)
                if not _RE["plain"].fullmatch(name) and len(name) > 3:
                    self.odd[name] = self.hosts[name]
                match = _RE["numbered"].fullmatch(name[:LONGEST])
                if match and len(match[1]) >= 2 and match[1].lower() not in COMMON:
                    self._stems[match[1], len(match[2]), match[3]] = True
        return self.hosts[name]

    def series(self, name: str, numbers: str) -> None:
        """Hosts whose names are this one and numbers of as many digits as one of these (``01-16,20``)."""
        if len(name) >= 2 and name.rstrip("-").lower() not in COMMON:
            for number in numbers.replace(",", "-").split("-"):
                self._stems[name, len(number), ""] = True

    def _remember(self, name: str) -> None:
        """Other ways to write a host: in another case, without its domain; and its domain by itself."""
        short, dot, domain = name.partition(".")
        for form in (name, short):
            if certain(form) and not form.isalpha():
                self.folded.setdefault(form.lower(), self.hosts[name])
                if (masked := re.sub("[0-9]+", "<N>", form)) != form:
                    self.masked[masked.lower()] = None
        if dot and len(name) <= LONGEST and RE["domain"].fullmatch(name):
            while "." in domain:
                self.domains.setdefault(domain.lower())
                domain = domain.partition(".")[2]
        for form in (name, short):
            self._note(form)
        for cache in self._caches:
            cache.clear()

    def _note(self, name: str) -> None:
        if _RE["like_numbers"].fullmatch(name) and certain(name):
            self.like_numbers = True

    def user(self, name: str) -> str:
        """Pseudonym of a user name."""
        if name in _NOBODY:
            return name
        if name not in self.users:
            self.users[name] = self._new("user")
            self._note(name)
        return self.users[name]

    def job(self, name: str) -> str:
        """Pseudonym of a job name or number."""
        if name not in self.jobs:
            self.jobs[name] = self._new("job")
            self._note(name)
            if name.isdigit() and len(name) >= 6:
                self.numbers[name] = self.jobs[name]
        return self.jobs[name]

    def secret(self, value: str) -> str:
        """Pseudonym of a token, key or password."""
        if value not in self.secrets:
            self.secrets[value] = self._new("secret")
        return self.secrets[value]

    def word(self, found: str) -> str:
        """Pseudonym of a word that is not ordinary."""
        if found not in self.words:
            begin = _RE["virtual"].match(found)
            self.words[found] = self._new(begin[0] if begin else "word")
        return self.words[found]

    def input_name(self, path: str) -> str:
        """Pseudonym of an input file; its kind, and the rank or the number of a task in its name, are kept."""
        if path in ("", "<stdin>", "-"):
            return path
        if path not in self.inputs:
            suffixes = [s for s in path.rsplit("/", 1)[-1].split(".")[1:] if s.lower() in {*FILE_SUFFIXES, "sqlite"}]
            place, task = read_path(path), _RE["task"].search(path)
            host, rank = self._named_by(path), "" if place.rank is None else f"rank{place.rank}"
            number = task[0] if task and not host and read_path(path.rsplit("/", 1)[-1]).rank is None else ""
            told = filter(None, [f"input{len(self.inputs) + 1}", host, rank, number])
            self.inputs[path] = ".".join(["-".join(told), *suffixes[-2:]])
        return self.inputs[path]

    def _named_by(self, path: str) -> str:
        """Pseudonym of the known host in the last names of a path: findings go by it."""
        parts = re.split("([-_./])", path)[-MOST_PARTS:]
        spans = ("".join(parts[a:b]) for a in range(len(parts)) for b in range(len(parts), a, -1))
        return next((self.hosts[span] for span in spans if span in self.hosts and certain(span)), "")

    def mapping(self) -> dict[str, dict[str, str]]:
        """What was replaced by what, to be kept by the owner of the data."""
        tables = {
            "hosts": self.hosts, "users": self.users, "jobs": self.jobs, "paths": {**self.paths, **self.files},
            "secrets": self.secrets, "inputs": self.inputs, "ipv4": self.book.v4, "ipv6": self.book.v6,
            "hardware": self.hardware, "words": self.words,
        }  # fmt: skip
        return {name: dict(sorted(table.items())) for name, table in tables.items()}

    def summary(self) -> str:
        """``12 hosts, 30 addresses, 1 user, 4 paths``."""
        counts = {
            "host": {*self.hosts.values()}, "address": {*self.book.v4, *self.book.v6}, "user": self.users,
            "path": self.paths, "job name": self.jobs, "hardware identifier": self.hardware, "secret": self.secrets,
            "other word": self.words,
        }  # fmt: skip
        said = [plural(len(n), w, "addresses" if w == "address" else None) for w, n in counts.items() if n]
        return ", ".join(said) or "nothing found to replace"

    def _new(self, word: str) -> str:
        number = self._counters.get(word, 0) + 1
        while f"{word}{number}" in self.reserved:
            number += 1
        self._counters[word] = number
        self.given.add(f"{word}{number}")
        return f"{word}{number}"

    def identifier(self, kind: str, found: str) -> str:
        """Pseudonym of an identifier of hardware; ``kind``: mac, uuid, guid, number or hex."""
        key = f"{kind} {_mac(found) if kind == 'mac' else found.lower()}"
        if key not in self.hardware:
            number = len(self.hardware) + 1
            digits = f"{number:012x}"
            self.hardware[key] = {
                "mac": ":".join(("02" + digits[2:])[i : i + 2] for i in range(0, 12, 2)),
                "uuid": f"00000000-0000-0000-0000-{digits}",
                "guid": f"0000{digits}",
                "number": f"id{number}",
                "hex": f"{number:0{len(found)}}",
            }[kind]
        return self.hardware[key]

    def parents(self, name: str) -> list[str]:
        """The known domains that the name ends with."""
        labels = name.lower().split(".")
        ends = (".".join(labels[at:]) for at in range(1, len(labels) - 1))
        return [end for end in ends if end in self.domains]

    def longer(self, name: str) -> str | None:
        """Pseudonym of a name that a collected host begins: its domain goes, ``-ib0`` and ``.log`` stay."""
        for end in range(len(name) - 1, 1, -1):
            if name[end] not in ".-_" or name[:end] not in self.hosts or not certain(name[:end]):
                continue
            first, dot, domain = name[end:].partition(".")
            file = dot and domain.rsplit(".", 1)[-1].lower() in FILE_SUFFIXES
            return self.hosts[name[:end]] + (name[end:] if file else first)
        return None

    def sibling(self, found: str) -> bool:
        """Whether a word looks like a collected host with another number of as many digits."""
        if not self._stems or found.isdigit():
            return False
        match = _RE["numbered"].fullmatch(found)
        return match is not None and (match[1], len(match[2]), match[3]) in self._stems and found not in self.given

    def file(self, name: str) -> str:
        """Pseudonym of the last part of a path; public files keep theirs."""
        if not name or (len(name) <= LONGEST and RE["public_file"].fullmatch(name)):
            return name
        if name not in self.files:
            suffix = name.rsplit(".", 1)[-1] if "." in name and name.rsplit(".", 1)[-1].lower() in FILE_SUFFIXES else ""
            self.files[name] = f"file{len(self.files) + 1}" + (f".{suffix}" if suffix else "")
        return self.files[name]
