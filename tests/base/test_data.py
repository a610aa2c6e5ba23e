"""Data classes of the package behave as those of the standard library, which write their methods out."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from functools import cached_property
from typing import Any

import pytest

from nccl_insight.base import data


def _pair(decorated: Any, **options: Any) -> Any:
    class Pair:
        """Two values."""

        first: int
        second: list[int] = dataclasses.field(default_factory=list, compare=False)
        third: str = "c"
        fourth: float = dataclasses.field(default=1.5, repr=False)

        @cached_property
        def sum(self) -> float:
            return self.first + self.fourth

    return decorated(**options)(Pair)


@data.dataclass(frozen=True)
class Kept:
    """One value, for pickles."""

    value: float


@data.dataclass
class _After:
    base: int
    twice: int = data.field(init=False)

    def __post_init__(self) -> None:
        self.twice = 2 * self.base


@pytest.mark.parametrize("frozen", [True, False])
def test_same_as_the_library(frozen: bool) -> None:
    ours, theirs = (_pair(made, frozen=frozen) for made in (data.dataclass, dataclasses.dataclass))
    for cls in (ours, theirs):
        assert cls(1) == cls(1, [2])
        assert cls(1) != cls(1, third="d")
        assert cls(1).sum == 2.5
        assert (cls(1) == 1) is False
        assert dataclasses.asdict(dataclasses.replace(cls(1), third="x")) == {
            "first": 1, "second": [], "third": "x", "fourth": 1.5,
        }  # fmt: skip
        assert list(vars(cls(third="x", first=2))) == ["first", "second", "third", "fourth"]
        assert copy.deepcopy(cls(1)) == cls(1)
        for args, named in (((), {}), ((1,), {"first": 2}), ((1,), {"other": 2}), ((1, [], "", 2.0, 3), {})):
            with pytest.raises(TypeError):
                cls(*args, **named)
    assert repr(ours(1)) == repr(theirs(1))
    assert ours(1).second is not ours(1).second
    if frozen:
        assert hash(ours(1)) == hash(theirs(1)) == hash(ours(1, [5]))
        for change in (lambda o: setattr(o, "first", 2), lambda o: delattr(o, "first")):
            for cls in (ours, theirs):
                with pytest.raises(dataclasses.FrozenInstanceError):
                    change(cls(1))
    else:
        with pytest.raises(TypeError):
            hash(ours(1))


def test_values_of_one_field_compare_as_the_library_compares() -> None:
    nan = float("nan")
    assert Kept(nan) == Kept(nan)
    assert Kept(1.0) != Kept(nan)
    assert pickle.loads(pickle.dumps(Kept(2.0))) == Kept(2.0)
    assert repr(Kept(2.0)) == "Kept(value=2.0)"


def test_classes_derive_from_frozen_ones_of_either_kind() -> None:
    @data.dataclass(frozen=True)
    class More(Kept):
        name: str

    @dataclasses.dataclass(frozen=True)
    class Most(More):
        number: int

    assert (More(1.0, "a"), Most(1.0, "a", 2)) == (More(value=1.0, name="a"), Most(1.0, name="a", number=2))
    assert More(1.0, "a") != Kept(1.0)
    for frozen in (More(1.0, "a"), Most(1.0, "a", 2)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            frozen.value = 2.0  # type: ignore[misc]


def test_what_comes_after_the_values() -> None:
    assert _After(3).twice == 6
    assert _After(3) == _After(3)
