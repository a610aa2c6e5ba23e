"""What names look like in text."""

from __future__ import annotations

import re
from typing import Final

# Words that may be a host's or user's name and are also everyday text: replaced only where a name must stand.
COMMON: Final = frozenset({
    "info", "warn", "trace", "abort", "nccl", "rccl", "rank", "ranks", "channel", "channels", "node", "nodes",
    "host", "hosts", "localhost", "gpu", "gpus", "cpu", "net", "ring", "rings", "tree", "trees", "init",
    "comm", "error", "errors", "test", "tests", "root", "none", "null", "unknown", "python", "python3",
    "torch", "slurm", "main", "master", "proxy", "socket", "plugin", "bootstrap", "using", "via", "call",
    "failed", "connect", "connected", "send", "receive", "recv", "user", "users", "admin", "ubuntu", "nvidia",
    "runner", "data", "local", "cluster", "server", "worker", "client", "login", "compute", "home", "work",
    "default", "ib", "lo", "eth0", "ib0", "docker", "docker0", "bond0", "device", "thread", "version",
    "library", "true", "false", "yes", "no", "from", "to", "on", "at", "in", "of", "and", "or", "the", "not",
    "with", "for", "system", "mpi", "self", "shared", "graph", "topology", "memory", "cuda", "driver", "build",
    "train", "job", "run", "log", "logs", "output", "file", "path", "name", "size", "time",
})  # fmt: skip

# Directories that are the same on every machine: their paths stay, because diagnoses need them.
SYSTEM_ROOTS: Final = frozenset({
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "opt", "proc", "run", "sbin", "sys", "usr", "var",
    "nix", "snap",
})  # fmt: skip
KNOWN_DOMAINS: Final = (
    "nvidia.com", "github.com", "githubusercontent.com", "pytorch.org", "python.org", "readthedocs.io", "kernel.org",
    "amd.com", "amazon.com", "google.com", "microsoft.com", "openfabrics.org", "open-mpi.org", "docker.com",
)  # fmt: skip
FILE_SUFFIXES: Final = frozenset({
    "c", "cc", "cpp", "cu", "cuh", "h", "hpp", "py", "pyx", "so", "a", "o", "xml", "json", "log", "txt", "out",
    "err", "yaml", "yml", "toml", "conf", "cfg", "sh", "gz", "zst", "xz", "pt", "bin", "whl", "md", "lark",
})  # fmt: skip
PUBLIC_FILE: Final = re.compile(
    r"(?:lib[\w.+-]*\.so[\w.]*|[\w.+-]+\.(?:cc|cpp|cu|cuh|hpp|h|c)|(?:topo|graph)\.xml|distributed_c10d\.py|nccl[\w.-]*\.conf)"
)

_HEX = "[0-9a-fA-F]"
UUID: Final = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
TOKEN: Final = re.compile(
    "|".join((
        rf"(?P<uuid>(?<![\w-]){UUID}(?![\w-]))",
        rf"(?P<mac>(?<![\w:.-])(?:{_HEX}{{2}}:){{5}}{_HEX}{{2}}(?![\w:-])|(?<![\w:.-])(?:{_HEX}{{2}}-){{5}}{_HEX}{{2}}(?![\w-]))",
        rf"(?P<v6>(?<![\w:.])(?:{_HEX}{{0,4}}:){{2,7}}(?:(?:[0-9]{{1,3}}\.){{3}}[0-9]{{1,3}}|{_HEX}{{1,4}})?(?![\w:]|\.[0-9]))",
        r"(?P<v4>(?<![\w.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?!\w|\.[0-9]))",
        r"(?P<url>\b[a-z][a-z0-9+]{1,9}://[^\s\"'<>]+)",
        r"(?P<path>(?<![\w.\])])(?:~|\./|\.\./)?/(?:[\w.+@%~-]+/?)+)",
        r"(?P<word>[A-Za-z0-9_](?:[\w-]|[.@](?=[A-Za-z0-9]))*)",
    )),
    re.ASCII,
)  # fmt: skip
GUID: Final = re.compile(
    rf"(?i)(guid[\"'=:\s]{{0,4}}(?:0x)?)({_HEX}{{16}}|{_HEX}{{4}}(?::{_HEX}{{4}}){{3}})(?!{_HEX}|:)"
)
# What stands between blanks, quotes and separators; most runs of a log repeat, so that they are looked up once.
RUN: Final = re.compile(r"[^\s\"'(,;<>=|{}]+")
# Words without which a pattern cannot match: looking for them is much faster than trying the pattern.
HINTS: Final = {
    "user": ("/home/", "/users/", "/Users/", "USER", "LOGNAME", "uid=", "@"),
    "place": (" device", "peer ", "MASTER_ADDR", "HOSTNAME", "tcp://", "ip-", "hostname", "@"),
    "job": ("SLURM_", "LSB_", "PBS_", "JOB", "job", "Job", "TORCHELASTIC", "WANDB", "rdzv_id", "run_id"),
    "guid": ("guid", "GUID", "Guid"),
}
HEAD: Final = re.compile(
    r"(?:^|(?<=[\s:>\]]))([^\s:<>\[\]|]+|<[\w.-]+>)(?=:[0-9]+:[0-9]+ (?:\[|NCCL ))", re.M
)
PLACE: Final = re.compile(
    r"\bPid\s+[0-9]+ on (\S+)(?= device\b)|\bpeer ([^\s<]+)(?=<[0-9]+>)|\bMASTER_ADDR=([^\s\"',;]+)"
    r"|\bHOSTNAME=([^\s\"',;]+)|tcp://([^\s:/\"']+)|\b(ip-[0-9]+-[0-9]+-[0-9]+-[0-9]+)\b"
    r"|\"hostname\": \"([^\"]+)|@([A-Za-z][\w-]*[0-9][\w.-]*)"
)
USER: Final = re.compile(
    r"(?<=/home/)([\w.-]+)|(?<=/users/)([\w.-]+)|(?<=/Users/)([\w.-]+)|\b(?:USER|LOGNAME|SLURM_JOB_USER|USERNAME)[=:]\s?([\w.-]+)"
    r"|\buid=[0-9]+\(([\w.-]+)\)|\b([a-z_][\w.-]*)(?=@[A-Za-z][\w-]*[0-9])"
)
JOB: Final = re.compile(
    r"\b((?:SLURM_JOB_?(?:NAME|ID|ACCOUNT|PARTITION)|SLURM_(?:STEP_)?NODELIST|SLURM_JOB_NODELIST"
    r"|LSB_JOB(?:NAME|ID)|PBS_JOB(?:NAME|ID)|JOB_NAME|TORCHELASTIC_RUN_ID|WANDB_(?:NAME|PROJECT|RUN_ID)"
    r"|[Jj]ob[-_ ]?[Nn]ame|--job-name|rdzv_id|run_id)\s?[=:]\s?\"?)([^\s\"',;]+)"
)
DOMAIN: Final = re.compile(
    r"(?:[A-Za-z0-9-]+\.)+(?:local|internal|lan|cluster|corp|intranet|localdomain|edu|gov|mil|com|org)",
    re.ASCII,
)


def may_match(kind: str, text: str) -> bool:
    """Whether a text holds one of the words that the pattern needs."""
    return any(hint in text for hint in HINTS[kind])
