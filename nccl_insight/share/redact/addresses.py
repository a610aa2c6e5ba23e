"""Pseudonyms of addresses that keep their kind and which of them share a subnet."""

import ipaddress
import re
from typing import Final

from nccl_insight.base.data import dataclass, field

V4: Final = re.compile(r"(?<![\w.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?!\w|\.[0-9])", re.ASCII)


def parse_v4(text: str) -> str | None:
    """The address in canonical form, ``None`` when it is none or says nothing about anybody.

    Loopback, the unspecified, broadcast and local multicast addresses and netmasks are the same everywhere.
    """
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return None
    if address.is_loopback or address.is_unspecified or text.startswith(("224.0.0.", "255.")):
        return None
    return str(address)


def spelled_v4(text: str) -> str | None:
    """The address that is spelled with other marks or with padding, if it is one of a private network."""
    octets = re.split("[._-]", text)
    address = parse_v4(".".join(str(int(octet)) for octet in octets))
    return address if address and ipaddress.IPv4Address(address).is_private else None


def parse_v6(text: str) -> ipaddress.IPv6Address | None:
    """The address, ``None`` when it is none, loopback or unspecified."""
    if text.count(":") < 2:
        return None
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    return None if address.is_loopback or address.is_unspecified or address.is_multicast else address


@dataclass
class AddressBook:
    """Pseudonyms of IPv4 and IPv6 addresses. ``originals`` are never given out as pseudonyms."""

    originals: set[str] = field(default_factory=set)
    v4: dict[str, str] = field(default_factory=dict)
    v6: dict[str, str] = field(default_factory=dict)
    _octets: dict[tuple[str, ...], dict[str, int]] = field(default_factory=dict)
    _next: dict[tuple[str, ...], int] = field(default_factory=dict)

    def ipv4(self, text: str) -> str:
        """A pseudonym with the same kind of network; equal prefixes (/16, /24) stay equal prefixes."""
        if text not in self.v4:
            octets = text.split(".")
            head = self._network(octets)
            if len(head) < 3:
                head = (*head, str(self._number(("3", *octets[:2]), octets[2], 1)))
            place = ("4", *head)
            last = self._number(place, text, 1)
            while ".".join((*head, str(last % 256))) in self.originals and last < 4096:
                last = self._next[place]
                self._next[place] = last + 1
                self._octets[place][text] = last
            self.v4[text] = ".".join((*head, str(last % 256)))
        return self.v4[text]

    def ipv6(self, text: str, address: ipaddress.IPv6Address) -> str:
        """A pseudonym: link-local stays link-local, an embedded IPv4 address follows its own pseudonym."""
        key = address.compressed
        if key not in self.v6:
            mapped = address.ipv4_mapped
            if mapped is not None:
                inner = parse_v4(str(mapped))
                self.v6[key] = f"::ffff:{self.ipv4(inner) if inner else mapped}"
            else:
                prefix = "fe80" if address.is_link_local else "fd00" if key.startswith("fd") else "2001:db8"
                given = ipaddress.IPv6Address(f"{prefix}::") + len(self.v6) + 1
                while given.compressed in self.originals:
                    given += 65536
                self.v6[key] = given.compressed
        return self.v6[key]

    def _network(self, octets: list[str]) -> tuple[str, ...]:
        """The first octets of the pseudonym: three for default bridges, else two."""
        a, b, c, _ = octets
        if (a, b, c) == ("192", "168", "122"):
            return a, b, c
        if (a, b) in (("192", "168"), ("172", "17"), ("169", "254")):
            return a, b
        if a == "10":
            return a, str(self._number(("2", a), b, 200))
        if a == "172" and 16 <= int(b) <= 31:
            return a, str(18 + self._number(("2", a), b, 0) % 14)
        if a == "100" and 64 <= int(b) <= 127:
            return a, str(64 + self._number(("2", a), b, 0) % 64)
        return "198", str(18 + self._number(("2", "public"), f"{a}.{b}", 0) % 2)

    def _number(self, place: tuple[str, ...], item: str, start: int) -> int:
        numbers = self._octets.setdefault(place, {})
        if item not in numbers:
            number = self._next.get(place, start)
            if len(place[0]) == 1 and place[0] in "23" and str(number) == item:
                number += 1
            numbers[item] = number
            self._next[place] = number + 1
        return numbers[item] if place[0] == "4" else numbers[item] % 256
