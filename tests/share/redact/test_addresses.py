"""Pseudonyms of addresses: which networks stay what they are, and which addresses stay neighbors."""

from __future__ import annotations

import ipaddress

import pytest

from nccl_insight.share.redact.addresses import AddressBook, parse_v4, parse_v6


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("10.1.2.3", "10.1.2.3"), ("127.0.0.1", None), ("0.0.0.0", None), ("255.255.240.0", None),
        ("224.0.0.251", None), ("2.21.5", None), ("300.1.1.1", None),
    ],
)  # fmt: skip
def test_addresses_that_are_the_same_everywhere_are_nobodys(text: str, kept: str | None) -> None:
    assert parse_v4(text) == kept


@pytest.mark.parametrize("text", ["::1", "::", "ff02::1", "12:30", "a:b", "1:2:3:4"])
def test_what_is_no_address_of_a_machine(text: str) -> None:
    assert parse_v6(text) is None


def test_equal_networks_stay_equal_and_no_octet_stays() -> None:
    book = AddressBook()
    first, same_24, same_16, other = (book.ipv4(f"10.{rest}") for rest in ("7.3.1", "7.3.2", "7.4.1", "8.3.1"))
    assert len({first, same_24, same_16, other}) == 4
    assert first.rsplit(".", 1)[0] == same_24.rsplit(".", 1)[0] != same_16.rsplit(".", 1)[0]
    assert first.split(".")[:2] == same_16.split(".")[:2] != other.split(".")[:2]
    assert first.split(".")[0] == "10"
    assert "7" != first.split(".")[1] != "8"
    assert book.ipv4("10.7.3.1") == first


@pytest.mark.parametrize(
    ("original", "network"),
    [
        ("192.168.44.7", "192.168.0.0/16"), ("172.17.0.2", "172.17.0.0/16"), ("169.254.9.9", "169.254.0.0/16"),
        ("172.20.1.1", "172.16.0.0/12"), ("100.90.1.1", "100.64.0.0/10"), ("8.8.4.4", "198.18.0.0/15"),
        ("192.168.122.50", "192.168.122.0/24"),
    ],
)  # fmt: skip
def test_the_kind_of_a_network_stays(original: str, network: str) -> None:
    """Private, link-local, shared (RFC 6598) and bridges; public addresses become those for benchmarks (RFC 2544)."""
    assert ipaddress.ip_address(AddressBook().ipv4(original)) in ipaddress.ip_network(network)


def test_ipv6_keeps_its_kind_and_the_address_within() -> None:
    book = AddressBook(originals={"fe80::1"})
    given = {text: book.ipv6(text, ipaddress.IPv6Address(text)) for text in ("fe80::ab:1", "fd12::5", "2a02::7")}
    assert [ipaddress.IPv6Address(pseudonym).is_link_local for pseudonym in given.values()] == [True, False, False]
    assert given["fe80::ab:1"] != "fe80::1"
    assert given["fd12::5"].startswith("fd00::")
    assert given["2a02::7"].startswith("2001:db8::")
    inner = ipaddress.IPv6Address("::ffff:10.7.3.1")
    assert book.ipv6("::ffff:10.7.3.1", inner) == f"::ffff:{book.ipv4('10.7.3.1')}"
