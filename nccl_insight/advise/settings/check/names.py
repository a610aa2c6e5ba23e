"""Checks of names: unknown, deprecated, not there yet."""

from nccl_insight.advise.settings.catalog import Variable, catalog
from nccl_insight.advise.settings.check.issue import Issue, issue_of, source_of
from nccl_insight.base.model import Severity
from nccl_insight.base.versions import at_least, version_key

_MAX_NAME = 60
_RECENT = "2.13"


def check_name(name: str) -> Issue | None:
    """``env-unknown-name``: nothing reads a variable of this name."""
    data = catalog()
    if data.known(name) or not data.relevant(name):
        return None
    shown = name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}..."
    why = "An unknown name is ignored silently: the setting has no effect."
    if name in data.myths:
        return issue_of("read-nothing", name, shown=shown, myths=data.myths[name], explanation_said=why)
    near = data.nearest(name)
    if near is None:
        return issue_of("catalog-this-tool", name, shown=shown, data=data)
    return issue_of("version-knows-did", name, source=source_of(near), shown=shown, near=near, explanation_said=why)


def check_deprecated(name: str, version: str | None) -> Issue | None:
    """``env-deprecated``: this NCCL no longer reads the variable, or advises against it.

    Without a version the newest release is assumed.
    """
    latest, variable = catalog().latest, catalog().get(name)
    if variable is None:
        return None
    assumed = version if version_key(version) else latest
    whose = f"NCCL {version}" if version_key(version) else f"NCCL {latest}, the newest known here,"
    step = f"Replace {name} by {variable.replaced_by}." if variable.replaced_by else f"Remove {name}."
    if variable.removed and at_least(assumed, variable.removed) and variable.library == "nccl":
        # Without a version, only what went long ago is sure to be without effect.
        sure = version_key(version) is not None or at_least(variable.removed, _RECENT) is False
        severity = Severity.WARNING if sure else Severity.INFO
        return issue_of("longer-reads-gone", name, severity=severity, whose=whose, variable_said=variable, step=step)
    if variable.deprecated_any or (variable.deprecated and _reached(variable, assumed)):
        product = {"nccl": "NCCL ", "ofi": "aws-ofi-nccl "}.get(variable.library, "")
        since = f" since {product}{variable.deprecated}" if variable.deprecated else ""
        return issue_of("is-deprecated", name, since=since, step=step, variable_said=variable)
    return None


def check_too_new(name: str, version: str | None) -> Issue | None:
    """``env-unknown-name`` for a variable that this NCCL release does not have yet."""
    variable = catalog().get(name)
    if variable is None or variable.library != "nccl" or not variable.since or not version_key(version):
        return None
    # Not every patch release was looked at: only an older minor release is a reason to speak.
    if at_least(version, ".".join(variable.since.split(".")[:2])) is not False:
        return None
    return issue_of("read-yet-first", name, version=version, variable_said=variable)


def _reached(variable: Variable, version: str | None) -> bool:
    if variable.library == "nccl":
        return bool(variable.deprecated and at_least(version, variable.deprecated))
    return True  # releases of plugins are not those of NCCL: say it whatever the version
