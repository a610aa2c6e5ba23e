"""What the collectives of one training step move and how long they take, from the parameters and how they are split.

``h`` is the width of the model, ``L`` its layers, ``s`` the tokens of a sequence, ``b`` the sequences of a micro-batch:

- width and layers: parameters = 12 L h^2 (Kaplan et al. 2020, arXiv:2001.08361, table 1), with h = 100 L;
- tensor parallel: for each layer and micro-batch two all-reduces of b s h values forward and two backward
  (Shoeybi et al. 2019, arXiv:1909.08053, section 3);
- pipeline parallel: for each micro-batch b s h values to the next stage and as many back, in parts of 1 / tp
  (Narayanan et al. 2021, arXiv:2104.04473, sections 3.2 and 4.1);
- data parallel: one all-reduce of the gradients of a rank, parameters / (tp pp); reduce-scatter and all-gather of
  sharded optimizers move as much (Rajbhandari et al. 2020, arXiv:1910.02054, section 7.1).

Ranks are placed as Megatron places them: tensor, data, pipeline. Groups of a node that run at once share its NICs.
"""

import math
from collections.abc import Iterator
from typing import Final

from nccl_insight.advise.expect.machine import Machine
from nccl_insight.advise.expect.model import expectations
from nccl_insight.base import late
from nccl_insight.base.bandwidth import dtype_size
from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.errors import UsageError

DTYPES: Final = ("fp32", "tf32", "bf16", "fp16", "fp8")
_PART: Final = late.compiled(r"(tp|pp|dp|seq|batch|micro)(\d{1,7})")
_ASPECT: Final = 100


@dataclass(frozen=True)
class Job:
    """A model and how it is split. ``micro`` micro-batches of ``batch`` sequences of ``seq`` tokens make a step."""

    params: float
    dtype: str
    tp: int = 1
    pp: int = 1
    dp: int = 1
    seq: int = 4096
    batch: int = 1
    micro: int = 8

    @property
    def ranks(self) -> int:
        """GPUs of the job."""
        return self.tp * self.pp * self.dp

    @property
    def layers(self) -> int:
        """Layers of a model of so many parameters."""
        return max(1, round(math.pow(self.params / (12 * _ASPECT**2), 1 / 3)))

    @property
    def width(self) -> int:
        """Width of a model of so many parameters."""
        return round(math.sqrt(self.params / (12 * self.layers)))


@dataclass(frozen=True)
class Share:
    """One kind of traffic of a step. Times and bytes are those of a rank, of all calls together."""

    what: str
    op: str
    ranks: int
    size_bytes: int
    calls: int
    time_us: float
    time_low_us: float
    time_high_us: float

    @property
    def total_bytes(self) -> int:
        """Size of all calls."""
        return self.size_bytes * self.calls


def parse_job(params: str, dtype: str, parallel: str) -> Job:
    """``70e9``, ``bf16`` and ``tp8,pp4,dp16``, also with seq, batch and micro.

    Raises UsageError: a word or number makes no sense.
    """
    try:
        count = float(params)
    except ValueError:
        count = 0.0
    if not 1e6 <= count <= 1e15:
        raise UsageError(f"--params {params!r}: write a number of parameters from 1e6 to 1e15, such as 70e9")
    if dtype not in DTYPES:
        raise UsageError(f"--dtype {dtype!r}: use one of {', '.join(DTYPES)}")
    given: dict[str, int] = {}
    for part in parallel.lower().replace(" ", "").split(","):
        found = _PART.fullmatch(part)
        if found is None or int(found[2]) < 1 or found[1] in given:
            raise UsageError(f"--parallel {parallel!r}: write tp8,pp4,dp16, also seq4096, batch1 and micro8")
        given[found[1]] = int(found[2])
    return Job(count, dtype, **given)


def machine_of(job: Job, machine: Machine) -> Machine:
    """The machine with the nodes that the job needs.

    Raises UsageError: the nodes that were named have another number of GPUs.
    """
    local = min(machine.gpus_per_node, job.ranks)
    if job.ranks % local or (machine.nodes > 1 and machine.ranks != job.ranks):
        raise UsageError(
            f"--parallel: tp x pp x dp = {job.ranks} ranks do not fit {machine.nodes} x {machine.gpus_per_node} GPUs"
        )
    return replace(machine, gpus_per_node=local, nodes=job.ranks // local)


def traffic(job: Job, machine: Machine) -> Iterator[Share]:
    """What a rank in the middle of the pipeline sends in a step; ``machine`` has the nodes of the whole job."""
    element_bytes = dtype_size(job.dtype) or 0
    values = job.batch * job.seq * job.width * element_bytes
    layers = -(-job.layers // job.pp)
    gradients = round(job.params / (job.tp * job.pp)) * element_bytes
    # What, operation, ranks, distance of neighbors in ranks, size of a call, calls.
    asked = (
        ("tensor parallel", "AllReduce", job.tp, 1, values, 4 * layers * job.micro),
        ("pipeline parallel", "SendRecv", min(job.pp, 2), job.tp * job.dp, -(-values // job.tp), 2 * job.micro),
        ("data parallel", "AllReduce", job.dp, job.tp, gradients, 1),
    )
    for what, op, ranks, distance, size, calls in asked:
        for expected in expectations(_group(machine, ranks, distance), (op,), (size,)) if ranks > 1 else ():
            times = (expected.time_us, expected.time_low_us, expected.time_high_us)
            yield Share(what, op, ranks, size, calls, *(time * calls for time in times))


def _group(machine: Machine, ranks: int, distance: int) -> Machine:
    """The machine as one group sees it: its GPUs of a node, and its share of the NICs."""
    local = min(ranks, max(1, machine.gpus_per_node // distance))
    used = machine.nics * local / machine.gpus_per_node
    nics = max(1, round(used)) if machine.nics else 0
    gbit = machine.nic_gbit * used / nics if nics else 0.0
    return replace(machine, gpus_per_node=local, nodes=-(-ranks // local), nics=nics, nic_gbit=gbit)
