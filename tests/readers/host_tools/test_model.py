"""What the readers of host tools share: a tool, one output of it, and the rows that it gives."""

from __future__ import annotations

import pytest

from nccl_insight.readers.host_tools import model
from nccl_insight.readers.host_tools.model import Found, bus_id, count, listed, number, slug


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("81,559MiB", 81559.0),
        ("16x", 16.0),
        (" -3.5 C", -3.5),
        ("1e3", 1000.0),
        ("N/A", None),
        ("", None),
        (None, None),
    ],
)
def test_the_number_that_a_value_begins_with(text: str | None, value: float | None) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"), ("1b:00.3", "0000:1b:00.3"), ("0001:1B:00", "0001:1b:00.0"),
        ("eth0", None),
    ],
)  # fmt: skip
def test_a_bus_address_is_written_as_the_tables_write_it(text: str, address: str | None) -> None:
    assert bus_id(text) == address


def test_a_value_that_a_tool_could_not_read_is_unknown() -> None:
    found = Found(host="gpu1", tool="nvidia-smi")
    assert found.fact(3, "GPU 0", "gpu.power", "  61  W ", "W")
    for unread in ("N/A", "[Not Supported]", "[Unknown Error]", "--", "cat: x: Permission denied"):
        assert not found.fact(4, "GPU 0", "gpu.temp", unread), unread
    assert not found.fact(5, None, "x", "")
    assert found.facts == [(3, "gpu1", "GPU 0", "gpu.power", "61 W", "W", "nvidia-smi")]
    assert (found.unread, found.lost) == (5, 0)


def test_rows_beyond_the_most_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "MOST_ROWS", 1)
    found = Found()
    assert [found.fact(n, None, "x", n) for n in range(3)] == [True, True, True]
    found.frame(line=1)
    found.frame(line=2)
    assert (len(found.facts), len(found.stacks), found.lost) == (1, 1, 3)


def test_words_of_a_phrase() -> None:
    assert (slug("SM lid"), slug("Volatile/DRAM")) == ("sm_lid", "volatile.dram")
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c, d and 1 more"
    assert (count(1, "port"), count(4, "port")) == ("1 port", "4 ports")
