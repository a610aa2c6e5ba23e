"""What a comparison draws of each run."""

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run
from nccl_insight.views.matrix import Matrix, matrix
from nccl_insight.views.node import Nodes, nodes


@dataclass(frozen=True)
class Structure:
    """Nodes and transports of a run, as far as they are known."""

    nodes: Nodes | None
    matrix: Matrix | None


def structure(run: Run) -> Structure:
    """Nodes and transports of a run."""
    return Structure(nodes(run), matrix(run))
