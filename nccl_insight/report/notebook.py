"""The report's figures for notebooks: plotly figures for charts, drawings that bring their style for structure."""

import re
from functools import cache
from importlib.util import find_spec
from typing import Any

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Analysis
from nccl_insight.report import figures as figure_set
from nccl_insight.report.figures.base import Figure
from nccl_insight.report.figures.chart import chart
from nccl_insight.report.html.page import asset
from nccl_insight.views.figures import Figures


@dataclass(frozen=True)
class Drawing:
    """A static drawing: ``title``, ``summary`` and the ``svg``; shows itself in notebooks."""

    title: str
    summary: str
    svg: str

    def __repr__(self) -> str:
        return f"<Drawing {self.title}: {self.summary}>"

    def _repr_html_(self) -> str:
        return f'<div class="nccl-insight"><style>{_style()}</style>{self.svg}</div>'


def figures(analysis: Analysis, views: Figures) -> dict[str, Any]:
    """Figures by name in the order of the report; charts are ``plotly.graph_objects.Figure`` where plotly is there."""
    return {f.id: _shown(f) for f in figure_set.build(analysis, views)}


def _shown(figure: Figure) -> Any:
    if figure.plot is None:
        return Drawing(figure.title, figure.summary, figure.svg)
    still = Drawing(figure.title, figure.summary, chart(figure.plot, figure.title, figure.size, wide=figure.wide))
    if find_spec("plotly") is None:
        return still
    from plotly import graph_objects

    class Chart(graph_objects.Figure):  # type: ignore[misc]
        """plotly's figure, and the drawing for places that run no script (nbconvert, previews)."""

        _ipython_display_ = None

        def _repr_mimebundle_(self, *args: Any, **options: Any) -> dict[str, Any]:
            return {"text/html": still._repr_html_(), **super()._repr_mimebundle_(*args, **options)}

    made = Chart(figure.plot["data"], figure.plot["layout"])
    made.update_layout(title={"text": figure.title}, margin={"t": 90})
    return made


@cache
def _style() -> str:
    """The rules of the report's style that drawings need, for the part of the page that they stand in."""
    sheet = asset("report.css")
    values = sheet[sheet.index("{") + 1 : sheet.index("}")]
    rules = [line for line in sheet.splitlines() if line.startswith(".draw")]
    scoped = re.sub(r"(^|\}|,)(?=\.draw)", r"\1.nccl-insight ", "".join(rules))
    return f".nccl-insight{{{values};background:var(--panel);padding:.5rem;overflow-x:auto}}{scoped}"
