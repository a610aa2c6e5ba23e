"""Checks of values: what NCCL reads from the text, and what was meant."""

import re

from nccl_insight.advise.settings.catalog import Variable, catalog
from nccl_insight.advise.settings.check.issue import NUMBER, Issue, as_number, issue_of
from nccl_insight.advise.settings.interfaces import INTERFACE, RDMA_DEVICE
from nccl_insight.base.model import Severity
from nccl_insight.base.versions import at_least
from nccl_insight.base.words import words

_SUFFIX = re.compile(r"(?i)(?<!\s)\s*(k|m|g|t)i?b?$")

_FACTOR = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

# The timeout field of a queue pair has five bits, and 0 means to wait forever (InfiniBand specification, 9.7.6.1.3).
_INFINITE_IB_TIMEOUT = 32
_ATTN = "2.32"
# The level of NCCL_DEBUG that RCCL and NCCLX have beside those of NCCL.
RCCL_LEVEL = "ERROR"
_CHANNELS = frozenset({"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"})
# RCCL has up to 256 channels, and AMD's guides for MI300X set 112 (src/include/device.h of ROCm/rccl).
_RCCL_CHANNELS = 256
_TRUTH = (rf"(?i:true|false|yes|no|on|off|[ytnf01])|{NUMBER.pattern}", "not a truth value", "0 or 1")
_POLICY = r"\s*(?:DEFAULT|EFFICIENCY|ZERO)\s*"
# Types whose values have one form: which, what anything else is, what is expected.
_FORMS = {
    "bool01": _TRUTH, "boolword": _TRUTH,
    "ctapolicy": (rf"[012]|(?i:{_POLICY}(?:\|{_POLICY})*)", "unknown policy",
                  "DEFAULT, EFFICIENCY or ZERO, joined by |"),
    "hostport": (r"\[[^\]]+\]:[0-9]{1,5}|[^\s:\[\]]+:[0-9]{1,5}", "not an address with a port",
                 "HOST:PORT, an IPv6 address in brackets"),
    "float": (r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", "not a number", "a number"),
}  # fmt: skip
_LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
_PROTOS = ("ll", "ll128", "simple")
_ALGOS = {
    **dict.fromkeys(("ring", "tree"), ("2.5", None)),
    "collnet": ("2.5", "2.14"),
    **dict.fromkeys(("collnetchain", "collnetdirect"), ("2.14", None)),
    "nvls": ("2.17", None),
    "nvlstree": ("2.18", None),
    "pat": ("2.23", None),
}
_NAMES, _INTERFACES = "names joined by commas, without blanks", "names as in ip -br addr"
# What no list of names looks like: of interfaces, devices or both, how, what is wrong, what is expected.
_NO_NAMES = (
    ("", ".*/", "a path matches nothing", f"{_INTERFACES} or ibv_devices"),
    ("", ".*[;|]", "names are joined by commas; other signs are part of a name", _NAMES),
    ("hca", ".*:[0-9]*:?[A-Za-z]", "numbers follow a device; more devices follow a comma", "mlx5_0:1,mlx5_1:1"),
    ("", r".*\s", "a blank is part of the name, which then matches nothing", _NAMES),
    ("", r".*[*?\[\]]", "names are prefixes, not patterns: such a sign matches nothing", ""),
    ("", ".*,[=^]", "^ and = count once, in front of the whole list; here they are part of a name", _NAMES),
    ("ifname", r"[\d.]+(:\d+)?$", "an address matches nothing", _INTERFACES),
    ("ifname", rf"{RDMA_DEVICE}(,{RDMA_DEVICE})*$", "RDMA devices are no interfaces: none is used", _INTERFACES),
    ("hca", rf"{INTERFACE}(,{INTERFACE})*$", "interfaces are no RDMA devices: none is used", "names as in ibv_devices"),
)
# What people write who mean one of NCCL's own networks.
_NO_NETWORKS = frozenset(
    {"infiniband", "rdma", "roce", "rocev2", "verbs", "ibverbs", "mlx5", "tcp", "ethernet", "eth", "sockets"}
)
_FUNCTIONS = frozenset(
    words("""broadcast reduce allgather reducescatter allreduce sendrecv send recv alltoall gather
    scatter allgatherv""")
)


def check_value(name: str, value: str, version: str | None = None) -> Issue | None:
    """``env-invalid-value``: NCCL cannot parse the value, or reads something else than was meant."""
    variable = catalog().get(name)
    if variable is None or value.strip() == "":
        return None
    problem = (
        _quotes_problem(value)
        or _text_problem(name, value)
        or _names_problem(variable, value)
        or _blank_problem(variable, value)
        or _problem(variable, value, version)
    )
    if problem is None:
        return None
    severity, text, expected = problem
    shown = value if len(value) <= 80 else f"{value[:80]}..."
    why = _why(variable, value)
    return issue_of("wrong-value", name, severity=severity, shown=shown, text=text, expected_said=expected, why=why)


def _quotes_problem(value: str) -> tuple[Severity, str, str] | None:
    """Quotes that no shell removed: a Compose list, an env file of docker, nccl.conf."""
    kept = re.fullmatch(r"(?s)([\"'])(.*)\1", value.strip())
    return (Severity.WARNING, "the quotes are part of the value", kept[2] or "a value") if kept else None


def _text_problem(name: str, value: str) -> tuple[Severity, str, str] | None:
    """Paths, plugins and address ranges."""
    text = value.strip()
    if text.startswith("~") and name.endswith(("_FILE", "_PATH", "_DIR", "_PLUGIN", "_LOG")):
        return (Severity.WARNING, "no shell expands ~ here, and such a directory does not exist", f"$HOME{text[1:]}")
    if name.endswith("_PLUGIN") and re.fullmatch(r"lib[\w.-]+", text) and ".so" not in text:
        suffix = re.sub(r"^libnccl-(?:net|tuner|profiler|env)-|^lib", "", text)
        expected = f"{text}.so or {suffix}"
        return (Severity.WARNING, f"neither a file nor a suffix: NCCL looks for libnccl-net-{text}.so", expected)
    if name == "NCCL_NET" and text.lower() in _NO_NETWORKS:
        return (Severity.WARNING, "no network is called so, and NCCL stops without it", "IB, Socket or a plugin's name")
    if name.endswith("_ADDR_RANGE") and "/" not in text:
        return (Severity.WARNING, "without /bits the range is ignored", f"{text}/16, address and number of bits")
    return None


def _blank_problem(variable: Variable, value: str) -> tuple[Severity, str, str] | None:
    """Words that NCCL compares as they are: a blank before or behind is part of them."""
    if variable.type in {"enum", "level", "algo", "proto"} and value != value.strip():
        return (Severity.WARNING, "the blank is part of the value, which then means nothing", value.strip())
    return None


def _names_problem(variable: Variable, value: str) -> tuple[Severity, str, str] | None:
    """Lists of prefixes of interfaces and devices: blanks, patterns, signs in the middle, names of another kind."""
    if variable.type not in {"hca", "ifname"}:
        return None
    for kind, form, text, expected in _NO_NAMES:
        if kind in {"", variable.type} and re.match(form, value.lstrip("=")):
            return (Severity.WARNING, text, expected or re.sub(r"\[.*|[*?]", "", value.lstrip("^=")) or _NAMES)
    right = "^=" + value.lstrip("^=")
    return (Severity.WARNING, "the order is ^ and then =", right) if value.startswith("=^") else None


def _why(variable: Variable, value: str) -> str:
    if NUMBER.fullmatch(value.strip()):
        return ""  # it is read as it is written; the range is what is wrong
    if variable.library == "torch" and variable.type in {"int", "bool", "bool01", "boolword"}:
        return "PyTorch parses the text as a number and stops with an error where it cannot."
    if variable.type in {"int", "bool"}:
        return "NCCL reads integers with strtoll: it stops at the first character that is no digit; no digits are 0."
    return ""


def _problem(variable: Variable, value: str, version: str | None) -> tuple[Severity, str, str] | None:
    kind = variable.type
    if kind in {"int", "bool"}:
        return _number_problem(variable, value)
    if kind in _FORMS:
        form, wrong, expected = _FORMS[kind]
        severity = Severity.ERROR if kind == "hostport" else Severity.WARNING
        return None if re.fullmatch(form, value.strip()) else (severity, wrong, expected)
    if kind == "enum":
        return _enum_problem(variable, value, version)
    if kind == "set":
        words = value.lstrip("^").split(",")
        wrong = ", ".join(w for w in words if w.strip() and w.upper() not in variable.values)
        expected = f"a comma list of {', '.join(variable.values)}"
        return (Severity.WARNING, f"{wrong} is not known and ignored", expected) if wrong else None
    if kind == "level":
        return _level_problem(value)
    if kind in {"algo", "proto"}:
        return _choice_problem(kind, value, version)
    return None


def _number_problem(variable: Variable, value: str) -> tuple[Severity, str, str] | None:
    text = value.strip()
    low, high = variable.min, variable.max
    expected = _range(variable)
    number = as_number(value)
    if not -(1 << 63) <= number < 1 << 63:
        return (Severity.WARNING, "does not fit into 64 bits: NCCL takes its default", expected)
    if not NUMBER.fullmatch(text):
        return _no_number(variable, text, number, expected)
    if variable.name == "NCCL_IB_TIMEOUT" and (number == 0 or number >= _INFINITE_IB_TIMEOUT):
        what = "an infinite time: when a peer dies, its partners hang forever"
        return (Severity.WARNING, what, "1 to 31 (20 unless set)")
    if variable.name in _CHANNELS and high is not None and high < number <= _RCCL_CHANNELS:
        return (Severity.INFO, f"above the {high} channels of NCCL; only RCCL has more", expected)
    if (low is not None and number < low) or (high is not None and number > high):
        return (Severity.WARNING, f"outside {expected}", expected)
    return None


def _range(variable: Variable) -> str:
    """The numbers that a variable takes, in words."""
    low, high = variable.min, variable.max
    if low is not None:
        return f"{low} or more" if high is None else f"{low} to {high}"
    return f"at most {high}" if high is not None else "0 or 1" if variable.type == "bool" else "an integer"


def _no_number(variable: Variable, text: str, number: int, expected: str) -> tuple[Severity, str, str]:
    """What is made of a text that is no number; ``number``: what NCCL reads."""
    if variable.library == "torch":
        return (Severity.WARNING, "not a number: PyTorch refuses it", expected)
    if not NUMBER.match(text):
        return (Severity.ERROR, f"not a number: NCCL reads 0 ({_effect(variable)})", expected)
    if suffix := _SUFFIX.search(text):
        meant = number * _FACTOR[suffix[1].lower()]
        return (Severity.ERROR, f"NCCL knows no unit suffixes and reads {number}", str(meant))
    return (Severity.WARNING, f"NCCL reads {number} and drops the rest", expected)


def _effect(variable: Variable) -> str:
    if variable.type != "bool":
        return "which is rarely what was meant"
    return "so nothing is disabled" if variable.name.endswith("DISABLE") else "so it is off"


def _enum_problem(variable: Variable, value: str, version: str | None) -> tuple[Severity, str, str] | None:
    text = value.strip()
    if variable.name == "NCCL_DEBUG" and text.upper() == "ATTN" and at_least(version, _ATTN) is False:
        return (Severity.WARNING, f"ATTN came with {_ATTN}: NCCL {version} prints nothing", "WARN or INFO")
    if text in variable.values or (not variable.case_sensitive and text.upper() in variable.values):
        return None
    expected = ", ".join(variable.values[:-1]) + f" or {variable.values[-1]}" if variable.values else "a listed value"
    if variable.name == "NCCL_DEBUG":
        expected = "VERSION, WARN, ATTN (2.32.3 and later), INFO or TRACE"
        foreign = "a level of RCCL and NCCLX only: NCCL prints nothing at all" if text.upper() == RCCL_LEVEL else ""
        return (Severity.WARNING, foreign or "not a level, so NCCL prints nothing", expected)
    hint = " (upper and lower case matter)" if text.upper() in variable.values else ""
    return (Severity.WARNING, f"not one of the accepted values{hint}", expected)


def _level_problem(value: str) -> tuple[Severity, str, str] | None:
    text = value.strip()
    if text in _LEVELS or text[:1].isdigit():
        return None
    if text.upper() in _LEVELS:
        return (Severity.WARNING, "path types are upper case; NCCL ignores this value", text.upper())
    return (Severity.WARNING, "not a path type; NCCL ignores it", "LOC, NVL, PIX, PXB, PHB or SYS")


def _choice_problem(kind: str, value: str, version: str | None) -> tuple[Severity, str, str] | None:
    """NCCL_ALGO and NCCL_PROTO: ``[^]a,b[;function:[^]c,...]`` (functions since 2.24)."""
    known = _ALGOS if kind == "algo" else dict.fromkeys(_PROTOS, ("2.5", None))
    listed = "Ring, Tree, CollnetChain, CollnetDirect, NVLS, NVLSTree, PAT" if kind == "algo" else "LL, LL128, Simple"
    expected = f"a comma list of {listed}"
    strict = at_least(version, "2.24")
    severity = Severity.WARNING if strict is False else Severity.ERROR
    effect = "is ignored" if strict is False else "makes NCCL 2.24 and later stop at start"
    for position, entry in enumerate(value.split(";")):
        function, colon, elements = entry.rpartition(":")
        if colon and function.strip().lower() not in _FUNCTIONS:
            return (severity, f"{function.strip() or '(nothing)'} is no collective, which {effect}", expected)
        if not colon and position > 0:
            text = f"every entry after the first needs a collective in front, which otherwise {effect}"
            return (severity, text, expected)
        for element in filter(None, elements.lstrip("^").split(",")):
            if element.lower() not in known:
                what = "algorithm" if kind == "algo" else "protocol"
                return (severity, f"{element} is no {what}, which {effect}", expected)
            first, gone = known[element.lower()]
            if at_least(version, first) is False:
                return (severity, f"{element} exists since NCCL {first} only", expected)
            if gone and at_least(version, gone):
                return (severity, f"{element} is gone since NCCL {gone}", expected)
    return None
