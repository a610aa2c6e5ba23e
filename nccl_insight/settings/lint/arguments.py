"""What the arguments of launchers and container tools mean: settings, nested scripts, the program started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nccl_insight.settings.catalog import catalog

LAUNCHERS = frozenset(
    {"srun", "mpirun", "mpiexec", "mpiexec.hydra", "prterun", "orterun", "torchrun", "accelerate", "deepspeed",
     "horovodrun", "docker", "podman", "nerdctl", "nvidia-docker", "singularity", "apptainer", "ssh", "pdsh",
     "clush", "aprun", "jsrun", "flux", "enroot"}
)  # fmt: skip
CONTAINERS = frozenset({"docker", "podman", "singularity", "apptainer", "enroot"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_WRAPPERS = frozenset(
    {"sudo", "time", "timeout", "nohup", "stdbuf", "numactl", "taskset", "exec", "eval", "env"}
)
_PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.S)
_OPTION = re.compile(r"(?:-e|-x|--?env(?:ironment)?=|--export=)")
_HOW = {"docker": "docker -e", "podman": "podman -e", "mpirun": "mpirun -x", "mpiexec": "mpiexec -x"}
_TORCH = re.compile(r"torch\.distributed\.(?:run|launch)")


def program_of(words: Sequence[str]) -> str | None:
    """The launcher a command starts, looked for behind ``sudo``, ``timeout`` and the like; None if none."""
    for position, word in enumerate(words):
        name = word.rsplit("/", 1)[-1]
        if name in LAUNCHERS:
            return "docker" if name in {"nvidia-docker", "nerdctl"} else name
        if name.startswith("python") and any(_TORCH.fullmatch(w) for w in words[position + 1 : position + 4]):
            return "torchrun"
        if position == 0 and name not in _WRAPPERS:
            return None
        if position > 6:
            return None
    return None


def argument_settings(words: Sequence[str]) -> Iterator[tuple[int, str, str, str]]:
    """``(index, name, value, how)`` for every ``NAME=VALUE`` argument whose name is our business."""
    data = catalog()
    launcher = program_of(words) or words[0].rsplit("/", 1)[-1]
    how = _HOW.get(launcher, launcher)
    for index, word in enumerate(words):
        if index == 0:
            continue
        if words[index - 1] in {"-genv", "-env"} and index + 1 < len(words) and data.relevant(word):
            yield index, word, words[index + 1], f"{launcher} {words[index - 1]}"
            continue
        if word.startswith("--export") or words[index - 1] == "--export":
            for part in word.removeprefix("--export=").split(","):
                pair = _PAIR.fullmatch(part)
                if pair is not None and data.relevant(pair[1]):
                    yield index, pair[1], pair[2], f"{launcher} --export"
            continue
        text = _OPTION.sub("", word, count=1) if word.startswith("-") else word
        pair = _PAIR.fullmatch(text)
        if pair is None or not data.relevant(pair[1]):
            continue
        if words[index - 1] == "--env" and launcher in {"singularity", "apptainer"}:
            for part in re.split(r",(?=[A-Za-z_][A-Za-z0-9_]*=)", text):
                inner = _PAIR.fullmatch(part)
                if inner is not None and data.relevant(inner[1]):
                    yield index, inner[1], inner[2], f"{launcher} --env"
            continue
        yield index, pair[1], pair[2], how


def nested_scripts(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Script text handed to a shell: ``bash -c TEXT``, ``srun bash -lc TEXT``, ``ssh HOST TEXT``."""
    for index, word in enumerate(words[:-2]):
        if word.rsplit("/", 1)[-1] in _SHELLS and re.fullmatch(r"-[a-z]*c", words[index + 1]):
            yield index + 2, words[index + 2]
            return
    if words[0].rsplit("/", 1)[-1] == "ssh" and len(words) > 2 and " " in words[-1]:
        yield len(words) - 1, words[-1]
