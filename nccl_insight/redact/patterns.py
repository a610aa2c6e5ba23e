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
        rf"(?P<uuid>(?<![\w-])(?:[A-Za-z0-9]{{1,20}}[-_]){{0,4}}?{UUID}(?!{_HEX}))",
        rf"(?P<mac>(?<![\w:.-])(?:{_HEX}{{2}}:){{5,19}}{_HEX}{{2}}(?![\w:-])|(?<![\w:.-])(?:{_HEX}{{2}}-){{5}}{_HEX}{{2}}(?![\w-]))",
        rf"(?P<v6>(?:(?<![\w:.])|(?<=[\w\]]:))(?:{_HEX}{{0,4}}:){{2,7}}(?:(?:[0-9]{{1,3}}\.){{3}}[0-9]{{1,3}}|{_HEX}{{1,4}})?(?![\w:]|\.[0-9]))",
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
    "place": (
        "pod",
        "Pod",
        "POD",
        " device",
        "peer ",
        "MASTER_ADDR",
        "HOSTNAME",
        "tcp://",
        "ip-",
        "hostname",
        "@",
    ),
    "job": (
        "SLURM_",
        "LSB_",
        "PBS_",
        "JOB",
        "job",
        "Job",
        "TORCHELASTIC",
        "WANDB",
        "rdzv_id",
        "run_id",
        "amespace",
        "NAMESPACE",
    ),
    "number": ("job", "Job", "JOB", "step", "Step", "STEP", "slurm", "Slurm"),
    "secret": (
        "TOKEN",
        "token",
        "Token",
        "SECRET",
        "secret",
        "Secret",
        "PASS",
        "pass",
        "Pass",
        "KEY",
        "key",
        "Key",
        "CRED",
        "cred",
        "Cred",
        "Bearer",
        "bearer",
        "Basic ",
        "AUTH",
        "auth",
        "Auth",
    ),
    "guid": ("guid", "GUID", "Guid"),
}
HEAD: Final = re.compile(
    r"(?:^|(?<=[\s:>\]]))([^\s:<>\[\]|]+|<[\w.-]+>)(?=:[0-9]+:[0-9]+ (?:\[|NCCL ))", re.M
)
PLACE: Final = re.compile(
    r"\bPid\s+[0-9]+ on (\S+)(?= device\b)|\bpeer ([^\s<]+)(?=<[0-9]+>)|\bMASTER_ADDR=([^\s\"',;]+)"
    r"|\bHOSTNAME=([^\s\"',;]+)|tcp://([^\s:/\"']+)|\b(ip-[0-9]+-[0-9]+-[0-9]+-[0-9]+)\b"
    r"|\"hostname\": \"([^\"]+)|@([A-Za-z][\w-]*[0-9][\w.-]*)"
    r"|\b(?:[Pp]od|POD)(?:[_-]?(?:[Nn]ame|NAME)|s)?[\"']?(?:[=:/]\s?|\s[\"'])[\"']?([a-z0-9][a-z0-9.-]*[a-z0-9])"
)
USER: Final = re.compile(
    r"(?<=/home/)([\w.-]+)|(?<=/users/)([\w.-]+)|(?<=/Users/)([\w.-]+)|\b(?:USER|LOGNAME|SLURM_JOB_USER|USERNAME)[=:]\s?([\w.-]+)"
    r"|\buid=[0-9]+\(([\w.-]+)\)|(?<![\w.-])([a-z_][\w.-]*)(?=@[A-Za-z][\w-]*[0-9])"
    r"|\b(?:[Uu]ser(?:[Nn]ame|Id|_name)?|[Oo]wner|login)[=:]\s?[\"']?([A-Za-z_][\w.-]*)"
)
JOB: Final = re.compile(
    r"\b((?:SLURM_JOB_?(?:NAME|ID|ACCOUNT|PARTITION)|SLURM_(?:STEP_)?NODELIST|SLURM_JOB_NODELIST"
    r"|LSB_JOB(?:NAME|ID)|PBS_JOB(?:NAME|ID)|JOB_NAME|TORCHELASTIC_RUN_ID|WANDB_(?:NAME|PROJECT|RUN_ID)"
    r"|WANDB_ENTITY|SLURM_ACCOUNT|(?:POD_)?NAMESPACE"
    r"|[Nn]amespace|[Jj]ob[-_ ]?[Nn]ame|--job-name|rdzv_id|run_id)\s?[=:]\s?\"?)([^\s\"',;]+)"
)
# Numbers of jobs and steps of a scheduler in free text: "Submitted batch job 81234", "STEP 81234.0 ON", "JobId=81234".
JOB_NUMBER: Final = re.compile(
    r"\b(?:[Jj][Oo][Bb]|[Ss][Tt][Ee][Pp])(?:[ _]?(?:[Ii][Dd]|step))?[ =:#]{1,3}<?([0-9]{4,12})(?![0-9])"
    r"|(?:slurm|job|Job|JOB)[-_]?([0-9]{4,12})(?![0-9])"
)
# A name that says that its value is secret, and the value; or a value that says so itself.
SECRET: Final = re.compile(
    r"(?P<name>(?<![A-Za-z])(?:[A-Za-z0-9]{1,20}_){0,6}(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_?KEY"
    r"|ACCESS_KEY_ID|SECRET_KEY|PRIVATE_?KEY|CREDENTIALS?|AUTH(?:ORIZATION)?)(?:_[A-Za-z0-9]{1,20}){0,3}[\"']?(?:\s?[=:]\s?"
    r"|\s(?=[\"']))(?:Bearer |Basic )?[\"']?)(?P<value>[^\s\"',;}]+)",
    re.I,
)
BEARER: Final = re.compile(r"\b([Bb]earer|[Bb]asic) ([A-Za-z0-9._~+/=-]{12,})")
KEYS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|sk-[\w-]{16,}|xox[abprs]-[\w-]{10,}|nvapi-[\w-]{16,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{16,})"
)
KEY_HINTS: Final = (
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "hf_",
    "AKIA",
    "ASIA",
    "sk-",
    "xox",
    "nvapi-",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "pypi-",
)
EMAIL: Final = re.compile(r"([\w.+-]+)@((?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})", re.ASCII)
BUCKETS: Final = frozenset({
    "s3", "s3a", "s3n", "gs", "gcs", "az", "abfs", "abfss", "wasb", "wasbs", "adl", "hdfs", "viewfs", "oss", "cos",
    "obs", "r2", "swift", "oci", "tos", "bos",
})  # fmt: skip
# The alphabet of the random parts of names that Kubernetes makes.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
POD: Final = re.compile(
    rf"[a-z][a-z0-9-]*-(?:[{_SAFE}]{{8,10}}-[{_SAFE}]{{5}}|(?:worker|master|launcher|head|replica|ps)-(?:[0-9]{{1,5}}|[a-z0-9]{{5}}))"
    rf"(?:-[{_SAFE}]{{5}})?"
)
# Directories of /opt that are the same on every machine.
PUBLIC_OPT: Final = frozenset({
    "nvidia", "cuda", "amazon", "aws", "aws-ofi-nccl", "conda", "miniconda", "miniconda3", "anaconda3", "hpcx",
    "mellanox", "rocm", "intel", "amd", "cray", "slurm", "openmpi", "mpi", "pytorch", "python", "venv", "nccl",
    "nccl-tests",
    "google", "microsoft", "azurehpc", "oracle-cloud-agent", "ompi", "ucx", "libfabric",
})  # fmt: skip
DOMAIN: Final = re.compile(
    r"(?:[A-Za-z0-9-]+\.)+(?:local|internal|lan|cluster|corp|intranet|localdomain|svc|edu|gov|mil|com|org|net|io|ai|cloud|dev|hpc"
    r"|info|tech|de|fr|uk|eu|ch|at|it|es|nl|se|no|fi|pl|cz|jp|cn|kr|tw|sg|au|ca|us|br|il)",
    re.ASCII,
)


def may_match(kind: str, text: str) -> bool:
    """Whether a text holds one of the words that the pattern needs."""
    return any(hint in text for hint in HINTS[kind])
