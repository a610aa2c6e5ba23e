"""Hosts, addresses, users, paths and job names replaced by stable names, consistently over all outputs.

Two steps: :func:`collect` learns the names from a run's tables and from the raw text, :class:`Redactor`
replaces them in text, tables and analyses. Pseudonyms are numbered by first appearance, keep what the
diagnoses need (the kind of an address, which addresses share a subnet, names of libraries) and nothing else.

Covered: host names (also as part of longer names), IPv4 and IPv6 addresses and GIDs, MACs, GUIDs and UUIDs,
user names, paths outside the system's own directories, job names and job numbers of schedulers.
Not promised: names that appear only in free text of other programs, organisation names, model names.
"""

from nccl_insight.share.redact.apply import redact_analysis, redact_run
from nccl_insight.share.redact.collect import collect
from nccl_insight.share.redact.redactor import COVERED, NOT_PROMISED, Redactor

__all__ = ["COVERED", "NOT_PROMISED", "Redactor", "collect", "redact_analysis", "redact_run"]
