"""Data classes whose methods are shared: the standard library compiles six functions for each class, at every start.

:func:`dataclass` takes the options of :func:`dataclasses.dataclass` that are used here. All else (fields, ``replace``,
``asdict``) is the standard library's, and works on these classes too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, asdict, astuple, field, fields, is_dataclass, replace
from functools import cache, partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, cast

__all__ = ["asdict", "astuple", "dataclass", "field", "fields", "is_dataclass", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, repr=True):
        """A class with ``__init__``, ``__eq__``, ``__repr__`` and, if frozen, ``__hash__`` of its fields."""
        return partial(_made, frozen=frozen, shown=repr) if cls is None else _made(cls, frozen, repr)


def _made(cls: type, frozen: bool, shown: bool) -> type:
    cls.__doc__ = cls.__doc__ or cls.__name__  # else the library makes one of the signature, which takes long
    derived = hasattr(cls, "__dataclass_params__")  # the library takes no class for frozen beside one that is not
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=frozen and derived)(cls)
    made.__dataclass_params__.frozen = frozen
    methods: dict[str, object] = {"__init__": _init_of(cls), "__eq__": _equal, "__hash__": None}
    if shown:
        methods["__repr__"] = _shown
    if frozen:
        methods |= {"__hash__": _hashed, "__setattr__": _refused, "__delattr__": _refused}
    for name, method in methods.items():
        # A class that defines __eq__ alone has a __hash__ of None, which is not its own.
        if cls.__dict__.get(name) is None:
            setattr(cls, name, method)
    return cls


def _init_of(cls: type) -> Callable[..., None]:
    given = [f for f in fields(cls) if f.init]
    names = tuple(f.name for f in given)
    defaults = {f.name: f.default for f in given if f.default is not MISSING}
    makers = {f.name: f.default_factory for f in given if f.default_factory is not MISSING}
    after = getattr(cls, "__post_init__", None)

    def __init__(self: Any, /, *args: Any, **named: Any) -> None:
        values = self.__dict__
        values.update(zip(names, args))  # noqa: B905
        for name in names[len(args) :]:
            if name in named:
                values[name] = named.pop(name)
            elif name in defaults:
                values[name] = defaults[name]
            elif name in makers:
                values[name] = makers[name]()
            else:
                raise TypeError(f"{cls.__qualname__} needs {name!r}")
        if named or len(args) > len(names):
            raise TypeError(f"{cls.__qualname__} takes {', '.join(names)}: {', '.join(named) or len(args)} is too much")
        if after is not None:
            after(self)

    return __init__


@cache
def _values(cls: Any, hashed: bool) -> Callable[[Any], Any]:
    names = [f.name for f in fields(cls) if (f.compare if f.hash is None or not hashed else f.hash)]
    return attrgetter(*(names if len(names) > 1 else names * 2)) if names else lambda _: ()


def _equal(self: Any, other: Any) -> bool:
    if other.__class__ is not self.__class__:
        return cast(bool, NotImplemented)
    values = _values(self.__class__, False)
    return bool(values(self) == values(other))


def _hashed(self: Any) -> int:
    return hash(_values(self.__class__, True)(self))


@recursive_repr()
def _shown(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _refused(self: Any, name: str, *value: object) -> None:
    if name in self.__dataclass_fields__ or "__dataclass_fields__" in type(self).__dict__:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    (object.__setattr__ if value else object.__delattr__)(self, name, *value)
