"""``nccl-insight demo``: a small case, judged before one's eyes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from nccl_insight.base.errors import UsageError
from nccl_insight.base.writing import writing

if TYPE_CHECKING:
    from importlib.abc import Traversable

FILES: Final[dict[str, dict[str, str]]] = {
    "crash": {"crash.log": "runs/tiny-shm/run.log", "run.log": "runs/healthy-16rank-ib/run.log"},
    "hang": {"hang.log": "triage/two-late-ranks-old-torch/run.log"},
    "slow": {"slow": "traces/gloo_late_rank2"},
    "gate": {"gate.log": "runs/gate-h100/gate.log"},
}
"""What each case writes, and from which of the bundled files; the first is the one that is judged."""
NEXT: Final[dict[str, tuple[str, ...]]] = {
    "crash": ("nccl-insight explain shm-too-small", "nccl-insight diff run.log crash.log"),
    "hang": ("nccl-insight analyze hang.log --format story", "nccl-insight analyze hang.log -o card.svg"),
    "slow": ("nccl-insight analyze slow/ --timeline timeline.json", "nccl-insight explain straggler-rank"),
    "gate": ("nccl-insight expect gate.log", "nccl-insight expect --gpu H100 --gpus-per-node 8"),
}


def demo(case: Annotated[str, typer.Argument(help=f"One of {', '.join(FILES)}.")] = "crash") -> None:
    """Write a small case into this directory, analyze it, and say what to type next."""
    if case not in FILES:
        raise UsageError(f"demo: {case!r}: give one of {', '.join(FILES)}")
    for name, source in FILES[case].items():
        # The bundled files (in a source checkout those beside the package).
        packaged = resources.files("nccl_insight").joinpath("demo")
        _write(Path(name), (packaged if packaged.is_dir() else Path(__file__).parents[2] / "fixtures") / source)
    first = next(iter(FILES[case])) + ("/" if case == "slow" else "")
    typer.echo(f"Wrote {', '.join(FILES[case])}\n\n$ nccl-insight analyze {first}\n")
    from nccl_insight.cli import build_app

    build_app("analyze")(["analyze", first, "--exit-zero"], standalone_mode=False)
    typer.echo(f"\nNext:\n  nccl-insight analyze {first} -o report.html")
    for command in NEXT[case]:
        typer.echo(f"  {command}")


def _parts(source: Traversable, target: Path) -> Iterator[tuple[Traversable, Path]]:
    if not source.is_dir():
        yield source, target
        return
    for part in sorted(source.iterdir(), key=lambda p: p.name):
        yield part, target / part.name


def _write(target: Path, source: Traversable) -> None:
    """Writes what is not there yet; what is there and differs is the user's own.

    Raises UsageError: another file of the name is there.
    """
    for part, path in _parts(source, target):
        content = part.read_bytes()
        if path.exists():
            if not path.is_file() or path.read_bytes() != content:
                raise UsageError(f"demo: {path} is there and is another file: run it in an empty directory")
            continue
        path.parent.mkdir(exist_ok=True)
        with writing(str(path)) as out:
            out.write(content)
