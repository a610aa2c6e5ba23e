"""Identity of a finding that survives another run's pids, addresses and host names, and redaction."""

import hashlib
from collections.abc import Mapping

from nccl_insight.base.units import format_ranks
from nccl_insight.engine.draft import Draft
from nccl_insight.tables.run import Run


def comm_ordinals(run: Run) -> dict[str, int]:
    """Place of each communicator in the order of the table."""
    ids = run.table("communicators")["comm_id"].drop_nulls().unique(maintain_order=True)
    return {str(comm): index for index, comm in enumerate(ids)}


def fingerprint(draft: Draft, ordinals: Mapping[str, int], repeat: int) -> str:
    """16 hex digits of code, name, ranks, communicator ordinal and the number among its equals."""
    comm = ordinals.get(draft.hit.comm_id, -1) if draft.hit.comm_id is not None else -1
    key = f"{draft.rule.code}|{draft.name}|{format_ranks(draft.hit.ranks, 1 << 30)}|{comm}|{repeat}"
    return hashlib.sha256(key.encode()).hexdigest()[:16]
