"""Changed machines: what one other setting, link or size of the job would do."""

from typing import Any, Final

from nccl_insight.advise.expect.machine import Machine, build, parse_nics
from nccl_insight.advise.expect.rates import can_reduce_in_switch
from nccl_insight.base.data import replace
from nccl_insight.base.errors import UsageError
from nccl_insight.base.words import words

KEYS: Final = words("nodes gpus-per-node gpus nics network link gpu gdr nvls algorithm domains")
_ALGORITHMS: Final = {"ring": "Ring", "tree": "Tree", "nvls": "NVLS", "nvlstree": "NVLS"}
_COUNTS: Final = {"nodes": "nodes", "gpus-per-node": "gpus_per_node", "domains": "split"}
_ON: Final = frozenset({"on", "yes", "1", "true"})
_OFF: Final = frozenset({"off", "no", "0", "false"})


def change(machine: Machine, text: str) -> Machine:
    """The machine with changes such as ``nodes=8`` or ``nics=4x400,gdr=off``.

    ``gpus=N`` sets the number of GPUs in total, with the same GPUs per node. Raises UsageError: an unknown key or a
    value that makes no sense.
    """
    for part in text.split(","):
        key, sign, value = part.strip().partition("=")
        if not sign or key not in KEYS:
            raise UsageError(f"--what-if {part!r}: write KEY=VALUE with one of {', '.join(KEYS)}")
        machine = _one(machine, key, value.strip())
    return machine


def _one(machine: Machine, key: str, value: str) -> Machine:
    if key in {"gdr", "nvls"}:
        flag: dict[str, Any] = {key: _flag(key, value)}
        return replace(machine, **flag)
    if key == "algorithm":
        return replace(machine, algorithm=_algorithm(machine, value))
    if key == "nics":
        count, gbit = parse_nics(value)
        return replace(machine, nics=count, nic_gbit=gbit)
    if key in _COUNTS:
        count = _count(key, value)
        if key == "domains" and count > machine.nodes:
            raise UsageError(f"--what-if domains={value}: at most the number of nodes, {machine.nodes}")
        changed: dict[str, Any] = {_COUNTS[key]: count}
        return replace(machine, **changed)
    if key == "gpus":
        total = _count(key, value)
        if total < machine.gpus_per_node:
            return replace(machine, nodes=1, gpus_per_node=total)
        if total % machine.gpus_per_node:
            raise UsageError(f"--what-if gpus={value}: not a multiple of {machine.gpus_per_node} GPUs per node")
        return replace(machine, nodes=total // machine.gpus_per_node)
    name = machine.network.name
    other = build(
        value if key == "gpu" else machine.gpu.name,
        link=value if key == "link" else None,
        network=value if key == "network" else None if name == "unknown" else name,
    )
    if key == "network":
        return replace(machine, network=other.network)
    return replace(machine, gpu=other.gpu, fabric=other.fabric)


def _algorithm(machine: Machine, value: str) -> str:
    name = _ALGORITHMS.get(value.lower())
    if name is None:
        raise UsageError(f"--what-if algorithm={value}: use one of Ring, Tree, NVLS")
    if name == "NVLS" and not can_reduce_in_switch(machine):
        raise UsageError(f"--what-if algorithm={value}: {machine.gpu.name} as described here cannot do NVLS")
    return name


def _flag(key: str, value: str) -> bool:
    if value.lower() in _ON | _OFF:
        return value.lower() in _ON
    raise UsageError(f"--what-if {key}={value}: write on or off")


def _count(key: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= 1_000_000:
        raise UsageError(f"--what-if {key}={value}: write a number from 1 on")
    return int(value)
