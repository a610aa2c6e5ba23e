"""The program itself failed first."""

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.advice import advised, offered
from nccl_insight.base.data import replace
from nccl_insight.base.model import Hit, Severity, Step
from nccl_insight.base.natures import names
from nccl_insight.facts.said.course import course, left_in_order, signs_of_life
from nccl_insight.facts.said.ends import CRASHED, ENDED, FAILED, KILLED, LAST_WORDS, End, ends
from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.said.topics import told
from nccl_insight.language.load import playing
from nccl_insight.rules import _outside as outside
from nccl_insight.rules._errors import TITLE_MOST
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.normalise.help import help_of, steps_of_help
from nccl_insight.tables.run import Run

_NEAR_END = 40
_PATH_MOST = 48
_TEXT_MOST = 80
_TEXT_LEAST = 50
_CUT: Final = " ..."
# Python's number of an error, pydantic's count of them, or torch's condition, that their own words follow.
_ERRNO: Final = late.compiled(
    r"\[Errno \d{1,4}\] |\d{1,3} validation errors? for \w{1,60} (?:Value error, )?"
    r"|\[enforce fail at [^\]]{1,200}\] [^.]{1,200}\. (?=\S)"
)
_FOLDERS: Final = late.compiled(r"(?<![\w.])/(?:[\w.+-]{1,80}/){3,12}(?=[\w.+-]{1,80}:[0-9])")
_CONDITION: Final = "[enforce fail at "
_READ = ("read the traceback of these ranks", "read the traceback of this rank")


def check(ctx: Context) -> Hits:
    """At most one finding: the first exception, with all ranks that raised the same."""
    run = ctx.run
    raised, weak = [e for e in outside.of_kind(run, FAILED) if e.exception], _weak(run)
    if tool := _toolchain(weak, raised):
        yield _exit(ctx, tool)
    elif raised:
        first = _telling(outside.first_of(raised), raised)
        same = [e for e in raised if e.exception == first.exception and e.text[:40] == first.text[:40]]
        codes = [e for e in weak if set(e.ranks) & set(outside.ranks_of(same))]
        if not outside.ranks_of(same) and not outside.hosts_of(same):
            codes = _reported(first, weak)
        yield _hit(ctx, first, [*same, *codes], handled=not codes and _handled(run, first))
    elif weak and not outside.exits_passed_on(run):
        blocks = [e for e in weak if "first-failure" in e.parts]
        first = outside.first_of(blocks or weak)
        yield _exit(ctx, first)


def _toolchain(weak: list[End], raised: list[End]) -> End | None:
    """What a compiler or linker could not do, upon which Python raised that it failed."""
    near = {(r.ref.input_id, r.ref.line - n) for r in raised for n in range(1, _NEAR_END + 1)}
    return next((e for e in weak if "toolchain" in e.parts and (e.ref.input_id, e.ref.line) in near), None)


def _weak(run: Run) -> list[End]:
    """Ends without an exception that neither NCCL nor torch explains."""
    weak = [e for e in outside.of_kind(run, FAILED) if not e.exception and not outside.own_failures(run, e)]
    # Open MPI's first words, which the line with the rank follows where it was not cut off.
    vague = playing("vague")  # that the job failed, not how: what does goes before
    told = any(e.message not in vague for e in ends(run)) or outside.loud_besides(run, (FAILED, *names("echo")))
    return [e for e in weak if not told or e.message not in vague]


def _reported(first: End, weak: list[End]) -> list[End]:
    """Whose exit a launcher reports right after an exception that no tag places: all such lines name one process."""
    after = [e for e in weak if e.ref.input_id == first.ref.input_id and 0 <= e.ref.line - first.ref.line <= _NEAR_END]
    return after if len({e.ranks for e in after if e.ranks}) == 1 else []


def _help(end: End) -> Mapping[str, str] | None:
    """What helps against an exception, by what it says of its reason (help of this page and of CUDA's errors)."""
    said = {"exception": end.exception, "text": end.text, "package": end.package, "place": end.place}
    said["host"] = end.hosts[0] if end.hosts else None
    row = pl.DataFrame([said], schema=dict.fromkeys(said, pl.String))
    cuda = told(row.with_columns(text=pl.lit(f"{end.exception}: {end.text}")), "exception-kind")[0] == "cuda"
    return (help_of(row, "cuda-unhandled", "") if cuda else None) or help_of(row, FAILED, "")


def _helped(run: Run, end: End) -> bool:
    """Whether the message on the exception's own line brings help, which then goes before that of launchers' lines."""
    own = causes(run).filter(
        (pl.col("input_id") == end.ref.input_id) & (pl.col("line") == end.ref.line) & (pl.col("cause") == FAILED)
    )
    return own.height > 0 and help_of(own.head(1), FAILED, str(own["message"][0] or "")) is not None


def _telling(first: End, raised: list[End]) -> End:
    """Of the exceptions that one process raised one upon the other, the one that says the reason, or what to do."""
    chain = [e for e in raised if e.ref.input_id == first.ref.input_id and e.ranks == first.ranks]
    chain = [first, *(e for e in chain if 0 < e.ref.line - first.ref.line <= _NEAR_END)]
    stated = None
    for e in chain:
        if _help(e) is None and not _advice(e):
            continue
        if _CONDITION not in e.text:
            return e
        # torch's "enforce fail" states a condition that did not hold; what made it so comes upon it.
        stated = stated or e
    return stated or first


def _advice(end: End) -> tuple[Step, ...]:
    """What the exception itself tells to do."""
    if offer := offered(end.text):
        return (offer,)
    said = advised(end.text)
    return (Step("do", f'as the exception itself advises: "{said}"'),) if said else ()


def _handled(run: Run, end: End) -> bool:
    """Whether the program survived the exception: nothing else failed, and the log goes on or closed in order."""
    ranks = run.table("ranks")
    closed = ranks.height > 0 and bool((ranks["destroyed"].cast(pl.String) == "destroyed").all())
    # What a logger calls an error is no failure of its own where every rank closed in order.
    quiet = ["benign", "other", "ib-libibverbs-missing", *(["error-propagated"] if closed else [])]
    if causes(run).filter(pl.col("loud") & ~pl.col("cause").is_in(quiet)).height:
        return False
    inputs = run.table("inputs").filter(pl.col("input_id") == end.ref.input_id)["lines"].drop_nulls()
    near = bool(inputs.len()) and int(inputs[0]) - end.ref.line <= _NEAR_END
    return closed or not near


def _hit(ctx: Context, first: End, found: list[End], handled: bool) -> Hit:
    run = ctx.run
    place = f" ({_short(first.place)})" if first.place else ""
    cuda = first.message == "cuda"
    said = _help(first) or {}
    means = said.get("says", "")
    alone = len(outside.ranks_of(found)) < 2
    read = f"{_READ[alone]}: it ends at {first.place}" if first.place else _READ[alone]
    waits = "; the other ranks only wait for it" if alone and outside.ranks_of(found) else ""
    causes_ = outside.led_to(run, first)
    if cuda:
        causes_ = (*causes_, "cuda-unhandled", "cuda-hardware-error", "xid-error")
    who = f"{outside.subject(found)} raised "
    title = who + _raised(first.text, place, max(TITLE_MOST - len(who), _TEXT_LEAST))
    if means:
        named = f" ({outside.subject(found, '')})".replace(" ()", "")
        both = f"{means}: {outside.PACKAGE.sub('', _ERRNO.sub('', first.text, count=1))}{named}"
        if len(both) <= TITLE_MOST or _CUT in title:
            title = both if len(both) <= TITLE_MOST else means + named
    when = outside.since(found)
    hit = ctx.says(
        "raised",
        (),
        title=title + (when if len(title + when) <= TITLE_MOST else ""),
        steps=(*_advice(first), *(steps_of_help(said) or [Step("do", read + waits)])),
        last=first.message == LAST_WORDS,
        handled=handled,
        sure=bool(first.place) and not handled,
        caused_by=causes_,
        observed="" if title.startswith(means) else means,
        says_more=not _helped(run, first),
    )
    return outside.placed(run, hit, first, found)


def _raised(text: str, place: str, most: int) -> str:
    """The exception and where it was raised; what it says is worth more than the place, which the evidence has, too."""
    text = _ERRNO.sub("", text, count=1)
    if _brief(text, most).endswith(_CUT):
        text = _FOLDERS.sub("", outside.PACKAGE.sub("", text))
    told = _brief(text, max(most - len(place), _TEXT_LEAST))
    return _brief(text, most) if told.endswith(_CUT) else told + place


def _brief(text: str, most: int = _TEXT_MOST) -> str:
    """The exception in a headline: whole sentences, else whole words, unless one fills it."""
    if len(text) <= most:
        return text
    kept = text[:most]
    whole = kept.rfind(". ")
    words = kept.rsplit(" ", 1)[0]
    return kept[:whole] if whole > 0 else f"{words if 2 * len(words) > most else kept}{_CUT}"


def _short(place: str) -> str:
    """The end of a long path: the last three names."""
    return place if len(place) <= _PATH_MOST or place.count("/") < 4 else "/".join(("...", *place.split("/")[-3:]))


def _exit(ctx: Context, first: End) -> Hit:
    """An end whose reason is not in the files: a launcher's exit code, or the last words of the output."""
    run = ctx.run
    led = (*outside.led_to(run, first), *("launch-failed" for _ in first.strange))
    # A process of another program or step, where the ranks went on to the end of the job.
    strange = left_in_order(run) and first.ref.line < signs_of_life(run).get(first.ref.input_id, 0)
    strange = strange or course(run).went_on([first.ref], first.time_s)
    code = "with an error" if first.exit_code is None else f"with exit code {first.exit_code}"
    said, when = first.message == LAST_WORDS, outside.since([first])
    behind = ", and the job went on" if strange else " before the others" * bool(first.ranks)
    hit = ctx.says(
        "exit",
        (),
        caused_by=led,
        title=f'{outside.subject([first], "The job")} ended with an error: "{_brief(first.text)}"{when}'
        if said
        else f"{outside.subject([first])} ended {code}{behind}{when}",
        said=said,
        scheduled=strange or (ENDED in led and not said),
    )
    dead = [e for kind in (KILLED, CRASHED) for e in outside.of_kind(run, kind) if e.strong]
    if not said and any(outside.earlier(e, first) for e in dead):
        hit = replace(hit, severity=Severity.INFO)
    elif not said and "kubernetes" in first.parts and outside.went_well(run):
        hit = replace(hit, severity=Severity.WARNING)
    if said and (told := _help(first)):
        hit = replace(hit, steps=steps_of_help(told), observed=told["says"])
    return outside.placed(run, hit, first, [first])
