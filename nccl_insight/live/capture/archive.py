"""A capture directory as one ``.tar.zst`` file."""

import tarfile
from pathlib import Path

import zstandard

from nccl_insight.base.writing import writing


def pack(directory: Path, target: Path) -> int:
    """Writes the directory's files (hidden ones left out) in a fixed order, without owners. Returns bytes written."""
    with (
        writing(target) as raw,
        zstandard.ZstdCompressor(level=9, write_checksum=True).stream_writer(raw, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(p for p in directory.rglob("*") if p.is_file()):
            name = path.relative_to(directory)
            if not any(part.startswith(".") for part in name.parts):
                tar.add(path, arcname=f"{directory.name}/{name.as_posix()}", recursive=False, filter=_anonymous)

    return target.stat().st_size


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info
