"""Entries of the dumps by process group, and how far each rank got."""

from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.progress.watchdog import states
from nccl_insight.facts.said.clock import SKEW_S
from nccl_insight.tables.run import Run, fact

# One in so many may not have written all.
_FEW: Final = 3
_DONE: Final = pl.col("retired") | (pl.col("state") == "completed")


@dataclass(frozen=True)
class Group:
    """A process group in the dumps. ``members`` is None where no dump lists them."""

    key: str
    name: str
    desc: str
    members: tuple[int, ...] | None

    @property
    def label(self) -> str:
        """``74 (EXPERT_MODEL_PARALLEL_GROUP)``."""
        return f"{self.name} ({self.desc})" if self.desc and self.desc != "undefined" else self.name


def timed_ranks(entries: pl.DataFrame) -> frozenset[int]:
    """Ranks whose dump tells when operations started (torch records that only with timing enabled)."""
    began = pl.col("time_started_ns").is_not_null() | (pl.col("state") == "started")
    return frozenset(entries.filter(began)["rank"].to_list())


@fact
def entries_of(run: Run) -> pl.DataFrame:
    """Entries of known ranks, one dump per rank kept (a rank may be dumped as pickle and as JSON).

    The columns of table ``flight_recorder``, ``key`` of the process group, ``done`` (retired or completed), and
    ``label``: the operation with its sizes.
    """
    known = _of_hang(run, run.table("flight_recorder"))
    first = known.group_by("rank").agg(pl.col("input_id").min())
    # A key: name and description of the group, and the place of its members among all lists of them. Each entry holds
    # the list of all members, which are compared by their hash.
    marked = known.join(first, on=["rank", "input_id"], how="semi").with_columns(
        pl.col("group_ranks").hash().alias("_mark")
    )
    text = pl.col("group_ranks").cast(pl.List(pl.String)).list.join(",").fill_null("")
    lists = marked.unique("_mark").select("_mark", pl.format("{}", text.rank("dense")).str.zfill(9).alias("_members"))
    key = pl.concat_str("process_group", pl.col("pg_desc").fill_null(""), "_members", separator="\x1f")
    known = marked.join(lists, on="_mark", how="left", maintain_order="left").with_columns(key=key)
    # ``all_to_all 4027x5120 BFloat16``.
    sizes = pl.col("input_sizes").fill_null("").str.strip_chars("[]")
    sizes = sizes.str.replace_all("],[", " ", literal=True).str.replace_all(",", "x", literal=True)
    words = pl.concat_str(pl.col("op_name").fill_null("?"), sizes, pl.col("input_dtypes").fill_null(""), separator=" ")
    return known.with_columns(
        _DONE.alias("done"), words.str.replace_all(" +", " ").str.strip_chars().alias("label")
    ).drop("_mark", "_members")


def opened(run: Run) -> pl.DataFrame:
    """What was begun and is not done: of :func:`entries_of`, and of dumps that do not say their rank."""
    nobody = run.table("flight_recorder").filter(pl.col("rank").is_null(), ~_DONE)
    return pl.concat([entries_of(run).filter(~pl.col("done")), nobody], how="diagonal")


@fact
def outdated(run: Run) -> frozenset[int]:
    """The ranks whose dump is of another moment than the hang: several whose watchdog gave up an operation show no
    open one in their dump. And those whose dump is not newer."""
    table, said = run.table("flight_recorder"), states(run).drop_nulls("timed_out_seq")["global_rank"]
    each = table.drop_nulls("rank").group_by("rank").agg(_DONE.all().alias("done"), pl.col("time_created_ns").max())
    waits = each.filter(pl.col("rank").is_in(said.implode()))
    done = waits.filter("done")
    limit = done["time_created_ns"].max()
    if not isinstance(limit, int) or (done.height < 2 and done.height * _FEW <= waits.height):
        return frozenset()
    return frozenset(each.filter(pl.col("time_created_ns") <= limit + int(SKEW_S * 1e9))["rank"].to_list())


def _of_hang(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of known ranks whose dump is not :func:`outdated`."""
    return rows.filter(pl.col("rank").is_not_null() & ~pl.col("rank").is_in(list(outdated(run))))


def status_of(run: Run) -> pl.DataFrame:
    """Counters of the process groups of known ranks: rows of table ``flight_recorder_groups``."""
    return _of_hang(run, run.table("flight_recorder_groups"))


def groups_of(entries: pl.DataFrame) -> dict[str, Group]:
    """The process groups of entries by key."""
    found = entries.unique("key", maintain_order=True).select("key", "process_group", "pg_desc", "group_ranks")
    return {
        key: Group(key, name or "?", desc or "", tuple(members) if members is not None else None)
        for key, name, desc, members in found.iter_rows()
    }


def progress_of(run: Run, entries: pl.DataFrame) -> pl.DataFrame:
    """Per group and rank: last collective issued (``enqueued``) and last one known to be finished (``finished``).

    The counters of ``pg_status`` mix collectives and point-to-point operations, so they are used only in groups
    without the latter.
    """
    seen = (
        entries.group_by("key", "rank", maintain_order=True)
        .agg(
            pl.col("process_group").first(),
            _p2p=pl.col("is_p2p").any(),
            _last=pl.col("collective_seq").filter(~pl.col("is_p2p")).max(),
            _open=pl.col("collective_seq").filter(~pl.col("is_p2p") & ~pl.col("done")).min(),
        )
        .with_columns(pl.col("_p2p").any().over("key"))
        .filter(pl.col("_last").is_not_null())
    )
    counters = (
        status_of(run)
        .group_by("rank", "process_group")
        .agg(pl.col("last_enqueued").max(), pl.col("last_completed").max())
    )
    seen = seen.join(counters, on=["rank", "process_group"], how="left")
    usable = ~pl.col("_p2p")
    return seen.with_columns(
        enqueued=pl.max_horizontal("_last", pl.when(usable).then(pl.col("last_enqueued"))),
        finished=pl.coalesce(pl.col("_open") - 1, pl.col("_last")),
    )


def unnamed_counters(run: Run) -> dict[int, int]:
    """By rank, the highest counter of groups whose id no entry ties to a name.

    A dump of unfinished operations leaves out groups in which a rank has nothing open; such a rank may have
    finished what others still show as open.
    """
    rows = status_of(run).filter(pl.col("process_group").is_null() & pl.col("last_enqueued").is_not_null())
    return dict(rows.group_by("rank").agg(pl.col("last_enqueued").max()).iter_rows())
