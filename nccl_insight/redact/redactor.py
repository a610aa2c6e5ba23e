"""Replaces names in text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from nccl_insight.redact.addresses import AddressBook, parse_v4, parse_v6
from nccl_insight.redact.patterns import (
    COMMON,
    DOMAIN,
    FILE_SUFFIXES,
    GUID,
    HEAD,
    JOB,
    KNOWN_DOMAINS,
    PLACE,
    PUBLIC_FILE,
    RUN,
    SYSTEM_ROOTS,
    TOKEN,
    may_match,
)

COVERED: Final = (
    "host names, IPv4 and IPv6 addresses and GIDs, MACs, GUIDs and UUIDs, user names, paths outside the system's "
    "own directories, job names and numbers of schedulers"
)
NOT_PROMISED: Final = (
    "names that appear only in free text of other programs, and names of organisations, projects or models; "
    "read before sharing"
)
_CACHE: Final = 200_000
_POINTER: Final = re.compile(r"0x[0-9a-fA-F]+")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_](?:[\w-]|[.@](?=[A-Za-z0-9]))*", re.ASCII)
_NUMBERED: Final = re.compile(r"(.*?[A-Za-z][A-Za-z_-]*?)([0-9]+)(.*)", re.S)


@dataclass
class Redactor:
    """Names and their pseudonyms. Fill it with :func:`nccl_insight.redact.collect`; then it only reads them.

    Names that were not collected but match a pattern get a pseudonym when they are met.
    """

    hosts: dict[str, str] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, str] = field(default_factory=dict)
    book: AddressBook = field(default_factory=AddressBook)
    reserved: set[str] = field(default_factory=set)
    _runs: dict[str, str] = field(default_factory=dict, repr=False)
    _masked: dict[str, None] = field(default_factory=dict, repr=False)
    _odd: list[str] = field(default_factory=list, repr=False)
    _cache: dict[str, str] = field(default_factory=dict, repr=False)
    _counters: dict[str, int] = field(default_factory=dict)
    _given: set[str] = field(default_factory=set)
    _stems: dict[tuple[str, int, str], bool] = field(default_factory=dict)

    def host(self, name: str) -> str:
        """Pseudonym of a host name (also of an address that stands for a host)."""
        if name == "localhost" or not name:
            return name
        if parse_v4(name):
            return self.book.ipv4(name)
        if name not in self.hosts:
            known = self._longer(name)
            if known is not None:
                self.hosts[name] = known
            else:
                self.hosts[name] = self._new("node")
                masked = re.sub("[0-9]+", "<N>", name)
                if masked != name and self._certain(name):
                    self._masked[masked] = None
                if not _PLAIN.fullmatch(name) and len(name) > 3:
                    self._odd.append(name)
                match = _NUMBERED.fullmatch(name)
                if match and len(match[1]) >= 2 and match[1].lower() not in COMMON:
                    self._stems[match[1], len(match[2]), match[3]] = True
        return self.hosts[name]

    def user(self, name: str) -> str:
        """Pseudonym of a user name."""
        if name == "root":
            return name
        if name not in self.users:
            self.users[name] = self._new("user")
        return self.users[name]

    def job(self, name: str) -> str:
        """Pseudonym of a job name or number."""
        if name not in self.jobs:
            self.jobs[name] = self._new("job")
        return self.jobs[name]

    def input_name(self, path: str) -> str:
        """Pseudonym of an input file, with its kind kept by the suffix."""
        if path in ("", "<stdin>", "-"):
            return path
        if path not in self.inputs:
            suffixes = [
                s
                for s in path.rsplit("/", 1)[-1].split(".")[1:]
                if s.lower() in FILE_SUFFIXES or s == "sqlite"
            ]
            self.inputs[path] = ".".join([f"input{len(self.inputs) + 1}", *suffixes[-2:]])
        return self.inputs[path]

    def text(self, text: str) -> str:
        """The text with every name replaced."""
        if may_match("job", text):
            text = JOB.sub(lambda m: m[1] + self.job(m[2]), text)
        text = HEAD.sub(lambda m: self.hosts.get(m[1], m[1]), text)
        if may_match("place", text):
            text = PLACE.sub(self._place, text)
        if may_match("guid", text):
            text = GUID.sub(lambda m: m[1] + self._identifier("guid", m[2]), text)
        if "<N>" in text:  # templates of unknown lines, whose figures are masked
            for masked in self._masked:
                text = text.replace(masked, "node<N>")
        for name in self._odd:
            text = text.replace(name, self.hosts[name])
        return RUN.sub(self._run, text)

    def mapping(self) -> dict[str, dict[str, str]]:
        """What was replaced by what, to be kept by the owner of the data."""
        tables = {
            "hosts": self.hosts, "users": self.users, "jobs": self.jobs, "paths": {**self.paths, **self.files},
            "inputs": self.inputs, "ipv4": self.book.v4, "ipv6": self.book.v6, "hardware": self.hardware,
        }  # fmt: skip
        return {name: dict(sorted(table.items())) for name, table in tables.items()}

    def summary(self) -> str:
        """``12 hosts, 30 addresses, 1 user, 4 paths``."""
        counts = (
            ("host", len(set(self.hosts.values()))), ("address", len(self.book.v4) + len(self.book.v6)),
            ("user", len(self.users)), ("path", len(self.paths)), ("job name", len(self.jobs)),
            ("hardware identifier", len(self.hardware)),
        )  # fmt: skip
        plural = {"address": "addresses"}
        return (
            ", ".join(f"{n:,} {w if n == 1 else plural.get(w, w + 's')}" for w, n in counts if n)
            or "nothing found to replace"
        )

    def _new(self, word: str) -> str:
        number = self._counters.get(word, 0) + 1
        while f"{word}{number}" in self.reserved:
            number += 1
        self._counters[word] = number
        self._given.add(f"{word}{number}")
        return f"{word}{number}"

    def _run(self, match: re.Match[str]) -> str:
        found = match[0]
        known = self._runs.get(found)
        if known is None:
            if len(self._runs) > _CACHE:
                self._runs.clear()
            known = self._runs[found] = TOKEN.sub(self._token, found) if len(found) > 2 else found
        return known

    def _place(self, match: re.Match[str]) -> str:
        index = match.lastindex or 0
        name = match[index]
        if name not in self.hosts:
            return match[0]
        start, end = match.start(index) - match.start(), match.end(index) - match.start()
        return match[0][:start] + self.hosts[name] + match[0][end:]

    def _token(self, match: re.Match[str]) -> str:
        kind, found = match.lastgroup, match[0]
        if kind == "word":
            return self._word(found)
        if kind == "v4":
            address = parse_v4(found)
            return self.book.ipv4(address) if address else found
        if kind == "v6":
            six = parse_v6(found)
            return (
                self.book.ipv6(found, six)
                if six
                else TOKEN.sub(self._token, found)
                if "." in found
                else found
            )
        if kind == "path":
            return self._path(found)
        if kind == "url":
            return self._url(found)
        return self._identifier(str(kind), found)

    def _identifier(self, kind: str, found: str) -> str:
        key = f"{kind} {found.lower().replace('-', ':') if kind == 'mac' else found.lower()}"
        if key not in self.hardware:
            digits = f"{len(self.hardware) + 1:012x}"
            self.hardware[key] = {
                "mac": ":".join(("02" + digits[2:])[i : i + 2] for i in range(0, 12, 2)),
                "uuid": f"00000000-0000-0000-0000-{digits}",
                "guid": f"0000{digits}",
            }[kind]
        return self.hardware[key]

    def _word(self, found: str) -> str:
        if found.isdigit() or _POINTER.fullmatch(found):
            return found
        known = self._cache.get(found)
        if known is None:
            if len(self._cache) > _CACHE:
                self._cache.clear()
            known = self._cache[found] = self._new_word(found)
        return known

    def _new_word(self, found: str) -> str:
        if found in self.hosts and self._certain(found):
            return self.hosts[found]
        if found in self.users and self._certain(found):
            return self.users[found]
        if found in self.jobs and self._certain(found):
            return self.jobs[found]
        if "@" in found:
            return "@".join(TOKEN.sub(self._token, part) for part in found.split("@"))
        longer = self._longer(found)
        if longer is not None:
            return longer
        if "." in found:
            if DOMAIN.fullmatch(found):
                known = any(found == d or found.endswith("." + d) for d in KNOWN_DOMAINS)
                return found if known else self.host(found)
            labels = found.split(".")
            return ".".join(self._word(label) for label in labels) if all(labels) else found
        if found.startswith("ip-") and re.fullmatch(r"ip(?:-[0-9]{1,3}){4}", found):
            return self.host(found)
        if self._sibling(found):
            return self.host(found)
        for start in range(1, len(found) - 2):
            if found[start:] in self.hosts and self._certain(found[start:]):
                return found[:start] + self.hosts[found[start:]]
        return found

    def _longer(self, name: str) -> str | None:
        """Pseudonym of a name that a collected host begins: its domain goes, ``-ib0`` and ``.log`` stay."""
        for end in range(len(name) - 1, 1, -1):
            if name[end] not in ".-_" or name[:end] not in self.hosts or not self._certain(name[:end]):
                continue
            first, dot, domain = name[end:].partition(".")
            if dot and domain.rsplit(".", 1)[-1].lower() in FILE_SUFFIXES:
                return self.hosts[name[:end]] + name[end:]
            return self.hosts[name[:end]] + first
        return None

    def _sibling(self, found: str) -> bool:
        """Whether a word looks like a collected host with another number of as many digits."""
        if not self._stems or found.isdigit():
            return False
        match = _NUMBERED.fullmatch(found)
        return (
            match is not None
            and (match[1], len(match[2]), match[3]) in self._stems
            and found not in self._given
        )

    @staticmethod
    def _certain(name: str) -> bool:
        return len(name) > 2 and name.lower() not in COMMON and not name.isdigit()

    def _path(self, found: str) -> str:
        parts = [p for p in found.split("/") if p and p not in ("~", ".", "..")]
        if not found.startswith("~") and parts and parts[0] in SYSTEM_ROOTS:
            return re.sub(r"[^/]+", lambda m: self._word(m[0]), found)
        if len(parts) < 2 and not found.startswith("~"):
            return re.sub(r"[^/]+", lambda m: self._word(m[0]), found)
        ends = found.endswith("/")
        folder = found.rstrip("/") if ends else found.rsplit("/", 1)[0]
        name = "" if ends else found.rsplit("/", 1)[1]
        tail = re.search(r"[.,]+$", name)
        if tail:
            name = name[: tail.start()]
        if folder and folder not in self.paths:
            self.paths[folder] = f"/dir{len(self.paths) + 1}"
        return self.paths.get(folder, "") + "/" + self._file(name) + (tail[0] if tail else "")

    def _file(self, name: str) -> str:
        if not name or PUBLIC_FILE.fullmatch(name):
            return name
        if name not in self.files:
            suffix = (
                name.rsplit(".", 1)[-1]
                if "." in name and name.rsplit(".", 1)[-1].lower() in FILE_SUFFIXES
                else ""
            )
            self.files[name] = f"file{len(self.files) + 1}" + (f".{suffix}" if suffix else "")
        return self.files[name]

    def _url(self, found: str) -> str:
        scheme, _, rest = found.partition("://")
        place = re.split(r"[/:?#]", rest.rsplit("@", 1)[-1].strip("[]"), maxsplit=1)[0]
        if any(place == d or place.endswith("." + d) for d in KNOWN_DOMAINS):
            return found
        after = rest.rsplit("@", 1)[-1][len(place) :]
        address = parse_v4(place)
        name = (
            self.book.ipv4(address)
            if address
            else place
            if parse_v6(place) or ("." not in place and place not in self.hosts)
            else self.host(place)
        )
        return f"{scheme}://{name}" + TOKEN.sub(self._token, after)
