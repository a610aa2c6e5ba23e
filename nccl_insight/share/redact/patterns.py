"""What names look like in text."""

import re
from pathlib import Path
from typing import Final

from nccl_insight.base import texts
from nccl_insight.share.redact.vocabulary import listed, words_by

COMMON: Final = listed("common")

SYSTEM_ROOTS: Final = listed("system_roots")
KNOWN_DOMAINS: Final = listed("known_domains")
FILE_SUFFIXES: Final = listed("file_suffixes")
_PATTERNS: Final = texts.patterns(Path(__file__).with_suffix(".txt"))
PUBLIC_FILE: Final = re.compile(_PATTERNS["public_file"])

UUID: Final = _PATTERNS["uuid"]
HEX_GROUPS: Final = _PATTERNS["hex_groups"]
HEX_RUN: Final = _PATTERNS["hex_run"]
TOKEN: Final = re.compile(_PATTERNS["token"], re.ASCII)
GUID: Final = re.compile(_PATTERNS["guid"], re.M)
# What stands between blanks, quotes and separators; most runs of a log repeat, so that they are looked up once.
RUN: Final = re.compile(_PATTERNS["run"])
# Stands for numbers that are masked, see shapes.
MASK: Final = "\x01"
# Words in lower case, one of which is in every match: looking for them is much faster than trying the pattern. They are
# in the line where the match begins. "head" has none.
HINTS: Final = words_by("hints")
HEAD: Final = re.compile(_PATTERNS["head"], re.M)
PLACE: Final = re.compile(_PATTERNS["place"], re.M)
# Lists of hosts, and a name within one.
PLACES: Final = re.compile(_PATTERNS["places"])
PLACE_OF_LIST: Final = re.compile(_PATTERNS["place_of_list"])
# The numbers behind a name that stands for several.
SERIES: Final = re.compile(_PATTERNS["series"])
USER: Final = re.compile(_PATTERNS["user"])
JOB: Final = re.compile(_PATTERNS["job"])
# Numbers of jobs and steps of a scheduler in free text: "Submitted batch job 81234", "STEP 81234.0 ON", "JobId=81234".
JOB_NUMBER: Final = re.compile(_PATTERNS["job_number"], re.M)
# A name that says that its value is secret, and the value; or a value that says so itself.
SECRET: Final = re.compile(_PATTERNS["secret"], re.I)
BEARER: Final = re.compile(_PATTERNS["bearer"])
# Secrets behind something that is none: options of a command, signatures in an address, keys of SSH and PEM.
MARKED: Final = re.compile(_PATTERNS["marked"])
# Numbers of devices, machines and accounts that a word before them or their form gives away.
NUMBERS: Final = re.compile(_PATTERNS["numbers"], re.M)
# Images of containers, models of hubs and remotes of git: where they come from, and the path.
IMAGE: Final = re.compile(_PATTERNS["image"], re.M)
PUBLIC_OWNERS: Final = listed("public_owners")
KEYS: Final = re.compile(_PATTERNS["keys"])
# People by their full names, in logs of version control.
PERSON: Final = re.compile(_PATTERNS["person"])
EMAIL: Final = re.compile(_PATTERNS["email"], re.ASCII)
BUCKETS: Final = listed("buckets")
POD: Final = re.compile(_PATTERNS["pod"])
PUBLIC_OPT: Final = listed("public_opt")
DOMAIN: Final = re.compile(_PATTERNS["domain"], re.ASCII)
V4_WITHIN: Final = re.compile(_PATTERNS["v4_within"])
COMPOUND: Final = re.compile(_PATTERNS["compound"])
MEASURED: Final = re.compile(_PATTERNS["measured"])
PAIR: Final = re.compile(_PATTERNS["pair"])
NO_VALUE: Final = re.compile(_PATTERNS["no_value"])


def may_match(kind: str, text: str) -> bool:
    """Whether a text holds one of the words that the patterns of a kind need."""
    words = HINTS.get(kind)
    if words is None:
        return True
    folded = text.lower()
    return any(word in folded for word in words) or (kind == "place" and ("[" in text or ": " in text))
