"""What the arguments of launchers and container tools mean: settings, nested scripts, the program started."""

import re
from collections.abc import Iterator, Sequence

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check import Issue, check_setting, issue_of
from nccl_insight.advise.settings.lint.words import split_pairs
from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.words import words

LAUNCHERS = frozenset(
    words("""srun mpirun mpiexec mpiexec.hydra prterun orterun torchrun accelerate deepspeed
    horovodrun docker podman nerdctl nvidia-docker singularity apptainer ssh pdsh oarsh clush aprun jsrun flux
    enroot kubectl torchx vllm colossalai composer""")
)
#: What Apptainer takes off the name of a variable that it hands to the container.
CONTAINER_PREFIXES = ("SINGULARITYENV_", "APPTAINERENV_")
CONTAINERS = frozenset({"docker", "podman", "singularity", "apptainer", "enroot"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_WRAPPERS = frozenset(
    {"sudo", "time", "timeout", "nohup", "stdbuf", "numactl", "taskset", "exec", "eval", "env", "nice", "setsid"}
)
_PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.S)
_OPTION = re.compile(r"(?:-e|-x|--?env(?:ironment)?=|--export=)")
_ANY_OPTION = re.compile(r"^--[\w-]{1,99}=(?=[A-Z][A-Z0-9_]*=)")  # --action_env=NAME=VALUE
_KEPT = re.compile(r"(?:^|\s)(?:-x|-e|-E|-genv|--env(?:ironment)?)[ =]([A-Z][A-Z0-9_]*)=([^\s$`]+)(?=\s|$)")
_HOW = {"docker": "docker -e", "podman": "podman -e", "mpirun": "mpirun -x", "mpiexec": "mpiexec -x"}
_TORCH = re.compile(r"torch\.distributed\.(?:run|launch)")
# Options that hold several settings: who splits them, and at what.
_LISTS = {"mca_base_env_list": ("Open MPI", ";"), "--export": ("srun", ","), "-v": ("qsub", ","), "-env": ("bsub", ",")}
_LISTS |= dict.fromkeys(("--env", "--env-vars", "--environment", "--set-env-vars"), ("", ","))
_LIST_PROGRAMS = {
    "--env": frozenset({"torchx", "singularity", "apptainer"}), "-v": frozenset({"qsub"}), "-env": frozenset({"bsub"}),
    "--export": frozenset({"srun", "sbatch", "salloc"}), "--env-vars": frozenset({"gcloud", "sky"}),
    "--environment": frozenset({"az"}), "--set-env-vars": frozenset({"gcloud"}),
}  # fmt: skip


# Where batch systems read settings in comments.
_QSUB = ("-v", r"(?:^|\s)-v[= ]?(.+)$", "qsub")
_DIRECTIVES = {
    "#SBATCH": ("--export", r"--export[= ](.+)$", "sbatch"), "#PBS": _QSUB, "#$": _QSUB, "#MSUB": _QSUB,
    "#NQSV": _QSUB, "#BSUB": ("-env", r"-env[= ](.+)$", "bsub"), "#PJM": ("-x", r"(?:^|\s)-x[= ]?(.+)$", "pjsub"),
    "#COBALT": ("--env", r"--env[= ](.+)$", "qsub"),
}  # fmt: skip


@dataclass(frozen=True)
class Given:
    """A setting in an argument. ``problem``: what the launcher makes of the text."""

    index: int
    name: str
    value: str
    how: str
    problem: Issue | None = None


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


def _listed(text: str, who: str, separator: str) -> Iterator[tuple[str, str, Issue | None]]:
    """Settings of one argument, and what the launcher cuts off a value that holds the separator itself."""
    for name, value, tail in split_pairs(text, separator):
        pieces = [
            piece
            for piece in tail
            if re.fullmatch(r"[A-Z_][A-Z0-9_]*", piece) is None
            or (name.endswith("_SUBSYS") and not check_setting(name, piece, None))
        ]
        problem, words = None, ",".join(pieces)
        if pieces and catalog().relevant(name):
            sign, whole = "comma" if separator == "," else separator, f"{value},{words}"
            who = who or "the launcher"
            problem = issue_of("splits-list-only", name, who=who, sign=sign, value=value, pieces=words, whole=whole)
        yield name, value, problem


def _of_list(launcher: str, option: str, text: str) -> Iterator[Given]:
    """Settings of an option that holds several."""
    who, separator = _LISTS[option]
    found = _listed(text, who or launcher, separator)
    if launcher in CONTAINERS:
        # Values of lists (devices, interfaces) go through here as they are.
        option, parts = "--env", re.split(r",(?=[A-Za-z_][A-Za-z0-9_]*=)", text)
        found = ((pair[1], pair[2], None) for pair in map(_PAIR.fullmatch, parts) if pair)
    for name, value, problem in found:
        if catalog().relevant(name):
            yield Given(0, name, value, f"{launcher} {option}", problem)


def directive_settings(mark: str, text: str) -> Iterator[Given]:
    """Settings in the comments that a batch system reads."""
    option, pattern, who = _DIRECTIVES.get(mark, ("--env", r"--env[= ](.+)$", "flux"))
    match = re.search(pattern, re.split(r"\s#", text)[0])
    if match is None:
        return
    given = match[1].strip()
    if len(given) > 1 and given[0] == given[-1] and given[0] in "\"'":
        given = given[1:-1]
    for name, value, problem in _listed(given.split(" -")[0].strip(), who, ":" if mark == "#COBALT" else ","):
        yield Given(0, name, value, option, problem)


def argument_settings(words: Sequence[str]) -> Iterator[Given]:
    """Every ``NAME=VALUE`` argument whose name is our business."""
    data = catalog()
    launcher = program_of(words) or words[0].rsplit("/", 1)[-1]
    how = _HOW.get(launcher, launcher)
    scripts = {0, *(index for index, _ in nested_scripts(words))}
    for index, word in enumerate(words):
        if index in scripts:
            continue
        before = words[index - 1]
        if before in {"-genv", "-env"} and data.relevant(word.partition("=")[0]):
            name, equals, value = word.partition("=")
            if given := [value] if equals else words[index + 1 : index + 2]:
                yield Given(index, name, given[0], f"{launcher} {before}")
                continue
        option, equals, rest = word.partition("=")
        option, text = (option, rest) if equals and option in _LISTS else (before, word)
        if option in _LISTS and launcher in _LIST_PROGRAMS.get(option, {launcher}) and "=" in text:
            yield from (replace(given, index=index) for given in _of_list(launcher, option, text))
            continue
        text = _OPTION.sub("", word, count=1) if word.startswith("-") else word
        text = _ANY_OPTION.sub("", text)
        pair = _PAIR.fullmatch(text)
        if pair is not None and data.relevant(inside(pair[1])):
            yield Given(index, pair[1], pair[2], how)


def inside(name: str) -> str:
    """The name that a variable has in the container."""
    return next((name.removeprefix(p) for p in CONTAINER_PREFIXES if name.startswith(p)), name)


def kept_settings(text: str) -> Iterator[tuple[str, str]]:
    """Settings in arguments that a variable keeps for a launcher: ``-x NAME=VALUE -e NAME=VALUE``."""
    for name, value in _KEPT.findall(text):
        if catalog().relevant(name):
            yield name, value


def nested_scripts(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Script text handed to a shell: ``bash -c TEXT``, ``srun bash -lc TEXT``, ``ssh HOST TEXT``, ``su -c TEXT``."""
    program = words[0].rsplit("/", 1)[-1]
    for index, word in enumerate(words[:-2]):
        shell = word.rsplit("/", 1)[-1]
        if shell in _SHELLS and re.fullmatch(r"-[a-z]*c[a-z]*", words[index + 1]):
            yield index + 2, words[index + 2]
            return
    if program == "su" and "-c" in words[:-1]:
        index = words.index("-c") + 1
        yield index, words[index]
        return
    if program in {"sbatch", "salloc"}:
        for index, word in enumerate(words):
            if word == "--wrap" and index + 1 < len(words):
                yield index + 1, words[index + 1]
            elif word.startswith("--wrap="):
                yield index, word.removeprefix("--wrap=")
        return
    if program in {"tmux", "screen"}:  # typed into a shell there
        yield from ((index, word) for index, word in enumerate(words[1:], 1) if " " in word)
        return
    if program in {"ssh", "oarsh", "pdsh", "clush", "parallel", "eval"} and len(words) > 1 and " " in words[-1]:
        yield len(words) - 1, words[-1]
        return
    yield from ((index, word) for index, word in enumerate(words[1:], 1) if word.startswith("export "))


def runtime_environments(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """JSON of Ray's runtime environment on a command line."""
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option == "--runtime-env-json":
            if equals:
                yield index, value
            elif index + 1 < len(words):
                yield index + 1, words[index + 1]
