"""The hardware table: what a GPU's links and a network carry. Data in ``machines/*.toml``."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, Final

from nccl_insight.base import extensions, toml
from nccl_insight.base.data import dataclass, field, fields
from nccl_insight.base.errors import UsageError

_VENDOR_WORDS: Final = re.compile(r"\b(nvidia|amd|tesla|geforce|instinct|radeon)\b", re.I)


@dataclass(frozen=True)
class Figure:
    """A number of the table and where it is from."""

    value: float
    source: str


class _Entry:
    figures: Mapping[str, Figure]

    def get(self, name: str, default: float = 0.0) -> float:
        """A figure's value; the default if the table has none."""
        figure = self.figures.get(name)
        return default if figure is None else figure.value

    def source(self, name: str) -> str:
        """Where a figure is from; empty if the table has none."""
        figure = self.figures.get(name)
        return "" if figure is None else figure.source


@dataclass(frozen=True)
class Gpu(_Entry):
    """Links of a GPU model; rates in GB/s per GPU and direction. The table explains each field."""

    name: str
    match: str
    capability: int
    fabric: str
    figures: Mapping[str, Figure] = field(hash=False)
    vendor: str = "nvidia"
    links: int | None = None
    mesh_links: tuple[int, ...] = ()
    domain_gpus: int = 8
    node_gpus: int = 8
    bridge_gpus: int = 0
    p2p: bool = True
    unified: bool = False
    gdr_since: str = ""
    nics: str = ""
    network: str = "unknown"
    clouds: str = ""


@dataclass(frozen=True)
class Network(_Entry):
    """What NCCL makes of a kind of network. The table explains each field."""

    name: str
    gdr: bool
    figures: Mapping[str, Figure] = field(hash=False)


def read_data(name: str) -> dict[str, Any]:
    """A data file of ``nccl_insight/advise/expect/machines``; entries of extensions' files of that name come first.

    Raises UsageError: an extension cannot be loaded, or its file is not TOML.
    """
    data = toml.read(Path(__file__).parent / "machines" / name)
    for package in extensions.packages("expectations"):
        further = files(package) / name
        if not further.is_file():
            continue
        try:
            added = toml.loads(further.read_text(encoding="utf-8"))
        except toml.TOMLDecodeError as error:
            raise UsageError(f"{package.__name__}/{name}: {error}") from error
        for key, entries in added.items():
            data[key] = {**entries, **{k: v for k, v in data.get(key, {}).items() if k not in entries}}
    return data


def _figures(entry: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, Figure]:
    return {
        key: Figure(float(value[0]), sources[value[1]])
        for key, value in entry.items()
        if isinstance(value, list) and len(value) == 2 and isinstance(value[1], str)
    }


@cache
def gpus() -> tuple[Gpu, ...]:
    """All GPU models of the table, in the table's order."""
    data = read_data("gpus.toml")
    plain = {f.name for f in fields(Gpu)} - {"name", "figures", "mesh_links"}
    found: list[Gpu] = []
    for name, entry in data["gpu"].items():
        given: dict[str, Any] = {key: value for key, value in entry.items() if key in plain}
        given["mesh_links"] = tuple(entry.get("mesh_links", ()))
        found.append(Gpu(name=name, figures=_figures(entry, data["source"]), **given))
    return tuple(found)


@cache
def networks() -> Mapping[str, Network]:
    """All kinds of network of the table by name."""
    data = read_data("networks.toml")
    return {
        name: Network(name, entry.get("gdr", True), _figures(entry, data["source"]))
        for name, entry in data["network"].items()
    }


@cache
def copies() -> Mapping[str, Network]:
    """Shares of the raw rate that copies reach: ``host`` (over PCIe) and ``peer`` (over NVSwitch)."""
    data = read_data("copies.toml")
    return {name: Network(name, True, _figures(data[name], data["source"])) for name in ("host", "peer")}


@cache
def find_gpu(name: str) -> Gpu | None:
    """The GPU model of a product name (``NVIDIA H100 80GB HBM3``, ``H100``); None if the table does not have it."""
    plain = " ".join(_VENDOR_WORDS.sub(" ", name).split())
    same = (gpu for gpu in gpus() if gpu.name.casefold() == plain.casefold())
    # A model's name does not go on in digits: L4 is not in L40S, A10 not in A100.
    alike = (gpu for gpu in gpus() if re.search(rf"(?<![A-Za-z0-9])(?:{gpu.match})(?![0-9])", plain, re.I))
    return next(chain(same, alike), None)
