"""Pages of diagnoses: what is said of one, in markdown, and all that a check without logic needs.

``<family>/NI###-name.md`` has front matter (``key: value`` lines between two ``---``), the fixed sections
(:data:`HEADINGS`) and examples (``## Fires: ...``, ``## Silent: ...``, each with a block of log lines). Where
``<family>/ni###_name.py`` stands beside it, its ``check(ctx)`` decides and phrases the finding; else the lines of which
the grammar says that they mean ``name`` are the evidence, and the finding is the same for all of them. ``#`` begins a
comment in front matter.

| key | meaning |
|---|---|
| ``class``, ``severity``, ``action`` | F, P, I, S or L; the usual severity; what an operator does |
| ``confidence`` | high (default), medium or low |
| ``needs`` | tables of which at least one must have rows (default ``errors``) |
| ``nature`` | what it is to other failures: see :mod:`nccl_insight.base.natures` |
| ``called`` | the word by which code below the rules knows it (:func:`nccl_insight.base.natures.called`) |
| ``distance`` | how far from a first cause it is seen, 0 (default) to 3 |
| ``shows`` | facts of host tools that are no fault by themselves, and belong to its findings |
| ``caused_by`` | names and natures (``any`` failure) that may explain it; ``-name`` leaves one out |
| ``thresholds`` | ``key number, key number``: what the policy may change |
| ``sources`` | where its facts come from, separated by ``;`` |
| ``speaks`` | ``yes``: lines that mean it speak for themselves where its logic is silent |
| ``title`` | without logic: the finding in one sentence without a full stop; ``{column}`` as in a message's help |
| ``explanation`` | why it matters for this run; without it and without logic the last paragraph of that section |
| ``expected`` | the number or value that a healthy run shows, where the lines show another; like ``explanation`` and
  ``steps`` for findings of the logic that bring none |
| ``steps`` | what to do: a list of ``check`` (a command that tells more), ``fix`` (a command that changes) and ``do``
  (words), each with ``where`` (to run it, or what it shows) |
| ``lines`` | ``all`` (default), ``warnings`` (not INFO), ``none`` (``explain`` only) or ``tools`` (host tools say) |
| ``beside`` | a candidate, never a verdict: names and natures that it may be behind; where there is logic,
  ``ctx.names("beside")`` |
| ``stated`` | with ``beside``: the title, an error, where a line itself says that it is so |
| ``unless`` | names and natures beside which it is not told; where there is logic, ``ctx.names("unless")`` |
| ``advised`` | what NCCL's own advice names (topic ``advice``) where it makes the candidate a warning |
| ``quiet`` | severity when all lines are INFO (default info) |
| ``fatal`` | severity when a line is of level ERROR, with which the library ends the job |
| ``on_one_host`` | severity when the job stays on one host and its init is complete (for networks) |
| ``got_over`` | severity when every process that printed a line completed an init after it |
| ``noted`` | without logic: the block ``found`` tells what readers noted under its name of the inputs (``texts``), and
  so many notes are its evidence |
| ``leads_to`` | symptoms (hang, slow, crash): a warning where the user names one of them, else as it is |
| ``since`` | the version of nccl-insight that has it first |
| ``says`` | what findings of the logic say: see :mod:`nccl_insight.base.texts` |
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache, cached_property
from glob import glob
from itertools import starmap
from pathlib import Path
from typing import Final

from nccl_insight.base import kept, texts
from nccl_insight.base.data import astuple, dataclass, replace
from nccl_insight.base.errors import InsightError
from nccl_insight.base.model import Step
from nccl_insight.base.words import words

HEADINGS: Final = ("What it finds", "Why it matters", "How it decides", "What to do", "False positives", "References")
FILE: Final = re.compile(r"NI([0-9]{3})-([a-z0-9-]+)\.md")
_NEEDED: Final = ("class", "severity", "action")
_SPOKEN: Final = ("title", "steps", "since")
_MORE: Final = words("""confidence needs nature called distance caused_by thresholds sources speaks explanation expected
    lines beside stated unless shows advised quiet on_one_host fatal got_over leads_to noted""")
_KEYS: Final = frozenset((*_NEEDED, *_SPOKEN, *_MORE))
_SECTION: Final = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.M | re.S)
_SAMPLE: Final = re.compile(r"```log\n([^`]*)\n```\s+expect: [^\n]*\bline (\d+)")


@dataclass(frozen=True)
class Page:
    """A page as read: its place, code and name, front matter and text."""

    path: Path
    code: str
    name: str
    head: Mapping[str, str]
    body: str
    steps: tuple[Step, ...] = ()
    spoken: str = ""

    @cached_property
    def says(self) -> Mapping[str, Mapping[str, str]]:
        """What findings of the logic say: texts by field, by key (see :mod:`nccl_insight.base.texts`)."""
        return texts.blocks(self.spoken)

    @cached_property
    def module(self) -> Path:
        """Where the logic stands, if it has some."""
        return self.path.with_name(f"{self.code.lower()}_{self.name.replace('-', '_')}.py")

    @cached_property
    def sections(self) -> Mapping[str, str]:
        """Texts by heading, examples included."""
        return {title.strip(): text.strip() for title, text in _SECTION.findall(self.body)}

    @property
    def summary(self) -> str:
        """What it is, in one sentence."""
        return " ".join(self.body.split("\n## ", 1)[0].split())

    @property
    def doc(self) -> str:
        """The documentation as plain text: underlined headings, what a reader needs first, of the examples one line."""
        shown = {k: v for k, v in self.sections.items() if not k.startswith(("Fires:", "Silent:"))}
        first = {k: shown.pop(k) for k in ("What it finds", "What to do") if k in shown}
        looks = [headed("What it looks like", f"    {self.sample}")] if self.sample else []
        return "\n\n".join([self.summary, *looks, *(headed(k, v) for k, v in (first | shown).items())])

    @property
    def sample(self) -> str:
        """The line on which the finding of the first example stands; empty where the examples are no logs."""
        fires = (text for title, text in self.sections.items() if title.startswith("Fires:"))
        found = next((m for m in map(_SAMPLE.search, fires) if m), None)
        lines = found[1].split("\n") if found else []
        return lines[int(found[2]) - 1] if found and int(found[2]) <= len(lines) else ""

    def words(self, key: str, default: str = "") -> tuple[str, ...]:
        """The words of a key of the front matter."""
        return words(self.head.get(key, default))


def headed(title: str, text: str) -> str:
    """A part of the documentation under its heading."""
    return f"{title}\n{'-' * len(title)}\n{text}"


def _front(text: str) -> tuple[dict[str, str], tuple[Step, ...]]:
    """The keys of front matter, and its steps."""
    head: dict[str, str] = {}
    steps: list[Step] = []
    for line in text.splitlines():
        key, _, value = line.strip().removeprefix("- ").partition(":")
        if line.startswith("  - ") and key in ("check", "fix", "do"):
            steps.append(Step(key, value.strip()))
        elif line.startswith("    ") and steps and key == "where":
            steps[-1] = replace(steps[-1], where=value.strip())
        elif key and not key.startswith("#"):
            head[key] = value.strip()
    return head, tuple(steps)


def _no_key(name: str, front: str, unknown: Container[str]) -> str:
    from difflib import get_close_matches

    keys = (line.strip().removeprefix("- ").partition(":")[0] for line in front.splitlines())
    at, key = next((at, key) for at, key in enumerate(keys, 2) if key in unknown)
    near = get_close_matches(key, _KEYS, 1)
    meant = f"; did you mean {near[0]!r}?" if near else f" (its keys: {', '.join(sorted(_KEYS))})"
    return f"{name}:{at}: front matter has no key {key!r}{meant}"


def read_page(path: Path) -> Page:
    """A page.

    Raises:
        InsightError: the file name, the front matter or a key is not as it must be.
    """
    named = FILE.fullmatch(path.name)
    parts = path.read_text(encoding="utf-8").split("---\n", 2)
    if named is None or len(parts) != 3 or parts[0]:
        raise InsightError(f"{path.name}: a page is NI###-name.md and begins with front matter between two ---")
    front, says, spoken = parts[1].partition("\nsays: ")
    head, steps = _front(front)
    page = Page(path, f"NI{named[1]}", named[2], head, parts[2].strip(), steps, (says + spoken).rstrip())
    needed = {*_NEEDED} if "noted" in head or page.module.is_file() else {*_NEEDED, *_SPOKEN}
    if unknown := set(head) - _KEYS:
        raise InsightError(_no_key(path.name, front, unknown))
    if wrong := sorted(needed - set(head)):
        raise InsightError(f"{path.name}: front matter lacks {', '.join(wrong)}")
    if "\n## Why it matters\n" not in page.body:
        raise InsightError(f"{path.name}: no section `Why it matters`")
    return page


def pages(folders: Iterable[str | Path]) -> Iterator[Page]:
    """The pages of a package of rules and of its families, by file name. ``folders``: those of the package."""
    for folder in sorted({Path(p) for p in folders}):
        yield from _of_folder(folder)


@cache
def _of_folder(folder: Path) -> tuple[Page, ...]:
    files = sorted(glob(f"{folder}/**/NI*.md", recursive=True))

    def rows() -> list[tuple[object, ...]]:
        read = map(read_page, map(Path, files))
        return [(p.code, p.name, p.head, p.body, [astuple(step) for step in p.steps], p.spoken) for p in read]

    own = Path(__file__).parents[1] in folder.parents
    found = kept.of_files("pages", (__file__, *files), rows) if own else rows()
    return tuple(
        Page(Path(path), code, name, head, body, tuple(starmap(Step, steps)), spoken)
        for path, (code, name, head, body, steps, spoken) in zip(files, found, strict=True)
    )
