"""What stands for a word: hosts, users, addresses, paths and identifiers by their form."""

import re
from collections.abc import Callable
from typing import Final

from nccl_insight.share.redact import patterns
from nccl_insight.share.redact.addresses import V4, parse_v4, parse_v6, spelled_v4
from nccl_insight.share.redact.names import LONGEST, MOST_PARTS, Names, certain

_CACHE: Final = 200_000
_UUID: Final = patterns.RE["uuid"]
_COLON_GUID: Final = re.compile(r"[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){3}")
_HEX_GROUPS: Final = patterns.RE["hex_groups"]
_HEX_RUN: Final = patterns.RE["hex_run"]
# An interface of systemd that is called after its address.
_MAC_DEVICE: Final = re.compile(r"(?:enx|wlx|ibx)[0-9a-f]{12}")
# What stands between the parts of a word.
_MARKS: Final = re.compile(r"([-_.])")
_SHORTEST_PART: Final = 4
# Numbers of the IEEE for ports and nodes have these digits in their middle, no pointer has.
_POINTER: Final = re.compile(r"0x(?![0-9a-fA-F]{6}(?:0300|[fF]{3}[eE])[0-9a-fA-F]{6}\Z)[0-9a-fA-F]+")


def _known_domain(name: str) -> bool:
    return f".{name}".endswith(tuple(f".{known}" for known in patterns.KNOWN_DOMAINS))


class Words:
    """Replaces words by what the names say; what has the form of an identifier becomes a name when it is met."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[str, str] = names.cache()
        self._runs: dict[str, str] = names.cache()

    def replaced(self, text: str) -> str:
        """The text with its words replaced."""
        return patterns.RE["run"].sub(self._run, text)

    def _run(self, match: re.Match[str]) -> str:
        found = match[0]
        known = self._runs.get(found)
        if known is None:
            if len(self._runs) > _CACHE:
                self._runs.clear()
            known = self._runs[found] = patterns.RE["token"].sub(self._token, found) if len(found) > 2 else found
        return known

    def _token(self, match: re.Match[str]) -> str:
        kind, found = match.lastgroup, match[0]
        if kind == "word":
            if found in self._names.numbers and ":" not in match.string[match.end() : match.end() + 1]:
                before = match.string[: match.start()][-1:]
                return found if before == ":" else self._names.numbers[found]
            return self._word(found)
        if kind == "uuid":
            return _UUID.sub(self._numbered("uuid"), found)
        if kind == "v4":
            return self._v4(found)
        if kind == "v6":
            if _COLON_GUID.fullmatch(found):
                return self._names.identifier("guid", found)
            six = parse_v6(found)
            return self._names.book.ipv6(found, six) if six else V4.sub(lambda m: self._v4(m[0]), found)
        if kind in ("path", "spelled"):
            mark = match["mark"] or "/"
            return self._path(found.replace(mark, "/")).replace("/", mark)
        if kind == "url":
            return self._url(found)
        if kind == "mail":
            return self._word(found.replace("%40", "@")).replace("@", "%40")
        return self._names.identifier(str(kind), found)

    def _v4(self, found: str) -> str:
        address = parse_v4(found) or spelled_v4(found)
        return self._names.book.ipv4(address) if address else found

    def _within(self, match: re.Match[str]) -> str:
        found = spelled_v4(match[0])
        return self._names.book.ipv4(found).replace(".", match[1]) if found else match[0]

    def _word(self, found: str) -> str:
        if found.isdigit() or _POINTER.fullmatch(found) or found in self._names.given:
            return found
        if len(found) > LONGEST:
            return "".join(self._word(found[at : at + LONGEST]) for at in range(0, len(found), LONGEST))
        known = self._known.get(found)
        if known is None:
            if len(self._known) > _CACHE:
                self._known.clear()
            known = self._known[found] = self._new_word(found)
        return known

    def _new_word(self, found: str) -> str:
        if known := self._certain(found) or self._names.folded.get(found.lower()):
            return known
        mail = patterns.RE["email"].fullmatch(found)
        if mail:
            at = mail[2] if _known_domain(mail[2]) else self._names.host(mail[2].lower())
            return f"{self._names.user(mail[1])}@{at}"
        if _UUID.search(found):
            return _UUID.sub(self._numbered("uuid"), found)
        if _MAC_DEVICE.fullmatch(found):
            return found[:3] + self._names.identifier("mac", found[3:]).replace(":", "")
        replaced = _HEX_RUN.sub(self._hex, _HEX_GROUPS.sub(self._numbered("guid"), found))
        if replaced != found:
            return replaced
        if patterns.RE["pod"].fullmatch(found):
            return self._names.host(found)
        if "@" in found:
            return "@".join(patterns.RE["token"].sub(self._token, part) for part in found.split("@"))
        if known := self._names.longer(found) or self._parts(found):
            return known
        replaced = patterns.RE["v4_within"].sub(self._within, found)
        if replaced != found:
            return replaced
        if "." in found:
            return self._dotted(found)
        if re.fullmatch(r"ip(?:-[0-9]{1,3}){4}", found) or self._names.sibling(found):
            return self._names.host(found)
        for start in range(1, len(found) - 2):
            if found[start:] in self._names.hosts and certain(found[start:]):
                return found[:start] + self._names.hosts[found[start:]]
        return found

    def _dotted(self, found: str) -> str:
        """A name with dots: a host of a known or unknown domain, or words one after the other."""
        if patterns.RE["pod"].fullmatch(found.partition(".")[0]):
            return self._names.host(found)
        if found.lower() in self._names.domains:
            return self._names.host(found.lower())
        if found.lower().endswith(tuple("." + d for d in self._names.parents(found))):
            return self._names.host(found)
        if patterns.RE["domain"].fullmatch(found):
            return found if _known_domain(found) else self._names.host(found)
        labels = found.split(".")
        return ".".join(self._word(label) for label in labels) if all(labels) else found

    def _parts(self, found: str) -> str | None:
        """A word with known names among its parts (``run_alice_7b``, ``log-node7-rank3``), ``None`` without one."""
        parts = _MARKS.split(found)
        if not 2 < len(parts) <= MOST_PARTS:
            return None
        made, at = "", 0
        while at < len(parts):
            for end in range(len(parts) if at else len(parts) - 2, at, -2):
                part = "".join(parts[at:end])
                known = self._certain(part) if len(part) >= _SHORTEST_PART else None
                if known is not None:
                    made, at = made + known + "".join(parts[end : end + 1]), end + 1
                    break
            else:
                made, at = made + "".join(parts[at : at + 2]), at + 2
        return made if made != found else None

    def _certain(self, found: str) -> str | None:
        """The new name of a host, a user or a job, where the word can be nothing else."""
        names = self._names
        known = names.hosts.get(found) or names.users.get(found) or names.jobs.get(found)
        return known if known and certain(found) else None

    def _numbered(self, kind: str) -> Callable[[re.Match[str]], str]:
        return lambda match: self._names.identifier(kind, match[0])

    def _hex(self, match: re.Match[str]) -> str:
        """A long number in hexadecimal digits that is none of a program: a GUID, a container, a key."""
        digits = match[1]
        if _POINTER.fullmatch(match[0]) or digits.isdigit() or digits.isalpha() or len(set(digits)) < 5:
            return match[0]
        return self._names.identifier("guid" if len(digits) == 16 else "hex", digits)

    def _path(self, found: str) -> str:
        parts = [p for p in found.split("/") if p and p not in ("~", ".", "..")]
        root, *below = parts or [""]
        owner = below[0].lower() if root == "opt" and len(below) > 1 else ""
        public = root in patterns.SYSTEM_ROOTS and (not owner or patterns.PUBLIC_OPT & {owner, owner.split("-")[0]})
        if not found.startswith("~") and (public or not below):
            return re.sub(r"[^/]+", lambda m: self._word(m[0]), found)
        ends = found.endswith("/")
        folder = found.rstrip("/") if ends else found.rsplit("/", 1)[0]
        name = "" if ends else found.rsplit("/", 1)[1]
        whole, name = name, name.rstrip(".,")
        if folder and folder not in self._names.paths:
            self._names.paths[folder] = f"/dir{len(self._names.paths) + 1}"
        return self._names.paths.get(folder, "") + "/" + self._names.file(name) + whole[len(name) :]

    def _url(self, found: str) -> str:
        scheme, _, rest = found.partition("://")
        place = re.split(r"[/:?#]", rest.rsplit("@", 1)[-1].strip("[]"), maxsplit=1)[0]
        after = rest.rsplit("@", 1)[-1][len(place) :]
        if any(place == d or place.endswith("." + d) for d in patterns.KNOWN_DOMAINS):
            owned = place.endswith(("github.com", "githubusercontent.com")) and after.count("/") > 1
            if owned and after.split("/")[1].lower() not in patterns.PUBLIC_OWNERS:
                after = patterns.RE["token"].sub(self._token, after)
            return f"{scheme}://{place}{after}"
        if scheme in patterns.BUCKETS:
            tail = self._path(after) if len(after) > 1 else after
            return f"{scheme}://{self._names.host(place.lower()) if place else ''}{tail}"
        plain = parse_v6(place) or ("." not in place and (place.lower() in patterns.COMMON or not certain(place)))
        name = self._v4(place) if parse_v4(place) else place if plain else self._names.host(place)
        return f"{scheme}://{name}" + patterns.RE["token"].sub(self._token, after)
