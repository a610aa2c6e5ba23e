"""Expectations: parsed from options and files, compared with what was found, recorded from a good node."""

import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from nccl_insight.base import toml
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import UsageError, as_usage
from nccl_insight.base.versions import version_key
from nccl_insight.base.words import words
from nccl_insight.live.preflight.model import Check, Status, check_of

NUMBERS = words("""gpus nics nic_gbit shm_gib memlock_gib nofile busbw allgather_busbw reducescatter_busbw
    alltoall_busbw sendrecv_busbw h2d_gbps d2h_gbps p2p_gbps ranks nodes pcie_gen""")
RATES = words("busbw allgather_busbw reducescatter_busbw alltoall_busbw sendrecv_busbw h2d_gbps d2h_gbps p2p_gbps")
MEASURED = (*RATES, "ranks", "nodes", "transport", "cuda")
VERSIONS = ("driver", "nccl", "cuda", "torch")
TEXTS = ("transport", "gpu_model")
KEYS = NUMBERS + VERSIONS + TEXTS
_UNITS = {**dict.fromkeys(RATES, " GB/s"), "nic_gbit": " Gb/s", "shm_gib": " GiB", "memlock_gib": " GiB"}
_FORM = re.compile(r"\s*([a-z][a-z0-9_]*)\s*(==|!=|>=|<=|=|>|<)\s*(.+?)\s*")
_CODES = {"busbw": "NI601", "transport": "NI210", "nics": "NI240", "shm_gib": "NI401", "memlock_gib": "NI407"}


@dataclass(frozen=True)
class Expectation:
    """``key operator value``, such as ``busbw >= 300``."""

    key: str
    operator: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}{self.operator}{self.value}"


def parse(text: str) -> Expectation:
    """An expectation from ``gpus=8``, ``nccl>=2.20`` or ``transport=IB``.

    Raises UsageError: it has no operator, its key is not known or its value is not of the key's kind.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(f"expectation {text!r} has not the form key=value, key>=value ...; keys: {', '.join(KEYS)}")
    key, operator, value = match[1], "=" if match[2] == "==" else match[2], match[3].strip("\"'")
    if key not in KEYS:
        near = get_close_matches(key, KEYS, 1)
        hint = f"did you mean {near[0]}?" if near else f"keys: {', '.join(KEYS)}"
        raise UsageError(f"expectation key {key!r} is not known; {hint}")
    if key in NUMBERS and _number(value) is None:
        raise UsageError(f"expectation {text!r}: {value!r} is not a number")
    if key in VERSIONS and not re.match(r"[0-9]", value):
        raise UsageError(f"expectation {text!r}: {value!r} is not a version")
    if key in TEXTS and operator not in ("=", "!="):
        raise UsageError(f"expectation {text!r}: {key} can only be compared with = or !=")
    return Expectation(key, operator, value)


def load(path: Path) -> list[Expectation]:
    """Expectations of a TOML file: a table ``[expect]`` with values such as ``8``, ``">=2.20"`` or ``"IB"``.

    Raises UsageError: the file cannot be read or holds something else.
    """
    try:
        with as_usage(f"{path}: cannot be read"):
            table = toml.loads(path.read_text(encoding="utf-8")).get("expect", {})
    except ValueError as error:
        raise UsageError(f"{path}: cannot be read as TOML ({error})") from error
    if not isinstance(table, dict) or not table:
        raise UsageError(f"{path}: has no [expect] table")
    found = []
    for key, value in table.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, bool) or not isinstance(item, (int, float, str)):
                raise UsageError(f'{path}: {key} must be a number or a text such as ">=8"')
            text = str(item)
            found.append(parse(f"{key}{text}" if re.match(r"[=!<>]", text) else f"{key}={text}"))
    return found


def save(path: Path, facts: Mapping[str, str | float | None], margin: float = 0.9) -> int:
    """Records facts as expectations, bandwidth with a margin, limits and versions as lower bounds.

    Returns how many. Raises UsageError: the file cannot be written.
    """
    rows = []
    for key in KEYS:
        value = facts.get(key)
        if value is None or value in ("", 0.0):
            continue
        if isinstance(value, float):
            number = value * margin if key in RATES else value
            rounded = key in RATES and math.isfinite(number)
            shown = f"{math.floor(number * 100) / 100 if rounded else number:.15g}"
            rows.append(f'{key} = "{"=" if key in ("gpus", "nics", "ranks", "nodes") else ">="}{shown}"')
        else:
            clean = re.sub(r'["\\\x00-\x1f]', "", value)
            rows.append(f'{key} = "{">=" if key in VERSIONS else "="}{clean}"')
    head = "# nccl-insight preflight: expectations recorded on a node known to be good\n[expect]\n"
    with as_usage(f"{path}: cannot be written"):
        path.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")
    return len(rows)


def compare(
    expectations: Iterable[Expectation], facts: Mapping[str, str | float | None], level: str, whole: bool = False
) -> list[Check]:
    """One check an expectation. What this level cannot find out is skipped, with the reason.

    ``whole``: nobody hid GPUs of the node, so one that is missing is out of order.
    """
    checks = []
    for wanted in expectations:
        value = facts.get(wanted.key)
        name = f"expect {wanted.key}"
        unit = _UNITS.get(wanted.key, "")
        expected = f"{wanted.operator} {wanted.value}{unit}"
        if value is None:
            measured = wanted.key in MEASURED and level == "quick"
            reason = "not known at level quick; use --level standard" if measured else "could not be determined here"
            checks.append(Check(name, Status.SKIP, f"{reason} (expected {expected})", expected))
            continue
        shown = f"{value:.6g}{unit}" if isinstance(value, float) else value
        ok, code, every = _holds(wanted, value), _CODES.get(wanted.key, "-"), wanted.key == "gpus" and whole
        check = check_of("compare", of=name, expected=expected, code=code, ok=ok, shown=shown, whole_node=every)
        checks.append(check)
    return checks


def _number(text: str) -> float | None:
    try:
        return float("inf") if text.lower() in ("inf", "unlimited") else float(text)
    except ValueError:
        return None


def _holds(wanted: Expectation, value: str | float) -> bool:
    if wanted.key in TEXTS:
        found = {part.strip().lower() for part in str(value).split(",")}
        same = found == {part.strip().lower() for part in wanted.value.split(",")}
        return same if wanted.operator == "=" else not same
    if wanted.key in VERSIONS:
        have, want = version_key(str(value)) or (), version_key(wanted.value) or ()
        if wanted.operator in ("=", "!="):
            have = have[: len(want)]
        return _ordered(wanted.operator, have, want)
    limit = _number(wanted.value)
    return limit is not None and _ordered(wanted.operator, (float(value),), (limit,))


def _ordered(sign: str, have: tuple[float, ...], want: tuple[float, ...]) -> bool:
    less, same = have < want, have == want
    return {"=": same, "!=": not same, ">=": not less, "<=": less or same, ">": not (less or same), "<": less}[sign]
