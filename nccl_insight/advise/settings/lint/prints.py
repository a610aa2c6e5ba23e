"""What NCCL will print with the settings of a script, and where: the question before a run that should be analyzed."""

from collections.abc import Mapping
from typing import Final

from nccl_insight.advise.settings.check import switched_on
from nccl_insight.base.toml import beside

_DEFAULT: Final = "INIT, BOOTSTRAP and ENV"
_SHOWS: Final[Mapping[str, str]] = beside(__file__)


def will_print(settings: Mapping[str, str]) -> list[str]:
    """Sentences for the settings that hold at the end of a script (unconditional ones, by name)."""
    level = settings.get("NCCL_DEBUG", "").strip().upper()
    if level in {"", "NONE"}:
        return ["NCCL prints nothing: NCCL_DEBUG is not set, so a failure leaves only what the framework says"]
    if level == "VERSION":
        return ["NCCL prints its version once, no warnings"]
    if level not in {"WARN", "INFO", "TRACE"}:
        return [f"NCCL_DEBUG={level[:40]} is no level that NCCL documents"]
    warnings = "NCCL prints warnings only: errors are seen, but not who talks to whom over what"
    said = warnings if level == "WARN" else _subsystems(settings.get("NCCL_DEBUG_SUBSYS", "").strip())
    lines = [said, _where(settings.get("NCCL_DEBUG_FILE", "").strip())]
    if "NCCL_DEBUG_TIMESTAMP_LEVELS" in settings:
        lines.append(f"Lines of {settings['NCCL_DEBUG_TIMESTAMP_LEVELS'][:60]} carry a time (2.26 and later)")
    if switched_on(settings, "NCCL_INSPECTOR_ENABLE"):
        lines.append("The Inspector writes JSON files of its own, not into the log")
    return lines


def _subsystems(given: str) -> str:
    if not given:
        return f"NCCL prints {_DEFAULT}; NET, GRAPH and TUNING (paths, rings, algorithms) need NCCL_DEBUG_SUBSYS"
    if given.startswith("^"):
        return f"NCCL prints all subsystems but {given[1:][:100]}"
    words = [w.strip().upper() for w in given.split(",") if w.strip()]
    shown = [f"{w} ({_SHOWS[w]})" if w in _SHOWS else w[:40] for w in words[:12]]
    missing = [w for w in ("INIT", "ENV", "NET", "GRAPH") if w not in words and "ALL" not in words]
    tail = f"; not {', '.join(missing)}" if missing else ""
    return f"NCCL prints {', '.join(shown)}{tail}"


def _where(path: str) -> str:
    if path in {"", "/dev/stdout", "stdout", "/dev/stderr", "stderr"}:
        stream = "error" if path.endswith("stderr") else "output"
        return f"to standard {stream} of each process{'' if path else ', mixed with that of the program'}"
    each = "a file for each process" if "%p" in path else "ONE file that all processes overwrite"
    return f"to {path[:120]}: {each}"
