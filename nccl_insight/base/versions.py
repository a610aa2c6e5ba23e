"""Order of versions: the only place that takes a version apart."""


def version_key(version: str | None) -> tuple[int, ...] | None:
    """``"2.21.5+cuda12.4"`` -> ``(2, 21, 5)``; None for text that starts with no version."""
    parts: list[int] = []
    for part in (version or "").split("+")[0].split("-")[0].split("."):
        if not part.isascii() or not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts) or None


def at_least(version: str | None, floor: str) -> bool | None:
    """Whether ``version`` is ``floor`` or later; None when the version is not known."""
    left, right = version_key(version), version_key(floor)
    return None if left is None or right is None else left >= right


def between(version: str | None, first: str, fixed: str) -> bool:
    """Whether ``version`` is ``first`` or later and older than ``fixed``; False when the version is not known."""
    return bool(at_least(version, first)) and at_least(version, fixed) is False
