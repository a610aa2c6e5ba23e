"""What a file says about the machines it runs on, and settings that belong to other ones."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from nccl_insight.advise.expect.hardware import gpus
from nccl_insight.advise.settings.check import Issue, issue_of
from nccl_insight.advise.settings.lint.model import Script
from nccl_insight.base import texts

Found = tuple[int, Issue]
_MOST: Final = 200
_RE: Final = texts.compiled(__file__)
_NO_AMD: Final = ("NCCL_NVLS_", "NCCL_MNNVL_", "NCCL_CTA_POLICY", "NCCL_CGA_")


#: With less shared memory than this, segments of several processes do not fit.
LEAST_SHM_BYTES: Final = 1 << 30
LOCAL_RANKS: Final = frozenset({"--nproc_per_node", "--nproc-per-node"})


def values_of(words: Sequence[str], options: frozenset[str]) -> Iterator[str]:
    """What a command gives to options, as ``--option=value`` or as the next word."""
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in options and (equals or index + 1 < len(words)):
            yield value if equals else words[index + 1]


def local_ranks(words: Sequence[str]) -> Iterator[int]:
    """How many processes a launcher is told to start on a node."""
    for value in values_of(words, LOCAL_RANKS):
        if _RE["local_ranks"].fullmatch(value):
            yield int(value)


def size_bytes(text: str) -> int | None:
    """``64m``, ``64Mi``, ``1gb`` or a plain number of bytes; None for anything else."""
    found = _RE["size"].fullmatch(text.strip())
    return int(float(found[1]) * 1024 ** "bkmgt".index(found[2].lower() or "b")) if found else None


def small_shm(who: str, size: str, step: str) -> Issue:
    """A container whose shared memory was made, and made too small."""
    return issue_of("gets-shared-memory", who=who, size=size, step=step)


def too_many_processes(processes: int, gpus: int, where: str) -> Issue:
    """More processes than GPUs: NCCL takes one GPU for each rank."""
    return issue_of("processes-start-gpus", processes=processes, gpus=gpus, where=where)


def nodes_asked(text: str) -> int:
    """The largest number of nodes that the text asks for; 2 where it names several hosts; 1 when nothing is said."""
    most = max((int(m[1]) for m in islice(_RE["count"].finditer(text), _MOST)), default=1)
    named = [m[1] for m in islice(_RE["nodes_by_name"].finditer(text), _MOST)]
    given = [int(number) for number in named if number]
    if most < 2 and (_RE["several"].search(text) or _RE["listed"].search(text) or (named and not given)):
        return 2
    return max(most, *given, 1)


def one_node(script: Script, text: str) -> bool:
    """Whether nothing in the file speaks of a second node."""
    if any(launch.program in {"ssh", "pdsh", "clush"} for launch in script.launches):
        return False
    return nodes_asked(_without_comments(text)) < 2


def check_machine(script: Script, text: str) -> Iterator[Found]:
    """Settings of the other vendor, another machine's topology, and GPUs hidden from their neighbors."""
    yield from _vendor(script, text)
    yield from _topology(script, text)
    yield from _isolated(script, text)


def _without_comments(text: str) -> str:
    return re.sub(r"(?m)^[ \t]*#(?!SBATCH|PBS|BSUB|\$|FLUX)[^\n]*$", "", text)


def vendor_of(script: Script, text: str) -> str | None:
    """``AMD`` or ``NVIDIA`` where a file speaks of the GPUs of one of them only, settings apart."""
    lines = {setting.line for setting in script.settings}
    rows = enumerate(_without_comments(text).split("\n"), 1)
    said = "\n".join([script.path, *(row for number, row in rows if number not in lines)])
    amd, nvidia = _RE["amd"].search(said), _RE["nvidia"].search(said) or _RE["cuda"].search(said)
    return None if bool(amd) == bool(nvidia) else "AMD" if amd else "NVIDIA"


def _vendor(script: Script, text: str) -> Iterator[Found]:
    vendor = vendor_of(script, text)
    for setting in script.settings if vendor else ():
        if setting.dead or setting.value.strip() in {"", "0"}:
            continue
        if setting.name.startswith(_NO_AMD if vendor == "AMD" else "RCCL_"):
            yield setting.line, issue_of("differs-in-file", setting.name, amd=vendor == "AMD")


def _model(text: str) -> set[str]:
    low = text.lower()
    return (
        {m[1].upper() for m in islice(_RE["nvidia"].finditer(low), _MOST)}
        | {m[1].upper() for m in islice(_RE["amd"].finditer(low), _MOST) if m[1]}
        | {gpu.name for gpu in gpus() if gpu.clouds and re.search(gpu.clouds, low)}
    )


def _topology(script: Script, text: str) -> Iterator[Found]:
    for setting in script.settings:
        if setting.name != "NCCL_TOPO_FILE" or not setting.complete:
            continue
        file = _model(setting.value.rsplit("/", 1)[-1])
        rest = "\n".join(
            row for number, row in enumerate(_without_comments(text).split("\n"), 1) if number != setting.line
        )
        here = _model(rest)
        if file and here and not file & here:
            there, ours = "/".join(sorted(file)), "/".join(sorted(here))
            yield setting.line, issue_of("topo-file-topology", setting.name, setting=setting, file=there, here=ours)


def _isolated(script: Script, text: str) -> Iterator[Found]:
    for line, directive in script.directives:
        if re.search(r"--gpus-per-task[= ]1\b|--gpu-bind[= ](?:single:1|closest|per_task:1)", directive):
            yield line, issue_of("may-use-nvlink", what=directive.split()[0], effect="each task sees one GPU")
            return
    for launch in script.launches[:_MOST]:
        words = " ".join(launch.words)
        if launch.program == "srun" and _RE["isolated"].search(words):
            yield launch.line, issue_of("may-use-nvlink", what="--gpus-per-task=1", effect="each task sees one GPU")
            return
        if launch.program in {"docker", "podman"} and "--ipc" not in words:
            one = re.search(r"device=\$\{?\w+\}?(?![\w,])", words)
            if one is not None and launch.conditional:
                effect = "each container sees one GPU and has an IPC namespace of its own"
                yield launch.line, issue_of("may-use-nvlink", what=f"--gpus {one[0]}", effect=effect)
                return
