"""How much of an input is read: bounds against files that are built to exhaust time, memory or disk.

Every bound can be changed: ``[limits]`` of the configuration, ``--limit NAME=VALUE`` or ``load(..., limits=...)``. What
was read before a bound was hit is used, and a finding says which one it was.
"""

import dataclasses
from collections.abc import Mapping

from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """Bounds on what an input may ask for.

    Attributes:
        expansion_ratio: bytes that a byte of a compressed stream or of an archive may become.
        expansion_free_mib: MiB that a compressed stream may become whatever its size.
        archive_mib: MiB that the files of one archive may take when unpacked.
        archive_files: files that are taken from one archive.
        archive_depth: archives within archives that are opened; 1 opens none within another.
        files: inputs of one run.
        spool_mib: MiB that are copied from standard input, a pipe, or the files of a URL.
        follow_mib: MiB of inputs up to which ``analyze --follow`` judges them again when they grow.
        pipe_wait_s: seconds to wait for somebody to write to a pipe.
        line_kib: KiB of a line that are read; longer lines are cut there.
        side_file_mib: MiB of a file that is read as a whole (JSON, XML, text of other tools, flight recorder dumps).
        pickle_steps: operations that a pickle may ask for.
        xml_depth: levels of XML elements.
        xml_elements: XML elements of a file.
        sqlite_steps: steps of SQLite's virtual machine per byte of the database; 500 million are always allowed.
    """

    expansion_ratio: int = 500
    expansion_free_mib: int = 256
    archive_mib: int = 32 << 10
    archive_files: int = 20_000
    archive_depth: int = 3
    files: int = 60_000
    spool_mib: int = 64 << 10
    follow_mib: int = 1_024
    pipe_wait_s: int = 60
    line_kib: int = 1_024
    side_file_mib: int = 512
    pickle_steps: int = 50_000_000
    xml_depth: int = 64
    xml_elements: int = 500_000
    sqlite_steps: int = 1_000

    def expanded_bytes(self, packed_bytes: int) -> int:
        """Bytes that a compressed stream of that size may become."""
        return max(self.expansion_free_mib << 20, self.expansion_ratio * packed_bytes)


DEFAULT = Limits()
NAMES = tuple(field.name.replace("_", "-") for field in dataclasses.fields(Limits))


def changed(values: Mapping[str, object], base: Limits = DEFAULT) -> Limits:
    """The limits with some of them set, by name (``line-kib`` or ``line_kib``).

    Raises UsageError: a name is unknown or a value is not a whole number of at least 1.
    """
    found: dict[str, int] = {}
    for name, value in values.items():
        if name.replace("_", "-") not in NAMES:
            raise UsageError(f"limit {name!r} is unknown; known: {', '.join(NAMES)}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"limit {name}: write a whole number of at least 1, not {value!r}")
        found[name.replace("-", "_")] = value
    return dataclasses.replace(base, **found)


def parsed(items: tuple[str, ...] | list[str]) -> dict[str, object]:
    """``NAME=VALUE`` texts of a command line as a mapping for :func:`changed`.

    Raises UsageError: an item has another form.
    """
    found: dict[str, object] = {}
    for item in items:
        name, sign, value = item.partition("=")
        digits = value.strip().replace("_", "")
        if not sign or not digits.isdecimal() or len(digits) > 18:
            raise UsageError(f"--limit {item!r}: write NAME=NUMBER, for example line-kib=4096")
        found[name.strip()] = int(digits)
    return found
