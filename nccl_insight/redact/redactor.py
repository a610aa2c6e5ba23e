"""Replaces names in text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from nccl_insight.redact.addresses import AddressBook, parse_v4, parse_v6
from nccl_insight.redact.patterns import (
    BEARER,
    BUCKETS,
    COMMON,
    DOMAIN,
    EMAIL,
    FILE_SUFFIXES,
    GUID,
    HEAD,
    JOB,
    JOB_NUMBER,
    KEY_HINTS,
    KEYS,
    KNOWN_DOMAINS,
    MARKED,
    MARKS,
    NUMBER_HINTS,
    NUMBERS,
    PLACE,
    POD,
    PUBLIC_FILE,
    PUBLIC_OPT,
    RUN,
    SECRET,
    SYSTEM_ROOTS,
    TOKEN,
    UUID,
    may_match,
)

COVERED: Final = (
    "host names (short, long, in any case), pods and containers, IPv4 and IPv6 addresses and GIDs, MACs, GUIDs and "
    "UUIDs (also of GPUs and MIG instances), user names and e-mail addresses, paths outside the system's own "
    "directories, storage buckets, job names and numbers of schedulers, tokens, "
    "keys and passwords that are marked as such, serial numbers, cloud instances and accounts"
)
NOT_PROMISED: Final = (
    "names that appear only in free text of other programs, and names of organisations, projects or models; "
    "read before sharing"
)
_CACHE: Final = 200_000
_LONGEST: Final = 255
_UUID: Final = re.compile(UUID)
_COLON_GUID: Final = re.compile(r"[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){3}")
_HEX_RUN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:0x)?([0-9a-fA-F]{32,}|[0-9a-fA-F]{16}|[0-9a-f]{12})(?![A-Za-z0-9])"
)
_V4_IN: Final = re.compile(r"(?<![\w.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?!\w|\.[0-9])", re.ASCII)
_POINTER: Final = re.compile(r"0x[0-9a-fA-F]+")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_](?:[\w-]|[.@](?=[A-Za-z0-9]))*", re.ASCII)
_NUMBERED: Final = re.compile(r"(.*?[A-Za-z][A-Za-z_-]*?)([0-9]+)(.*)", re.S)


def _mac(found: str) -> str:
    """One way to write an address that comes with colons, hyphens or dots."""
    digits = re.sub("[^0-9a-f]", "", found.lower())
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))


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
    secrets: dict[str, str] = field(default_factory=dict)
    book: AddressBook = field(default_factory=AddressBook)
    reserved: set[str] = field(default_factory=set)
    _runs: dict[str, str] = field(default_factory=dict, repr=False)
    _masked: dict[str, None] = field(default_factory=dict, repr=False)
    _odd: list[str] = field(default_factory=list, repr=False)
    _cache: dict[str, str] = field(default_factory=dict, repr=False)
    _counters: dict[str, int] = field(default_factory=dict)
    _given: set[str] = field(default_factory=set)
    _folded: dict[str, str] = field(default_factory=dict, repr=False)
    _domains: dict[str, None] = field(default_factory=dict, repr=False)
    _numbers: dict[str, str] = field(default_factory=dict, repr=False)
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
                self._remember(name)
            else:
                self.hosts[name] = self._new("node")
                self._remember(name)
                masked = re.sub("[0-9]+", "<N>", name)
                if masked != name and self._certain(name):
                    self._masked[masked] = None
                if not _PLAIN.fullmatch(name) and len(name) > 3:
                    self._odd.append(name)
                match = _NUMBERED.fullmatch(name[:_LONGEST])
                if match and len(match[1]) >= 2 and match[1].lower() not in COMMON:
                    self._stems[match[1], len(match[2]), match[3]] = True
        return self.hosts[name]

    def _remember(self, name: str) -> None:
        """Other ways to write a host: in another case, without its domain; and its domain by itself."""
        short, dot, domain = name.partition(".")
        for form in (name, short):
            if self._certain(form) and not form.isalpha():
                self._folded.setdefault(form.lower(), self.hosts[name])
        if dot and len(name) <= _LONGEST and DOMAIN.fullmatch(name):
            while "." in domain:
                self._domains.setdefault(domain.lower())
                domain = domain.partition(".")[2]
        self._cache.clear()
        self._runs.clear()

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
            if name.isdigit() and len(name) >= 6:
                self._numbers[name] = self.jobs[name]
        return self.jobs[name]

    def secret(self, value: str) -> str:
        """Pseudonym of a token, key or password."""
        if value not in self.secrets:
            self.secrets[value] = self._new("secret")
        return self.secrets[value]

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
        if may_match("secret", text):
            text = SECRET.sub(self._secret, text)
            text = BEARER.sub(lambda m: f"{m[1]} {self.secret(m[2])}", text)
        if any(hint in text for hint in KEY_HINTS):
            text = KEYS.sub(lambda m: self.secret(m[0]), text)
        if any(hint in text for hint in MARKS):
            text = MARKED.sub(self._marked, text)
        if may_match("number", text):
            text = JOB_NUMBER.sub(self._job_number, text)
        if may_match("job", text):
            text = JOB.sub(lambda m: m[1] + self.job(m[2]), text)
        if any(hint in text for hint in NUMBER_HINTS):
            text = NUMBERS.sub(self._numbered, text)
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
            "secrets": self.secrets, "inputs": self.inputs, "ipv4": self.book.v4, "ipv6": self.book.v6,
            "hardware": self.hardware,
        }  # fmt: skip
        return {name: dict(sorted(table.items())) for name, table in tables.items()}

    def summary(self) -> str:
        """``12 hosts, 30 addresses, 1 user, 4 paths``."""
        counts = (
            ("host", len(set(self.hosts.values()))), ("address", len(self.book.v4) + len(self.book.v6)),
            ("user", len(self.users)), ("path", len(self.paths)), ("job name", len(self.jobs)),
            ("hardware identifier", len(self.hardware)), ("secret", len(self.secrets)),
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

    def _secret(self, match: re.Match[str]) -> str:
        value = match["value"]
        # "tokens: 4096", "key=value" of a table: a secret is longer than a word and no number.
        plain = value.isdigit() or value.lower() in (
            "true",
            "false",
            "none",
            "null",
            "set",
            "unset",
            "required",
        )
        if plain or (len(value) < 8 and "pass" not in match["name"].lower()) or value in self._given:
            return match[0]
        return match["name"] + self.secret(value)

    def _marked(self, match: re.Match[str]) -> str:
        index = match.lastindex or 0
        value = match[index]
        return match[0] if value in self._given else match[index - 1] + self.secret(value)

    def _numbered(self, match: re.Match[str]) -> str:
        index = match.lastindex or 0
        value = match[index]
        if value in self._given or not any(c.isdigit() for c in value):
            return match[0]
        return match[index - 1] + self._identifier("number", value)

    def _job_number(self, match: re.Match[str]) -> str:
        number = match[match.lastindex or 0]
        return match[0].replace(number, self.job(number))

    def _token(self, match: re.Match[str]) -> str:
        kind, found = match.lastgroup, match[0]
        if kind == "word":
            if found in self._numbers and ":" not in match.string[match.end() : match.end() + 1]:
                before = match.string[: match.start()][-1:]
                return found if before == ":" else self._numbers[found]
            return self._word(found)
        if kind == "uuid":
            return _UUID.sub(lambda m: self._identifier("uuid", m[0]), found)
        if kind == "v4":
            address = parse_v4(found)
            return self.book.ipv4(address) if address else found
        if kind == "v6":
            if _COLON_GUID.fullmatch(found):
                return self._identifier("guid", found)
            six = parse_v6(found)
            return self.book.ipv6(found, six) if six else _V4_IN.sub(self._v4, found)
        if kind == "path":
            return self._path(found)
        if kind == "url":
            return self._url(found)
        return self._identifier(str(kind), found)

    def _v4(self, match: re.Match[str]) -> str:
        address = parse_v4(match[0])
        return self.book.ipv4(address) if address else match[0]

    def _identifier(self, kind: str, found: str) -> str:
        key = f"{kind} {_mac(found) if kind == 'mac' else found.lower()}"
        if key not in self.hardware:
            digits = f"{len(self.hardware) + 1:012x}"
            self.hardware[key] = {
                "mac": ":".join(("02" + digits[2:])[i : i + 2] for i in range(0, 12, 2)),
                "uuid": f"00000000-0000-0000-0000-{digits}",
                "guid": f"0000{digits}",
                "number": f"id{len(self.hardware) + 1}",
                "hex": f"000000000000{digits}{'0' * 40}"[: max(12, len(found))],
            }[kind]
        return self.hardware[key]

    def _word(self, found: str) -> str:
        if found.isdigit() or _POINTER.fullmatch(found) or found in self._given:
            return found
        if len(found) > _LONGEST:
            return "".join(self._word(found[at : at + _LONGEST]) for at in range(0, len(found), _LONGEST))
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
        folded = self._folded.get(found.lower())
        if folded is not None:
            return folded
        mail = EMAIL.fullmatch(found)
        if mail:
            known = any(mail[2] == d or mail[2].endswith("." + d) for d in KNOWN_DOMAINS)
            return f"{self.user(mail[1])}@{mail[2] if known else self.host(mail[2].lower())}"
        if _UUID.search(found):
            return _UUID.sub(lambda m: self._identifier("uuid", m[0]), found)
        if _HEX_RUN.search(found):
            replaced = _HEX_RUN.sub(self._hex, found)
            if replaced != found:
                return replaced
        if POD.fullmatch(found):
            return self.host(found)
        if "@" in found:
            return "@".join(TOKEN.sub(self._token, part) for part in found.split("@"))
        longer = self._longer(found)
        if longer is not None:
            return longer
        if "." in found:
            if found.lower() in self._domains:
                return self.host(found.lower())
            if any(found.lower().endswith("." + d) for d in self._parents(found)):
                return self.host(found)
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

    def _parents(self, name: str) -> list[str]:
        """The known domains that the name ends with."""
        labels = name.lower().split(".")
        ends = (".".join(labels[at:]) for at in range(1, len(labels) - 1))
        return [end for end in ends if end in self._domains]

    def _hex(self, match: re.Match[str]) -> str:
        """A long number in hexadecimal digits that is none of a program: a GUID, a container, a key."""
        digits = match[1]
        if match[0].startswith("0x") or digits.isdigit() or digits.isalpha() or len(set(digits)) < 5:
            return match[0]
        return self._identifier("guid" if len(digits) == 16 else "hex", digits)

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
        public = bool(parts) and parts[0] in SYSTEM_ROOTS
        if (
            public
            and parts[0] == "opt"
            and len(parts) > 2
            and parts[1].lower().split("-")[0] not in PUBLIC_OPT
        ):
            public = parts[1].lower() in PUBLIC_OPT
        if not found.startswith("~") and public:
            return re.sub(r"[^/]+", lambda m: self._word(m[0]), found)
        if len(parts) < 2 and not found.startswith("~"):
            return re.sub(r"[^/]+", lambda m: self._word(m[0]), found)
        ends = found.endswith("/")
        folder = found.rstrip("/") if ends else found.rsplit("/", 1)[0]
        name = "" if ends else found.rsplit("/", 1)[1]
        whole, name = name, name.rstrip(".,")
        if folder and folder not in self.paths:
            self.paths[folder] = f"/dir{len(self.paths) + 1}"
        return self.paths.get(folder, "") + "/" + self._file(name) + whole[len(name) :]

    def _file(self, name: str) -> str:
        if not name or (len(name) <= _LONGEST and PUBLIC_FILE.fullmatch(name)):
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
        if scheme in BUCKETS:
            tail = self._path(after) if len(after) > 1 else after
            return f"{scheme}://{self.host(place.lower()) if place else ''}{tail}"
        address = parse_v4(place)
        name = (
            self.book.ipv4(address)
            if address
            else place
            if parse_v6(place) or ("." not in place and (place.lower() in COMMON or not self._certain(place)))
            else self.host(place)
        )
        return f"{scheme}://{name}" + TOKEN.sub(self._token, after)
