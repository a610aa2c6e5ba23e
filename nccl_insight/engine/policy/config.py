"""Reads the policy: options, then environment, then the nearest configuration file, then defaults.

Files: ``--config``, else ``nccl-insight.toml`` or ``[tool.nccl-insight]`` of ``pyproject.toml`` in the working
directory or above, else the user's ``nccl-insight/nccl-insight.toml`` below the XDG configuration directory.
The first one found is the only one. Never a file beside a log: logs come from strangers.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NoReturn

from nccl_insight.base import toml
from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Confidence, Severity
from nccl_insight.engine.policy.model import Ignore, Policy
from nccl_insight.inputs.limits import NAMES, changed
from nccl_insight.inputs.spool import start_of
from nccl_insight.rules import discover

FILE_NAME: Final = "nccl-insight.toml"
ENV_PREFIX: Final = "NCCL_INSIGHT_"
_TOP: Final = ("analyze", "ignore", "severity", "thresholds", "traces", "limits")
_ANALYZE: Final = ("select", "ignore", "fail-on", "min-confidence", "min-coverage", "redact")
_IGNORE: Final = ("code", "name", "match", "reason", "until")
_MAX_BYTES: Final = 1 << 20


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` for the most similar known name, else the list of them when it is short."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(names)}" if len(names) <= 12 else ""


def resolve(pattern: str, where: str = "") -> tuple[str, ...]:
    """Names of the diagnoses meant by a code (``NI210``), a code's beginning (``NI2``), a name or a glob.

    Raises:
        UsageError: nothing has that name; the message gives the nearest one.
    """
    wanted = pattern.strip()
    upper = wanted.upper()
    found = tuple(
        rule.name
        for rule in discover()
        if rule.name == wanted.lower()
        or (upper.startswith("NI") and rule.code.startswith(upper))
        or (
            any(c in wanted for c in "*?[")
            and (fnmatchcase(rule.name, wanted.lower()) or fnmatchcase(rule.code, upper))
        )
    )
    if wanted and found:
        return found
    # The digits of a code mean nothing to each other, so the nearest number is no guess at what was meant.
    is_code = upper[:2] == "NI" and upper[2:].isdigit()
    hint = "; `nccl-insight rules` lists all" if is_code else nearest(wanted, {r.name for r in discover()})
    raise UsageError(f"{where + ': ' if where else ''}no diagnosis is called {pattern!r}{hint}")


def _fail(where: str, what: str) -> NoReturn:
    raise UsageError(f"{where}: {what}")


def _known(where: str, table: object, allowed: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(table, dict):
        _fail(where, "must be a table")
    for key in table:
        if key not in allowed:
            _fail(where, f"unknown key {key!r}{nearest(key, allowed)}")
    return table


def _choice(where: str, value: object, allowed: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        _fail(where, f"must be one of {', '.join(allowed)}, not {value!r}")
    return value


def _date(where: str, value: object) -> date | None:
    if value is None or type(value) is date:
        return value
    try:
        return date.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        _fail(where, f"must be a date such as 2027-01-31, not {value!r}")


def _names(where: str, value: object) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(i, str) for i in items):
        _fail(where, "must be a list of codes or names")
    wanted = [part for item in items for part in item.split(",") if part.strip()]
    return tuple(dict.fromkeys(name for part in wanted for name in resolve(part, where)))


def _ignores(where: str, value: object) -> tuple[Ignore, ...]:
    if not isinstance(value, list):
        _fail(where, "must be a list of tables: [[ignore]] with code and reason")
    found: list[Ignore] = []
    for number, entry in enumerate(value, 1):
        here = f"{where} entry {number}"
        if isinstance(entry, str):
            _fail(here, f"needs a reason: write [[ignore]] code = {entry!r}, reason = '...'")
        table = _known(here, entry, _IGNORE)
        code, reason, match = table.get("code", table.get("name")), table.get("reason"), table.get("match")
        if not isinstance(code, str):
            _fail(here, "needs a code or name")
        if not isinstance(reason, str) or not reason.strip():
            _fail(here, f"needs a reason why {code} is ignored")
        if match is not None and not isinstance(match, str):
            _fail(here, "match must be a string")
        until = _date(f"{here} until", table.get("until"))
        found += [Ignore(name, reason.strip(), match, until) for name in resolve(code, here)]
    return tuple(found)


def _severities(where: str, value: object) -> dict[str, Severity]:
    if not isinstance(value, dict):
        _fail(where, "must be a table of code = severity")
    allowed = [s.value for s in Severity]
    return {
        name: Severity(_choice(f"{where} {code}", level, allowed))
        for code, level in value.items()
        for name in resolve(code, where)
    }


def _thresholds(where: str, value: object) -> dict[str, dict[str, float]]:
    if not isinstance(value, dict):
        _fail(where, "must be a table of tables: [thresholds.NAME]")
    by_name = {rule.name: rule for rule in discover()}
    found: dict[str, dict[str, float]] = {}
    for code, entries in value.items():
        here = f"{where} {code}"
        names = resolve(code, where)
        if len(names) != 1:
            _fail(here, "thresholds belong to one diagnosis")
        rule = by_name[names[0]]
        if not rule.thresholds:
            having = sorted(r.name for r in by_name.values() if r.thresholds)
            _fail(here, f"{rule.name} has no thresholds; those that have: {', '.join(having) or 'none'}")
        for key, number in _known(here, entries, sorted(rule.thresholds)).items():
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                _fail(f"{here} {key}", f"must be a number, not {number!r}")
            found.setdefault(rule.name, {})[key] = float(number)
    return found


def _share(where: str, value: object) -> float:
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        share = -1.0
    if isinstance(value, bool) or not 0 <= share <= 1:
        _fail(where, f"must be a share between 0 and 1, not {value!r}")
    return share


def _truth(where: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    return _choice(where, str(value).lower(), ("true", "false", "1", "0")) in ("true", "1")


def _level(where: str, value: object) -> Severity | None:
    level = _choice(where, value, [*(s.value for s in Severity), "never"])
    return None if level == "never" else Severity(level)


# How the value of each setting of [analyze] is read.
_READERS: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "select": lambda where, value: frozenset(_names(where, value)),
    "ignore": _ignores,
    "fail-on": _level,
    "min-confidence": lambda where, value: Confidence(_choice(where, value, [c.value for c in Confidence])),
    "min-coverage": _share,
    "redact": _truth,
}


def _settings(where: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Policy fields of the scalar settings, whatever their origin."""
    given = where.startswith(("--", ENV_PREFIX))
    return {
        key.replace("-", "_"): _READERS[key](where if given else f"{where} {key}", value)
        for key, value in table.items()
    }


def read_file(path: Path) -> Mapping[str, Any] | None:
    """Content of a configuration file; None for a pyproject.toml without our table.

    Raises:
        UsageError: the file cannot be read or is not TOML.
    """
    try:
        raw = start_of(path, _MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot read the configuration: {error.strerror or error}") from error
    if len(raw) > _MAX_BYTES:
        raise UsageError(f"{path}: larger than {_MAX_BYTES} bytes, not taken for a configuration")
    try:
        data = toml.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, endless digits, nested without end
        if path.name == "pyproject.toml" and b"nccl-insight" not in raw:
            return None
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    if path.name == "pyproject.toml":
        tool = data.get("tool")
        table = tool.get("nccl-insight") if isinstance(tool, dict) else None
        if table is not None and not isinstance(table, dict):
            raise UsageError(f"{path} [tool.nccl-insight]: must be a table")
        return table
    return dict(data)


def find_file(cwd: Path, environ: Mapping[str, str]) -> tuple[Path, Mapping[str, Any]] | None:
    """The configuration file in force and its content."""
    paths = [folder / name for folder in (cwd, *cwd.parents) for name in (FILE_NAME, "pyproject.toml")]
    if base := environ.get("XDG_CONFIG_HOME") or (f"{environ['HOME']}/.config" if environ.get("HOME") else ""):
        paths.append(Path(base) / "nccl-insight" / FILE_NAME)
    return next(((p, data) for p in paths if p.is_file() and (data := read_file(p)) is not None), None)


def _from_file(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    _known(str(path), data, _TOP)
    analyze = _known(f"{path} [analyze]", data.get("analyze", {}), _ANALYZE)
    found = _settings(f"{path} [analyze]", analyze)
    if "ignore" in data:
        found["ignore"] = (*found.get("ignore", ()), *_ignores(f"{path} [[ignore]]", data["ignore"]))
    if "severity" in data:
        found["severity"] = _severities(f"{path} [severity]", data["severity"])
    if "thresholds" in data:
        found["thresholds"] = _thresholds(f"{path} [thresholds]", data["thresholds"])
    if "traces" in data:
        traces = _known(f"{path} [traces]", data["traces"], ("communication-kernels",))
        found["communication"] = _patterns(f"{path} [traces]", traces.get("communication-kernels", []))
    if "limits" in data:
        table = _known(f"{path} [limits]", data["limits"], NAMES)
        found["limits"] = changed(table)
    return found


def _patterns(where: str, value: object) -> tuple[str, ...]:
    """Regular expressions of kernel names."""
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        _fail(where, "communication-kernels must be a list of regular expressions")
    for pattern in value:
        try:
            re.compile(pattern)
        except re.error as error:
            _fail(where, f"{pattern!r} is no regular expression: {error}")
    return tuple(value)


def load_policy(
    options: Mapping[str, Any] | None = None,
    *,
    config: Path | None = None,
    isolated: bool = False,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    today: date | None = None,
) -> Policy:
    """The effective policy.

    Args:
        options: command-line values by configuration key (``select``, ``ignore``, ``fail-on``,
            ``min-confidence``, ``min-coverage``, ``redact``); None means not given. ``select`` and
            ``ignore`` are lists of codes, names or globs.
        config: a configuration file to use instead of the nearest one.
        isolated: use no file at all.
        cwd: where the search for a file starts; without it no file is searched.
        environ: the environment (``NCCL_INSIGHT_SELECT``, ``..._FAIL_ON`` and so on, ``..._CONFIG``).
        today: the day that decides about expired ignore entries.

    Raises:
        UsageError: unknown key or name, wrong value, unreadable file.
    """
    environ = environ or {}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    path = config or (Path(environ[ENV_PREFIX + "CONFIG"]) if environ.get(ENV_PREFIX + "CONFIG") else None)
    source = None if cwd is None or isolated else find_file(cwd, environ)
    if path is not None and not isolated:
        source = (path, read_file(path) or {})
    if source is not None:
        _apply(values, origins, _from_file(*source), str(source[0]))
    for key in _ANALYZE:
        variable = ENV_PREFIX + key.upper().replace("-", "_")
        if environ.get(variable):
            _apply(values, origins, _given(variable, key, environ[variable]), f"environment {variable}")
    for key, value in (options or {}).items():
        if value is None or value == () or value == []:
            continue
        if key not in _ANALYZE:
            raise UsageError(f"unknown setting {key!r}{nearest(key, _ANALYZE)}")
        _apply(values, origins, _given(f"--{key}", key, value), f"option --{key}")
    return Policy(**values, today=today, origins=origins)


def _given(where: str, key: str, value: object) -> dict[str, Any]:
    if key == "ignore":
        return {"ignore": tuple(Ignore(name, f"ignored by {where}") for name in _names(where, value))}
    return _settings(where, {key: value})


def _apply(values: dict[str, Any], origins: dict[str, str], found: Mapping[str, Any], origin: str) -> None:
    for name, value in found.items():
        values[name] = (*values.get("ignore", ()), *value) if name == "ignore" else value
        origins[name] = origin
