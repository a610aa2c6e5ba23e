"""The rest of the report: the settings that NCCL reported, and what is unusual about them."""

from nccl_insight.advise.settings import catalog as envdata
from nccl_insight.base.data import dataclass
from nccl_insight.report.sanitize import one_line
from nccl_insight.views.environment import Environment, Setting


@dataclass(frozen=True)
class Known:
    """A setting beside what the catalog says of it."""

    row: Setting
    default: str
    remarks: tuple[str, ...]


def settings(view: Environment) -> list[Known]:
    """The settings of the view, in its order."""
    return [_known(row) for row in view.settings]


def _known(row: Setting) -> Known:
    known = envdata.catalog()
    variable = known.get(row.name)
    default = variable.default if variable and variable.default is not None else ""
    unset = "not set" if variable and variable.type == "path" else "not known"
    remarks = (
        (row.values > 1, f"{row.values} different values"),
        (variable is None and not known.known(row.name), "not a name that NCCL knows"),
        (variable is not None and variable.deprecated, "deprecated"),
    )
    return Known(row, one_line(str(default), 80) or unset, tuple(text for true, text in remarks if true))
