"""Input formats, one module each exporting ``FORMAT`` (found by module name; third parties add packages of them by the
entry point group ``nccl_insight.readers``). Logs, which many processes may share, have an entry of their own:
``nccl_log``.

A format says how sure it is of an input from the first bytes (``sniff``, 0 = no .. 1 = certain) and reads it
into tables (``read``, which imports what it needs: a log needs no reader of traces). Damaged input gives what could be
read plus a row in the ``notes`` table (``kind`` is then a diagnosis name such as ``trace-truncated``); it never raises
for bad content.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import Final

from nccl_insight.base import extensions
from nccl_insight.base.data import dataclass
from nccl_insight.base.words import words
from nccl_insight.inputs.find import InputFile
from nccl_insight.tables.run import Partial


@dataclass(frozen=True)
class Format:
    """One input format. ``kind`` is a value of ``inputs.kind``; ``sniff`` gets <= 64 KiB and the name."""

    kind: str
    sniff: Callable[[bytes, str], float]
    read: Callable[[InputFile], Partial]


# Modules of this package that are no formats. They need not stand here; those that do are not imported to look.
_SHARED: Final = frozenset(
    words("""chrome embedded forms gpu_activity host_tools intervals kernels nccl_log protobuf
    side xml""")
)


def reads(module: str) -> Callable[[InputFile], Partial]:
    """The function ``read`` of a module of this package, which is imported when it is called."""

    def read(source: InputFile) -> Partial:
        found: Partial = importlib.import_module(f"{__name__}.{module}").read(source)
        return found

    return read


def discover() -> Sequence[Format]:
    """Every format of this package and of extensions, ordered by package and module name.

    Raises UsageError: an extension cannot be loaded.
    """
    found: list[Format] = []
    for package in (importlib.import_module(__name__), *extensions.packages("readers")):
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda i: i.name):
            if package.__name__ == __name__ and info.name in _SHARED:
                continue
            module = extensions.imported(f"{package.__name__}.{info.name}")
            format_ = getattr(module, "FORMAT", None)
            if isinstance(format_, Format):
                found.append(format_)
    return found
