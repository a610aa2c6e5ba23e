"""Checks of single settings and of settings together, shared by the rules and by ``lint``.

Each check is a pure function of names, values and the NCCL version (None when it is not known) and returns
:class:`Issue` objects. Their names are those of the diagnoses where one exists.
"""

from nccl_insight.advise.settings.check.combine import check_pinned, check_together
from nccl_insight.advise.settings.check.issue import Issue, as_number, issue_of, switched_off, switched_on
from nccl_insight.advise.settings.check.names import check_deprecated, check_name, check_too_new
from nccl_insight.advise.settings.check.values import check_value

__all__ = ["Issue", "as_number", "check_deprecated", "check_name", "check_pinned", "check_setting", "check_together"]
__all__ += ["check_too_new", "check_value", "issue_of", "switched_off", "switched_on"]


def check_setting(name: str, value: str, version: str | None = None) -> list[Issue]:
    """All checks that need one setting only."""
    unknown = check_name(name)
    if unknown is not None:
        return [unknown]
    found = [check_deprecated(name, version), check_too_new(name, version), check_value(name, value, version)]
    return [issue for issue in found if issue is not None]
