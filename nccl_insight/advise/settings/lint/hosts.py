"""Checks of who runs where: environments that a launcher starts afresh, addresses of one host, hidden GPUs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from nccl_insight.advise.settings.check import issue_of
from nccl_insight.advise.settings.interfaces import is_loopback
from nccl_insight.advise.settings.lint import machine
from nccl_insight.advise.settings.lint.model import Launch, Script, Setting
from nccl_insight.base import texts, toml
from nccl_insight.base.words import line_at

_RE: Final = texts.compiled(__file__)

_MOST: Final = 200  # no person writes more launches into one script
_ADDRESS: Final = frozenset(
    {"--master_addr", "--master-addr", "--rdzv_endpoint", "--rdzv-endpoint", "--main_process_ip", "--main-process-ip"}
)
_PORT: Final = _ADDRESS | {"--master_port", "--master-port", "--main_process_port", "--main-process-port"}
_LAST_PORT: Final = 65535
_NODES: Final = frozenset({"--nnodes", "--num_machines", "--num-machines", "--num_nodes", "--nnode"})
_NODE_RANK: Final = frozenset({"--node_rank", "--node-rank", "--machine_rank", "--machine-rank"})
_GPUS_USED: Final = machine.LOCAL_RANKS | {"--num_gpus", "--num-gpus"}
#: A word, among so many behind a program, with which it starts others afresh (True), or without which it does.
_LOGIN: Final = ("-|-l|--login", None, True)
_AFRESH: Final[Mapping[str, tuple[str, int | None, bool]]] = {
    "sudo": ("-S?E|-nE|-En|--preserve-env.*", None, False), "ssh": (".*SendEnv.*", None, False), "su": _LOGIN,
    "runuser": _LOGIN, "docker": ("exec", 2, True), "podman": ("exec", 2, True), "kubectl": ("exec", 6, True),
    "env": ("-i|-|--ignore-environment", 2, True), "parallel": ("(?:-S|--slf|--sshlogin(?:file)?)(?:=.*)?", None, True),
}  # fmt: skip
_FRESH: Final[Mapping[str, str]] = toml.beside(__file__)["fresh"]


def check_hosts(script: Script, text: str, first_line: int = 1) -> Iterator[machine.Found]:
    """``(line, issue)`` about environments that get lost, and addresses and GPUs that cannot be right."""
    text = "\n" * (first_line - 1) + text
    for launch in script.launches[:_MOST]:
        yield from _fresh(script, launch)
    if script.kind == "python":
        return
    yield from _one_host(script, text)
    yield from _ports(script, text)
    if script.kind == "shell":
        yield from _hidden_gpus(script, text)
        yield from _more_than_asked(script)


def fresh_environment(words: Sequence[str]) -> str | None:
    """``sudo``, ``su``, ``env``, ``ssh`` ... when the words start a program without the caller's environment."""
    program, rest = words[0].rsplit("/", 1)[-1] if words else "", words[1:]
    form, most, afresh = _AFRESH.get(program, ("", 0, False))
    if any(re.fullmatch(form, word, re.S) for word in rest[:most]) is not afresh:
        return None
    name = f"{program} exec" if program in {"docker", "podman"} else program
    return name if name in _FRESH else None


def _fresh(script: Script, launch: Launch) -> Iterator[machine.Found]:
    how = fresh_environment(launch.words)
    line = " ".join(launch.words[1:])
    if how is None or not _starts(line):
        return
    if how == "sudo" and re.search(r"^(?:-\S+ )*(?:docker|podman|nerdctl) ", line):
        return  # what the container gets is another question
    if _RE["sets"].search(line):
        return
    if any(re.search(r"(?<!\S)\$x(?!\S)", w) for w in launch.words[1:] if " " in w):
        return  # what a Python program fills in may set it
    ways = {"export", "setenv", "declare", "typeset", "assignment", "os.environ"}
    earlier = (s for s in script.ours(launch.seq) if not s.conditional and s.how in ways)
    lost = [s for s in earlier if s.name not in line]
    if not lost:
        return
    # What chooses the network matters most.
    lost.sort(key=lambda s: s.name.startswith(("NCCL_DEBUG", "TORCH_")))
    names = ", ".join(list(dict.fromkeys(s.name for s in lost))[:4])
    repair = _repair(how, lost[0])
    yield launch.line, issue_of("fresh-drops", lost[0].name, how=how, names=names, fresh=_FRESH[how], repair=repair)


def _starts(line: str) -> bool:
    """Whether one of several commands starts a program that runs a job."""
    parts = (part for part in re.split(r"[;&|\n]+", line) if _RE["starts_nothing"].search(part) is None)
    words = (word for part in parts for word in re.split(r"[\s'\"]+", part))
    return any(_RE["programs"].fullmatch(word.rsplit("/", 1)[-1]) for word in words)


def _repair(how: str, setting: Setting) -> str:
    if how == "sudo":
        return f"Use sudo --preserve-env={setting.name} (or sudo env {setting.name}=... COMMAND)."
    if how in {"docker exec", "podman exec"}:
        return f"Add -e {setting.name} behind exec."
    return f"Set it in the command itself: env {setting.name}={setting.value[:60]} COMMAND."


def _nodes(script: Script, launch: Launch, text: str) -> int:
    """Nodes that the command or the job asks for; 1 when nothing is said."""
    given = next(machine.values_of(launch.words, _NODES), "").split(":")[-1]
    if given.isdigit():
        return int(given)
    if launch.program == "srun":
        own = re.search(r"(?:^| )(?:--nodes[= ]|-N[= ]?)([0-9]{1,5})(?= |$)", " ".join(launch.words))
        if own is not None:
            return int(own[1])
    if any(w == "--standalone" for w in launch.words):
        return 1
    if given and "SLURM" not in given.upper() and "NODES" not in given.upper():
        return 1
    if given and script.kind != "shell":
        return machine.nodes_asked(text)
    for _, directive in script.directives:
        match = re.search(r"(?:--nodes[= ]|-N[= ]?)(\d+)(?:-(\d+))?", directive)
        if match is not None:
            return int(match[2] or match[1])
    return 1


def _one_host(script: Script, text: str) -> Iterator[machine.Found]:
    many = [
        launch
        for launch in script.launches[:_MOST]
        # The first node is its own master, at whatever address the others know it.
        if _nodes(script, launch, text) > 1 and next(machine.values_of(launch.words, _NODE_RANK), "") != "0"
    ]
    if not many:
        return
    nodes = max(_nodes(script, launch, text) for launch in many)
    said = set[int]()
    for match in islice(_RE["master"].finditer(text), _MOST):
        line = line_at(text, match.start())
        if is_loopback(match[1]) and script.kind == "shell":
            said.add(line)
            yield line, issue_of("nodes-each-node", "MASTER_ADDR", address=match[1], nodes=nodes)
    for launch in many:
        address = next(machine.values_of(launch.words, _ADDRESS), None)
        if address is not None and is_loopback(address) and not said:
            yield launch.line, issue_of("nodes-each-node", "MASTER_ADDR", address=address, nodes=nodes)


def _ports(script: Script, text: str) -> Iterator[machine.Found]:
    """Ports that no socket can have, where ranks are to meet."""
    given = {m[1]: line_at(text, m.start()) for m in islice(_RE["port"].finditer(text), _MOST)}
    for launch in script.launches[:_MOST]:
        for value in machine.values_of(launch.words, _PORT):
            given.setdefault(value.rpartition(":")[2], launch.line)
    for port, line in given.items():
        if port.isdigit() and len(port) < 10 and int(port) > _LAST_PORT:
            yield line, issue_of("no-such-port", "MASTER_PORT", port=port, last=_LAST_PORT)


def _more_than_asked(script: Script) -> Iterator[machine.Found]:
    """More processes on a node than the batch job asks GPUs for there."""
    head = "\n".join(directive for _, directive in script.directives)
    gpus = max((int(m[1] or m[2]) for m in _RE["gpus_per_node"].finditer(head)), default=0)
    tasks = max((int(m[1]) for m in _RE["tasks_per_node"].finditer(head)), default=1)
    for launch in script.launches[:_MOST]:
        said = " ".join(launch.words)
        own = [int(m[1]) for m in _RE["tasks_per_node"].finditer(said)] if launch.program == "srun" else []
        each = next(machine.local_ranks(launch.words), None)
        count = each if each is not None else max(own, default=tasks) if launch.program == "srun" else 0
        started = each is not None or _RE["programs"].search(said.partition(" ")[2]) is not None
        if gpus and count > gpus and started and not _RE["gpus_per_node"].search(said):
            yield launch.line, machine.too_many_processes(count, gpus, "that the job asks for on a node")


def _hidden_gpus(script: Script, text: str) -> Iterator[machine.Found]:
    for match in islice(_RE["visible"].finditer(text), _MOST):
        line = line_at(text, match.start())
        count = len([part for part in match[2].split(",") if part])
        for launch in script.launches[:_MOST]:
            wanted = next(machine.values_of(launch.words, _GPUS_USED), "")
            if launch.line > line and wanted.isdigit() and int(wanted) > count and launch.program != "ssh":
                yield line, issue_of("shows-gpu-processes", match[1], match=match, count=count, wanted=wanted)
                break
