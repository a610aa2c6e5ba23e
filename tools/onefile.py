"""Builds ``nccl-insight.pyz``: one file with the tool and all it needs, for machines without network.

    python tools/onefile.py nccl-insight.pyz [--requirement WHEEL-OR-PATH]

The file runs on the platform and Python release that it was built with. Compiled parts cannot be loaded from within a
zip file, so the first start unpacks them once into ``$NCCL_INSIGHT_CACHE``, ``$XDG_CACHE_HOME/nccl-insight`` or
``~/.cache/nccl-insight``, into a directory named after the content.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

_TIME = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT = ("__pycache__", ".pyc", "bin/", ".dist-info/RECORD", ".dist-info/INSTALLER", ".dist-info/direct_url.json")
_MAIN = """\
import os
import runpy
import shutil
import sys
import tempfile
import zipfile

DIGEST = "{digest}"
PYTHON = {python}


def place():
    chosen = os.environ.get("NCCL_INSIGHT_CACHE")
    if chosen:
        return chosen
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nccl-insight")


def unpack():
    folder = place()
    target = os.path.join(folder, DIGEST)
    if os.path.isdir(target):
        return target
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        own = tempfile.mkdtemp(prefix=".unpack-", dir=folder)
    except OSError as error:
        raise SystemExit("nccl-insight: cannot unpack into " + folder + " (" + str(error.strerror) + "); "
                         "set NCCL_INSIGHT_CACHE to a directory that can be written")
    try:
        with zipfile.ZipFile(sys.argv[0]) as archive:
            archive.extractall(own, [name for name in archive.namelist() if name.startswith("site/")])
        os.rename(os.path.join(own, "site"), target)
    except OSError:
        if not os.path.isdir(target):  # else another process was faster
            raise
    finally:
        shutil.rmtree(own, ignore_errors=True)
    return target


def main():
    if sys.version_info[:2] != PYTHON:
        raise SystemExit("nccl-insight: this file was built for Python %d.%d; run it with that one" % PYTHON)
    folder = unpack()
    sys.path[0] = folder
    # Processes that the tool starts find the same packages.
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (folder, os.environ.get("PYTHONPATH")) if p)
    runpy.run_module("nccl_insight", run_name="__main__", alter_sys=True)


main()
"""


def stage(requirement: str, folder: Path) -> None:
    """Installs the requirement and all that it needs into a folder."""
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(folder), requirement],
        check=True,
    )


def build(site: Path, target: Path) -> str:
    """Writes the file from a folder of installed packages; the same give the same bytes. Returns the digest."""
    files = sorted(p for p in site.rglob("*") if p.is_file() and not any(x in p.as_posix() for x in _LEFT_OUT))
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(site).as_posix().encode() + b"\0" + path.read_bytes())
    name = digest.hexdigest()[:16]
    partial = target.with_name(f".{target.name}.part")
    with partial.open("wb") as stream:
        stream.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            main = _MAIN.format(digest=name, python=repr(sys.version_info[:2]))
            archive.writestr(zipfile.ZipInfo("__main__.py", _TIME), main)
            for path in files:
                info = zipfile.ZipInfo(f"site/{path.relative_to(site).as_posix()}", _TIME)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, path.read_bytes())
    partial.chmod(0o755)
    os.replace(partial, target)
    return name


def main() -> int:
    """Builds the file named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("--requirement", default=str(Path(__file__).resolve().parents[1]))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nccl-insight-zipapp-") as folder:
        stage(options.requirement, Path(folder))
        digest = build(Path(folder), options.target)
    sys.stdout.write(f"{options.target}: {options.target.stat().st_size:,} bytes, {digest}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
