"""Checks of how a script launches: what reaches the processes, and what containers need."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from nccl_insight.advise.settings.check import issue_of, switched_on
from nccl_insight.advise.settings.interfaces import is_loopback
from nccl_insight.advise.settings.lint.machine import LEAST_SHM_BYTES, Found, size_bytes, small_shm, values_of
from nccl_insight.advise.settings.lint.model import Launch, Script, Setting
from nccl_insight.advise.settings.lint.shell import not_exported
from nccl_insight.base.units import listed
from nccl_insight.base.words import words

_STARTERS = frozenset(
    words("""srun mpirun mpiexec mpiexec.hydra prterun orterun torchrun accelerate deepspeed
    horovodrun docker podman singularity apptainer aprun jsrun flux""")
)
_OPEN_MPI = frozenset({"mpirun", "mpiexec", "prterun", "orterun"})
_HYDRA = ("-genv", "-envall", "-genvall", "-genvlist", "-envlist", "-hosts", "-ppn", "-iface", "-bootstrap")
_HOSTS = frozenset(
    {"-H", "--host", "-host", "--hostfile", "-hostfile", "-machinefile", "--machinefile", "--default-hostfile"}
)
_FLAGS = frozenset(
    words("""--rm --init --privileged --detach --interactive --tty --read-only --no-healthcheck
    --tls-verify""")
)
_USER = frozenset({"-u", "--user"})
#: Of Apptainer, options that take a value, and that which clears the environment (behind the image: the program's).
_VALUED = "(?:-[BHSWo]|--(?:bind|env|env-file|home|workdir|pwd|cwd|overlay|scratch|app|mount|network|security))"
_CLEAN = re.compile(
    rf"\b(singularity|apptainer) (?:(?:exec|run|shell) |{_VALUED} \S{{1,300}} |(?!{_VALUED} )-\S{{1,300}} ){{0,30}}?"
    "(--cleanenv|-e|--containall|-C)(?= )"
)
_TAKES_AWAY = re.compile(r"(?:^| )(?:--env-remove[= ]['\"]?([\w*?]+)['\"]?|--?g?envnone\b)")
_MOST_LAUNCHES = 200  # no person writes more into one script
_SHOWN = 4  # names that a text lists
_DEEPSPEED = ("NCCL", "PYTHON", "MLFLOW", "UCX", "MV2", "LD_LIBRARY", "PATH", "CUDA")


def check_launch(script: Script) -> Iterator[Found]:
    """Everything about the launch commands of a script, as ``(line, issue)``."""
    yield from _order(script)
    yield from _not_exported(script)
    yield from _sbatch_export(script)
    yield from _deepspeed(script)
    if len(script.launches) > _MOST_LAUNCHES:
        later = script.launches[_MOST_LAUNCHES].line
        script.not_evaluated.append((later, f"launches: more than {_MOST_LAUNCHES}"))
    for launch in script.launches[:_MOST_LAUNCHES]:
        if launch.program in _OPEN_MPI:
            yield from _mpirun(script, launch)
        elif launch.program == "srun":
            yield from _srun(script, launch)
            yield from _clean(script, launch)
        elif launch.program in {"docker", "podman"} and "run" in launch.words[:4]:
            yield from _docker(script, launch)
        else:
            yield from _clean(script, launch)
        yield from _without(script, launch)


def _without(script: Script, launch: Launch) -> Iterator[Found]:
    """Launchers told to take variables away."""
    said = " ".join(launch.words)
    option = _TAKES_AWAY.search(said)
    ours = [s for s in script.ours(launch.seq) if f"{s.name}=" not in said] if option else []
    lost = [s for s in ours if option and fnmatchcase(s.name, option[1] or "*")]
    if option and lost:
        said, names = option[0].strip(), listed(s.name for s in lost)
        yield launch.line, issue_of("keeps-from-processes", lost[0].name, launch=launch, option=said, names=names)


def _options(option: str, settings: Sequence[Setting]) -> str:
    """The option that hands a setting on, once for each of the first names."""
    return " ".join(f"{option} {name}" for name in list(dict.fromkeys(s.name for s in settings))[:_SHOWN])


def _order(script: Script) -> Iterator[Found]:
    starts = [launch for launch in script.launches if launch.program in _STARTERS]
    if not starts or script.kind not in {"shell", "csh", "fish"}:
        return
    last = starts[-1]
    late = [s for s in script.ours() if s.seq > last.seq and not s.conditional]
    if late:
        one = len(late) == 1
        yield (
            late[0].line,
            issue_of("set-after-last", late[0].name, names=listed(s.name for s in late), one_late=one, last=last),
        )


def _not_exported(script: Script) -> Iterator[Found]:
    if script.kind not in {"shell", "fish"} or not script.launches:
        return
    exported = {s.name for s in script.settings if s.exported} | script.exported_later
    for setting in script.settings:
        contained = setting.scope.startswith("container ")
        name = setting.scope.removeprefix("container ") if contained else setting.name
        if setting.exported or setting.dead or (setting.scope and not contained) or name in exported | script.mentioned:
            continue
        write = f"set -gx {name} " if script.kind == "fish" else f"export {name}="
        yield setting.line, not_exported(name, f"{write}{setting.value[:60]}")


def _sbatch_export(script: Script) -> Iterator[Found]:
    sruns = [launch for launch in script.launches if launch.program == "srun"]
    passed = any(w.startswith("--export") for launch in sruns for w in launch.words)
    ours = [s for s in script.ours() if not s.conditional]
    if not ours or not sruns or passed or "SLURM_EXPORT_ENV" in script.exported_later:
        return
    for line, text in script.directives:
        match = re.search(r"--export[= ](\S+)", text)
        if match is not None and "ALL" not in match[1].split(","):
            yield line, issue_of("sbatch-export-also", ours[0].name, match=match, names=listed(s.name for s in ours))


def _srun(script: Script, launch: Launch) -> Iterator[Found]:
    given = next((w for w in launch.words if w.startswith("--export=")), None)
    if given is None:
        return
    passed = {part.partition("=")[0] for part in given.removeprefix("--export=").split(",")}
    if "ALL" in passed or "$" in given:
        return
    missing = [s for s in script.ours(launch.seq) if s.name not in passed]
    if missing:
        yield launch.line, issue_of("srun-pass", missing[0].name, given=given, names=listed(s.name for s in missing))


def _mpirun(script: Script, launch: Launch) -> Iterator[Found]:
    words = launch.words
    if any(w in _HYDRA or "mca_base_env_list" in w for w in words):
        return
    hosts = [i for i, w in enumerate(words) if w.partition("=")[0] in _HOSTS]
    if not hosts or (not launch.complete and any(w.startswith("$") and "HOST" not in w for w in words)):
        return
    value = words[hosts[0] + 1] if hosts[0] + 1 < len(words) else ""
    if words[hosts[0]] in {"-H", "--host", "-host"} and all(map(is_loopback, value.split(","))):
        return
    passed = {words[i + 1].partition("=")[0] for i, w in enumerate(words[:-1]) if w == "-x"}
    missing = [s for s in script.ours(launch.seq + 1) if s.name not in passed]
    if missing:
        names, options, one = listed(s.name for s in missing), _options("-x", missing), len(missing) == 1
        name = missing[0].name
        yield (
            launch.line,
            issue_of("passes-other-hosts", name, names=names, options=options, one_missing=one, launch=launch),
        )


def _docker(script: Script, launch: Launch) -> Iterator[Found]:
    text = " ".join(launch.words)
    options, opaque = _run_options(launch.words)
    if gpus := _gpus(launch.words):
        yield from _shared_memory(script, launch, gpus, opaque)
    locked = re.search(r"memlock=(-?\d+|\w+)", text)
    small = locked is not None and locked[1].isdigit() and int(locked[1]) < 1 << 30
    if "/dev/infiniband" in text and (small or not (locked or opaque)) and not _may_lock(options):
        kib = int(locked[1]) >> 10 if locked else 0
        yield launch.line, issue_of("memlock-of-container", launch=launch, locked=locked, kib=kib)
    ours = script.ours(launch.seq)
    forwarded = re.search(r"(?:-e|--env)[= ]?(?:NCCL|RCCL|TORCH_NCCL|OFI|FI)_|--env-file|--env-host", text)
    if ours and not forwarded and not opaque:
        names, options = listed(s.name for s in ours), _options("-e", ours)
        yield launch.line, issue_of("run-gets-container", ours[0].name, launch=launch, names=names, options=options)


def _shared_memory(script: Script, launch: Launch, gpus: str, opaque: bool) -> Iterator[Found]:
    """What segments of several processes find in the container."""
    text = " ".join(launch.words)
    given = re.search(r"--shm-size[= ]([0-9.]+ ?[a-zA-Z]{0,2})(?= |$)", text)
    size = size_bytes(given[1]) if given else None
    if given and size is not None and size < LEAST_SHM_BYTES:
        yield launch.line, small_shm(f"{launch.program} run with {gpus}", given[1], "--shm-size=16g")
    environment = {s.name: s.value for s in script.settings if s.complete}
    shared = re.search(r"--shm-size|--ipc[= ](?:host|container|shareable)|/dev/shm", text)
    if not (shared or opaque or switched_on(environment, "NCCL_SHM_DISABLE")):
        yield launch.line, issue_of("run-neither-shm", launch=launch, gpus=gpus)


def _may_lock(options: Sequence[str]) -> bool:
    """A root with CAP_IPC_LOCK may pin more than the limit (ib_umem_get in the kernel)."""
    capable = re.search(r"--privileged(?= |$|=true)|--cap-add[= ](?:CAP_)?(?:IPC_LOCK|ALL)\b", " ".join(options))
    return bool(capable) and next(values_of(options, _USER), "root").partition(":")[0] in {"0", "root"}


def _run_options(words: Sequence[str]) -> tuple[Sequence[str], bool]:
    """The options in front of the image, and whether more are hidden in a variable."""
    begin = at = list(words).index("run") + 1
    while at < len(words):
        word = words[at]
        if re.fullmatch(r"\$\{?\w+(?:\[[@*]\])?(?::[-+][^}]*)?\}?|\$@|\$\*", word):
            hidden = re.search(r"(?i)image|img|container|tag", word) is None and at + 1 < len(words)
            return words[begin:at], hidden
        if not word.startswith("-"):
            break
        at += 1 if "=" in word or word in _FLAGS or re.fullmatch(r"-[ditP]+", word) else 2
    return words[begin:at], False


def _clean(script: Script, launch: Launch) -> Iterator[Found]:
    """Apptainer with an environment of its own."""
    said = " ".join(launch.words)
    lost = [s for s in script.ours(launch.seq) if s.name not in said]
    if lost and "--env-file" not in said and (clean := _CLEAN.search(said)) is not None:
        how = f"{clean[1]} {clean[2]}"
        yield (
            launch.line,
            issue_of("drops-container-starts", lost[0].name, how=how, names=listed(s.name for s in lost), lost=lost),
        )


def _deepspeed(script: Script) -> Iterator[Found]:
    """DeepSpeed's launcher forwards variables by the beginning of their names (EXPORT_ENVS of its runner)."""
    for launch in script.launches:
        said = " ".join(launch.words)
        if launch.program != "deepspeed" or re.search(r"--(?:launcher|no_ssh)\b", said):
            continue
        if not re.search(r"--hostfile|-H |--num_nodes[= ](?:[2-9]|\d\d)|--(?:include|i) ", said):
            continue
        lost = [s for s in script.ours(launch.seq) if not s.name.startswith(_DEEPSPEED)]
        if lost:
            yield (
                launch.line,
                issue_of("deepspeed-pass-other", lost[0].name, names=listed(s.name for s in lost), lost=lost),
            )


def _gpus(words: Sequence[str]) -> str | None:
    """The GPU option when it stands for more than one GPU."""
    for value in values_of(words, frozenset({"--gpus"})):
        plain = value.strip("\"'")
        if plain == "all" or (plain.isdigit() and int(plain) > 1) or "," in plain:
            return f"--gpus {plain}"
    return "--runtime=nvidia" if "--runtime=nvidia" in words else None
