"""Protocol buffers' wire format, as far as readers need it."""

from __future__ import annotations

import pytest

from nccl_insight.readers.protobuf import DamagedMessage, fields, signed, varint
from tests.xplane_maker import number, part
from tests.xplane_maker import varint as encoded


def test_numbers_of_the_wire_format() -> None:
    for value in (0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63)):
        raw = encoded(value)
        found, end = varint(raw, 0)
        assert (signed(found), end) == (value, len(raw))
    assert list(fields(number(1, 150) + part(2, "testing") + b"\x2d\x01\x02\x03\x04")) == [
        (1, 150),
        (2, b"testing"),
        (5, b"\x01\x02\x03\x04"),
    ]
    for broken in (b"\x08", b"\x08" + b"\xff" * 11, b"\x12\x05ab", b"\x0b", b"\x09\x01"):
        with pytest.raises(DamagedMessage):
            list(fields(broken))
