"""What a message means: the diagnosis and the role that its rule gives it, by cases where a value decides.

The syntax is described in docs/grammar.md ("What a message means"). This module reads it; the columns are filled by
:mod:`nccl_insight.tables.normalise.meaning`.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.errors import GrammarError

ROLES: Final = ("root", "effect", "caller", "setting", "benign")

WITNESS: Final[Mapping[str, tuple[str, ...]]] = {
    "speaker": ("process", "kernel", "agent"),
    "names": ("rank",),
    "end": ("memory", "lost", "reason"),
}
"""What a message of an end may state beside its diagnosis, by directive.

``speaker``: who speaks on the host of the process: itself, the kernel, or an agent of the launcher. ``names``: whom its
numbers mean. ``end``: that memory ran out, that a process is gone for no stated reason, or why the job was ended.
"""

# Columns that every line has: its level, the source file and function that its head names, and its text.
HEAD_COLUMNS: Final = frozenset({"level", "source", "function", "text"})

_TEST = re.compile(r"(?P<column>[a-z_][a-z0-9_]*) *(?P<operator>!?[=~]) *(?P<values>.+)", re.DOTALL)
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_DEPTH_MOST = 8


@dataclass(frozen=True)
class Witness:
    """What a message states of an end (:data:`WITNESS`); empty where it states nothing."""

    speaker: str = ""
    names: str = ""
    end: str = ""


@dataclass(frozen=True)
class Test:
    """One comparison. ``operator``: ``=`` one of the values, ``~`` contains one of them; with ``!`` none of them."""

    column: str
    operator: str
    values: tuple[str, ...]

    def follows(self, tests: Collection["Test"]) -> bool:
        """Whether it holds wherever all these tests hold, as far as their values tell."""
        for test in tests:
            mine, given = [v.lower() for v in self.values], [v.lower() for v in test.values]
            if test.column == self.column and (
                (self.operator == "~" and test.operator in ("~", "=") and all(any(m in g for m in mine) for g in given))
                or (self.operator == test.operator == "=" and {*given} <= {*mine})
                or (self.operator == test.operator and "!" in self.operator and {*mine} <= {*given})
            ):
                return True
        return False

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {' | '.join(self.values)}"


@dataclass(frozen=True)
class Case:
    """Where all tests hold, this diagnosis and role (None: as the message says), or the cases of a table.

    ``table``: name of a table of cases; ``role`` then overrides the roles in it. ``silent``: no meaning at all.
    """

    tests: tuple[Test, ...]
    diagnosis: str | None = None
    role: str | None = None
    table: str | None = None
    silent: bool = False


@dataclass(frozen=True)
class Meaning:
    """Diagnosis and role of a message; the first case whose tests hold decides otherwise."""

    diagnosis: str
    role: str
    cases: tuple[Case, ...] = ()

    def names(self) -> Iterator[str]:
        """Every diagnosis that a line of this message can have."""
        yield self.diagnosis
        for case in self.cases:
            if case.diagnosis:
                yield case.diagnosis


def parse_case(text: str, where: str) -> Case:
    """A case as it stands behind ``when:``.

    Raises GrammarError: it is not of the form ``TEST & TEST => DIAGNOSIS ROLE``.
    """
    condition, arrow, outcome = text.partition("=>")
    words = outcome.split()
    if not arrow or not 1 <= len(words) <= 2:
        raise GrammarError(f"{where}: a case is `TEST & TEST => DIAGNOSIS ROLE`, not {text!r}")
    tests: list[Test] = []
    for part in condition.split("&") if condition.strip() else ():
        found = _TEST.fullmatch(part.strip())
        if found is None:
            raise GrammarError(f"{where}: cannot read the test {part.strip()!r}")
        values = tuple(v.strip() for v in found["values"].split("|"))
        if not all(values):
            raise GrammarError(f"{where}: an empty value in {part.strip()!r}")
        tests.append(Test(found["column"], found["operator"], values))
    if words == ["-"]:
        return Case(tuple(tests), silent=True)
    role = words.pop() if words[-1] in ROLES else None
    name = words[0] if words else None
    table = name[1:] if name and name.startswith("@") else None
    if len(words) > 1 or (name is not None and not _NAME.fullmatch(table or name)):
        raise GrammarError(f"{where}: not a diagnosis and a role: {outcome.strip()!r}")
    return Case(tuple(tests), None if table else name, role, table)


def parse_cases(directives: Mapping[str, str], where: str) -> tuple[Case, ...]:
    """The cases of one block of directives, in order."""
    return tuple(parse_case(line, where) for line in directives.get("when", "").split("\n") if line)


def expand(
    cases: tuple[Case, ...], tables: Mapping[str, tuple[Case, ...]], where: str, depth: int = 0
) -> Iterator[Case]:
    """Cases with the tables that they name put in.

    Raises GrammarError: a table that is not defined, or that contains itself.
    """
    for case in cases:
        if case.table is None:
            yield case
            continue
        if case.table not in tables or depth > _DEPTH_MOST:
            raise GrammarError(f"{where}: no table of cases named {case.table}")
        for inner in expand(tables[case.table], tables, where, depth + 1):
            yield replace(inner, tests=(*case.tests, *inner.tests), role=case.role or inner.role)


def meaning_of(
    directives: Mapping[str, str], defaults: Mapping[str, str], tables: Mapping[str, tuple[Case, ...]], where: str
) -> Meaning | None:
    """The meaning that a rule's directives and its file's defaults give, or None.

    Raises GrammarError: a case that cannot be read, or a diagnosis without a role.
    """
    cases = tuple(expand(parse_cases(directives, where), tables, where))
    own = "diagnosis" in directives or bool(cases)
    given = defaults if own or directives.get("table") == "errors" else {}
    diagnosis = directives.get("diagnosis") or given.get("default-diagnosis")
    role = directives.get("role") or given.get("default-role")
    if not own and not diagnosis:
        return None
    if not diagnosis or role not in ROLES:
        raise GrammarError(f"{where}: needs both a diagnosis and a role ({', '.join(ROLES)})")
    return Meaning(diagnosis, role, cases)
