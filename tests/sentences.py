"""What no sentence may hold: phrases with better words for them, and what a program leaves behind."""

from __future__ import annotations

import re
from typing import Final

_LIST: Final = (
    (r"\bone \w+ a (?:rank|node|peer|process|group|process group|communicator|host|file|GPU)\b", "per"),
    (r"\b[2-9]\d* a (?:rank|node|peer|process|communicator|host|GPU)\b", "per"),
    (
        r"\b(?:GPUs|ranks|NICs|rows|files|calls|sends) an? (?:node|rank|host|peer|process|communicator|GPU|pair)\b",
        "per",
    ),
    (r"\bnode borders?\b", "node boundaries"),
    (r"\bmisses iommu=pt\b", "iommu=pt is missing"),
    (r"\b(?:at these|at some) occasions\b", "intermittently"),
    (r"\bgave no dump\b", "did not produce a dump"),
    (r"\b(?:ended|ends?) well\b", "exited cleanly, completed"),
    (r"\bcould not be found out\b", "could not be determined"),
    (r"\bNCCL (?:goes|went) on (?:with|without)\b", "continues"),
    (r"\bwithout a word\b", "silently"),
    (r"\bfor want of\b", "because ... is missing"),
    (r"\bin vain\b", "not found"),
    (r"\banew\b", "again"),
    (r"\bfor ever\b", "forever"),
    (r"\bnobody chose it\b", "was not configured"),
    (r"\bis looked for at\b", "NCCL tries to reach"),
    (r"\bcame into being\b", "was created"),
    (r"\b[Aa]nother rank went away\b", "a peer process exited"),
    (r"\bKind of the inputs instead of looking\b", "Input format (default: detect)"),
    (r"\bLeast severity\b", "Minimum severity"),
    (r"\bit is information\b", "it is reported as a note"),
    (r"\bwhich share of\b", "what fraction of"),
    (r"\bnothing (?:here )?needs doing\b", "no action needed"),
    (r"\bNo faults found\b", "No problem found"),
    (r"\bHow much was understood\b", "Parsed"),
    (r"\bthis is a candidate and no verdict\b", "possible cause, not confirmed by the log"),
    (r"\bpassed its deadline\b", "timed out"),
    (r"\bWhat these inputs could not show\b", "What this log does not contain"),
    (r"\bexplains no finding by itself\b", "not linked to a finding"),
    (r"\btakes? a dominating part\b", "dominates"),
    (r"\bThe driver serves CUDA\b", "Driver supports CUDA"),
    (r"\bsend less \(", "reduce traffic ("),
    (r"\bchosen oddly\b", "unusual"),
    (r"\bCandidate: ", "Possible cause: "),
    (r"\b(?:initialis|recognis|optimis|synchronis|neighbour|colour|behaviour|judgement)", "American spelling"),
)
PHRASES: Final = tuple((re.compile(pattern), better) for pattern, better in _LIST)

# A unit or plural that does not fit its number, a placeholder, a Python value, punctuation gone wrong.
_LEFT: Final = (
    (
        r"(?<![0-9.,-])1 (?:ranks|hosts|lines|nodes|processes|GPUs|NICs|jobs|devices|connections|calls)\b",
        "1 and a plural",
    ),
    (r"(?<!\$)\{[a-z_]+(?:\[[^]]*\])?\}", "a placeholder"),
    (r"(?:is|=|of|to|on|for|from|rank|host|at|and) (?:None|True|False)\b|\bNone[,)]", "a Python value"),
    (r"\[[0-9']+(?:, [0-9']+)*\]|\('[^)]*'\)|<[a-z-]+ (?:object|method|function)[^>]*>|\bdict_\w+\(", "a Python value"),
    (r"\bnan\b|\b[0-9.]+e-[0-9]+\b", "a number as Python writes it"),
    (r"(?<=[a-z,]) {2,}(?=[a-z])", "two blanks"),
    (r"[a-z] [.,;](?: |$)", "a blank before punctuation"),
    (r"\bRank [0-9]+[,-][0-9]", "Ranks"),
    (r"\b[a-z]+[0-9]+, [a-z]+[0-9]+ does not\b", "agreement"),
    (r"\b(GB/s|MB/s|KiB|MiB|GiB|ms|us) \1\b", "a unit twice"),
)
LEFT: Final = tuple((re.compile(pattern), what) for pattern, what in _LEFT)


def refused(text: str) -> list[str]:
    """What is wrong with a sentence as it is shown; commands between backticks are left out."""
    plain = re.sub(r"`[^`]*`", "`x`", text)
    wrong = [f"{what}: {match[0]!r} in {text!r}" for pattern, what in LEFT if (match := pattern.search(plain))]
    return wrong + [
        f"{match[0]!r} ({better}) in {text!r}" for pattern, better in PHRASES if (match := pattern.search(plain))
    ]
