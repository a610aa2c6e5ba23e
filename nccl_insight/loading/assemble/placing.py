"""Whose a row is: ranks, hosts and processes of rows that do not name them, and ``placed_by``, what tells so."""

from collections.abc import Callable, Mapping
from functools import partial, reduce
from operator import or_
from typing import Final, TypeAlias

import polars as pl

from nccl_insight.language.load import playing, witnesses
from nccl_insight.loading.assemble.base import of_the_same, stack
from nccl_insight.loading.assemble.places import Owner, Places, gpus_at, member_in_job, places_in
from nccl_insight.readers.embedded.tags import read_tag
from nccl_insight.tables.declared import frame
from nccl_insight.tables.run import Placing, Tables
from nccl_insight.tables.schema import of_rows

# Communicator, rank in it, process and host.
Member: TypeAlias = "tuple[str | None, int | None, int | None, str | None]"
Find: TypeAlias = Callable[[Tables, Places, Member], "int | None"]
Step: TypeAlias = Callable[[Tables, Places, pl.DataFrame], pl.DataFrame]

# torch puts the rank in the job before what its processes print, and vLLM's executor: `(VllmWorker rank=7 pid=410)`.
_RANK_TAGS: Final = (r"\[rank([0-9]+)\]", r"^\([A-Za-z_]+ rank=([0-9]+) pid=[0-9]+\)")
# nccl-tests: "gpu01: Test CUDA failure ..", maybe behind a row it began; then " .. gpu01 pid 4100: Test failure ..";
_TEST_PLACE: Final = r"(?:^|\s)\.\. (\S+) pid ([0-9]{1,9}):\s*$"
_TEST_ROW: Final = r"^\s*[0-9]+\s+[0-9]+\s+\w+\s+(?:sum|prod|m[ai][xn]|avg|mulsum|none)(?:\s+-?[0-9]+)?"
_TEST_HOST: Final = rf"(?:{_TEST_ROW})?([A-Za-z0-9_.-]*[A-Za-z][A-Za-z0-9_.-]*):\s*$"
# Not the numbers behind a name, as in UCX's tags, and no address.
_TIME: Final = r"(^|[ T])[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?"
_PID: Final = r"pid='?([0-9]{1,9})"
_MEMBER: Final = ["comm_hash", "rank", "pid", "host"]
_BARE: Final = pl.col("host").is_null() & pl.col("pid").is_null()
_HEADLESS: Final = _BARE & pl.col("launcher").is_not_null()


def _looked_up(column: str, values: Mapping[int, object], dtype: type[pl.DataType]) -> pl.Expr:
    return pl.col(column).cast(pl.Int64).replace_strict(values, default=None, return_dtype=dtype)


def _of_itself() -> pl.Expr:
    """Whether a line is no witness's word of how another process ended."""
    return ~pl.col("message").is_in(list(witnesses()))


def _by_test(tables: Tables, known: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """Failures that nccl-tests print with their host, and the process that the line behind them names."""
    printed = rows.filter(pl.col("message").is_in(playing("tests")))
    if printed.is_empty():
        return rows
    place = pl.col("launcher").str.extract_groups(_TEST_PLACE)
    lines = printed.select(
        "input_id",
        "line",
        pl.coalesce(place.struct.field("1"), pl.col("launcher").str.extract(_TEST_HOST)).alias("_host"),
        place.struct.field("2").cast(pl.Int64, strict=False).alias("_pid"),
    )
    # Processes of one host write at the same time: the next line counts only right behind its failure.
    behind = (pl.col("_host").shift(-1) == pl.col("_host")) & (pl.col("line").shift(-1) - pl.col("line") <= 1)
    follows = pl.when(behind.over("input_id")).then(pl.col("_pid").shift(-1).over("input_id"))
    named = lines.with_columns(_pid=pl.coalesce("_pid", follows)).drop_nulls("_host")
    rows = rows.join(named, on=["input_id", "line"], how="left", maintain_order="left")
    bare = _BARE & pl.col("_host").is_not_null()
    return rows.with_columns(
        host=pl.when(bare).then("_host").otherwise("host"), pid=pl.when(bare).then("_pid").otherwise("pid")
    )


def _by_rank_tag(tables: Tables, known: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """Lines without a head, with the rank of torch's tag."""
    if not rows["_headless"].any():
        return rows
    tags = [pl.col("launcher").str.extract(tag) for tag in _RANK_TAGS]
    rows = rows.with_columns(_tagged=pl.coalesce(tags).cast(pl.Int32, strict=False))
    tagged, watched = pl.col("_tagged"), pl.col("message").is_in(playing("watchdog"))
    # The watchdog names ranks of its process group; the tag, those of the job. What the process says as it dies has no
    # tag: it repeats a time-out that has one.
    same = ["input_id", "rank", "seq", "duration_ms"]
    bare = {*same} <= {*rows.columns} and rows.select((_HEADLESS & watched & tagged.is_null()).any()).item()
    repeats = of_the_same(tagged, same) if bare else pl.lit(None, pl.Int32)
    own = pl.when(watched).then(pl.coalesce(tagged, repeats, "rank")).otherwise(pl.coalesce("rank", tagged))
    return rows.with_columns(rank=pl.when(_HEADLESS).then(own).otherwise("rank")).drop("_tagged")


def _by_process(tables: Tables, known: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """Lines of processes with the rank in the job: of those that stand before the init of their process, as in a file
    put together from others, and of those that belong to a smaller communicator, in which it has another number."""
    if not known.rank_of_process or rows["pid"].null_count() == rows.height:
        return rows
    on = ["host", "pid"]
    own = of_rows(
        [(h, p, r) for (h, p), r in known.rank_of_process.items()],
        {"host": pl.String, "pid": pl.Int64, "_own": pl.Int32},
    )
    numbers = (
        tables["ranks"].select(*on, "rank").drop_nulls().group_by(on).agg(pl.col("rank").unique().alias("_numbers"))
    )
    rows = rows.join(own, on=on, how="left", maintain_order="left")
    rows = rows.join(numbers, on=on, how="left", maintain_order="left")
    theirs = pl.col("rank").is_null() | pl.col("rank").is_in(pl.col("_numbers"))
    return rows.with_columns(rank=pl.when(theirs.fill_null(False)).then(pl.coalesce("_own", "rank")).otherwise("rank"))


def _by_file(tables: Tables, known: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """Lines that torch or the program print without head or tag, in the files of single processes."""
    if not known.rank_of_input:
        return rows
    bare = _BARE & pl.col("rank").is_null()
    return rows.with_columns(
        rank=pl.when(bare).then(_looked_up("input_id", known.rank_of_input, pl.Int32)).otherwise("rank"),
        host=pl.when(bare).then(_looked_up("input_id", known.host_of_input, pl.String)).otherwise("host"),
    )


def _by_tag(tables: Tables, known: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """Lines with the host that a launcher's tag names, where NCCL's lines know it."""
    # Most tags of a flood differ in their times alone.
    tag = pl.when("_headless").then(pl.col("launcher").str.replace_all(_TIME, "${1}00:00:00"))
    tags = rows.select(tag.alias("tag"))["tag"] if known.machines else pl.Series("tag", [], pl.String)
    hosts: dict[str, str] = {}
    others: dict[str, str] = {}
    tasks: dict[str, int] = {}
    for text in tags.drop_nulls().unique():
        said = read_tag(text)
        host, rank = known.host_in_tag(said), said.rank
        if rank is None:
            rank = known.at_local_rank(said.local_rank, host)
        at = known.hosts(() if rank is None else (rank,))
        host = host or next(iter(at), None)
        if host is not None and (host in known.machines or said.hosts):
            (hosts if host in known.machines else others)[text] = host
        if rank is not None and at == (host,):
            tasks[text] = rank
    if not hosts:
        return rows
    # A host without a line of NCCL: where such tags name the others, too, and a process says of itself what is wrong.
    others = others if any(read_tag(text).hosts for text in hosts) else {}
    other = tags.replace_strict(others, default=None, return_dtype=pl.String)
    named = tags.replace_strict(hosts, default=None, return_dtype=pl.String)
    task = tags.replace_strict(tasks, default=None, return_dtype=pl.Int32)
    # What the runtime of the GPU prints, and no launcher: the tag in front of it is that of the process.
    runtime = pl.col("_headless") & pl.col("message").is_in(playing("amd-runtime"))
    return rows.with_columns(
        host=pl.when("_headless").then(pl.coalesce(named, pl.when(_of_itself()).then(other), "host")).otherwise("host"),
        rank=pl.when(runtime).then(pl.coalesce("rank", task)).otherwise("rank"),
    )


def _by_input(tables: Tables, known: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of torch's watchdog in the files of single processes: which ranks of the job these are."""
    if not known.rank_of_input:
        return rows
    alone = _looked_up("input_id", known.rank_of_input, pl.Int32)
    return rows.with_columns(global_rank=pl.coalesce("global_rank", alone))


def _by_rank(column: str, tables: Tables, known: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that name a rank of the job alone: the host of that rank."""
    return known.with_hosts(rows, column, _BARE)


def _by_host_file(tables: Tables, known: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """Lines in files of single hosts: of files that name no rank at all, such as a kernel's log, and what is no
    launcher's word of another process."""
    if not known.host_of_input:
        return rows
    host, nobody = _looked_up("input_id", known.host_of_input, pl.String), pl.col("rank").is_null().all()
    own = nobody.over("input_id") | _of_itself()
    return rows.with_columns(host=pl.when(_BARE & own).then(host).otherwise("host"))


def _by_gpu(tables: Tables, known: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """What the kernel's driver says of a GPU: the process that it numbers, or the one to which the GPU belongs."""
    drivers = rows.filter(pl.col("xid").is_not_null() | pl.col("pci_address").is_not_null())
    if drivers.is_empty():
        return rows
    found = []
    columns = ("input_id", "line", "launcher", "pci_address", pl.col("text").str.extract(_PID).cast(pl.Int64))
    for input_id, line, launcher, address, pid in drivers.select(columns).iter_rows():
        host = known.host_in_tag(launcher) or known.host_of_input.get(input_id)
        process = known.process(pid, host)
        owners: set[Owner] = {process} if process is not None else set()
        if not owners and address and (host is None or host in known.machines):
            owners = gpus_at(tables, address, host)
        at = {h for h, _ in owners}
        host = at.pop() if len(at) == 1 else host or (next(iter(known.machines)) if len(known.machines) == 1 else None)
        found.append((input_id, line, host, next(iter(owners))[1] if len(owners) == 1 else None))
    schema = {"input_id": pl.UInt16, "line": pl.UInt64, "_at": pl.String, "_of": pl.Int32}
    owned = of_rows(found, schema).unique(["input_id", "line"])
    rows = rows.join(owned, on=["input_id", "line"], how="left", maintain_order="left")
    return rows.with_columns(host=pl.coalesce("host", "_at"), rank=pl.coalesce("rank", "_of"))


def _by_words(column: str | None, tables: Tables, known: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of programs by the host, rank and process that they name, the tag in front of them, and their file."""
    tag = pl.lit(None, pl.String) if column is None else pl.col(column)
    at = [
        known.placed(read_tag(tag), input_id, host, rank, pid)
        for input_id, host, rank, pid, tag in rows.select(
            "input_id", "host", "rank", "pid", tag.alias("_tag")
        ).iter_rows()
    ]
    return rows.with_columns(
        pl.Series("host", [p.host for p in at], pl.String),
        pl.Series("rank", [p.rank for p in at], pl.Int32, strict=False),
        pl.Series("local_rank", [p.local_rank for p in at], pl.Int32, strict=False),
    )


def _by_member(find: Find, tables: Tables, known: Places, rows: pl.DataFrame) -> pl.DataFrame:
    """Processes that NCCL's RAS names by communicator, its rank, process and host: which ranks of the job these are."""
    open_ = rows.filter(pl.col("global_rank").is_null()).select(_MEMBER).unique(maintain_order=True)
    found = [(*row, find(tables, known, row)) for row in open_.iter_rows()]
    kinds = {**open_.schema, "_found": rows.schema["global_rank"]}
    told = of_rows([row for row in found if row[-1] is not None], kinds)
    if told.is_empty():
        return rows
    rows = rows.join(told, on=_MEMBER, how="left", nulls_equal=True, maintain_order="left")
    return rows.with_columns(global_rank=pl.coalesce("global_rank", "_found")).drop("_found")


def _process(tables: Tables, known: Places, of: Member) -> int | None:
    _, _, pid, host = of
    process = known.process(pid, known.host(host)) or known.process(pid, None)
    return process[1] if process is not None else None


def _member(tables: Tables, known: Places, of: Member) -> int | None:
    comm, rank, _, _ = of
    return None if rank is None else member_in_job(tables, comm, rank)


def _reported(tables: Tables, known: Places, of: Member) -> int | None:
    """Without any init the report is all there is: ranks are those of its largest communicator."""
    comm, rank, pid, host = of
    if known.rank_of_process:
        return None
    own, comms = tables.derived("ranks of RAS reports", lambda: _of_report(tables))
    return own.get((host, pid)) if own else rank if comm is not None and comms < 2 else None


def _of_report(tables: Tables) -> tuple[dict[tuple[str | None, int | None], int], int]:
    """The rank of each process in the largest communicator of a RAS report, and in those as large, if it is one; and
    the number of communicators that it compares."""
    ras, ranks = tables.as_read("ras"), tables.as_read("ras_ranks")
    lost = ras.filter(pl.col("event").is_in(["dead_member", "incomplete_member"]))
    rows = pl.concat([ranks.select(_MEMBER), lost.select(_MEMBER)], how="vertical_relaxed")
    rows = rows.drop_nulls(["comm_hash", "rank", "pid"]).with_columns(size=pl.col("rank").n_unique().over("comm_hash"))
    pairs = rows.filter(pl.col("size") == pl.col("size").max()).select("host", "pid", "rank").unique()
    alike = pairs.height == pairs["rank"].n_unique() == pairs.select("host", "pid").n_unique()
    compared = ras.filter(pl.col("event").is_in(["mismatch", "mismatch_member"]) & pl.col("op_count").is_not_null())
    comms = {*compared["comm_hash"], *tables["ras_counts"]["comm_hash"]}
    return {(h, int(p)): int(r) for h, p, r in pairs.iter_rows()} if alike else {}, len(comms)


def _placed(name: str, steps: Mapping[str, Step], tables: Tables, headed: pl.Expr = ~_BARE) -> pl.DataFrame:
    """A table whose rows have the place that the steps find; ``placed_by`` is the last step that told anything."""
    rows = tables.as_read(name)
    if rows.is_empty():
        return rows
    known, place = places_in(tables), [c for c in ("rank", "global_rank", "host", "pid") if c in rows.columns]
    given = pl.when(headed).then(pl.lit("head")).when(~_BARE | pl.col("rank").is_not_null()).then(pl.lit("line"))
    by = rows.select(given).to_series()
    if "launcher" in rows.columns:
        rows = rows.with_columns(_headless=_HEADLESS)
    for how, step in steps.items():
        after = step(tables, known, rows)
        if after is rows:
            continue
        told = (pl.col(c).is_not_null() & pl.col(c).ne_missing(rows[c]) for c in place)
        by = after.select(pl.when(reduce(or_, told)).then(pl.lit(how)).otherwise(by)).to_series()
        rows = after
    return rows.select(pl.exclude(r"^_.*$")).with_columns(by.alias("placed_by"))


def _relation(tables: Tables) -> pl.DataFrame:
    """The table ``places``: processes of the job and others, whole inputs, addresses, pods."""
    known = places_in(tables)
    size = ["host", "pid"]
    own = tables["ranks"].sort(pl.col("nranks"), descending=True, maintain_order=True).unique(size, keep="first")
    processes = tables["processes"].select("input_id", *size, task="launcher_rank").unique(size, maintain_order=True)
    rows = processes.join(own.select(*size, "bus_id", device="cuda_dev"), on=size, how="left", maintain_order="left")
    ranks = [known.rank_of_process.get((h, p)) for h, p in rows.select(size).iter_rows()]
    rows = rows.with_columns(pl.Series("rank", ranks, pl.Int32, strict=False), known_by=pl.lit("process"))
    other = [{"rank": r, "host": known.hosts((r,))[0], "known_by": "rank"} for r in known.ranks if r not in set(ranks)]
    for i in sorted({*known.host_of_input, *known.rank_of_input, *known.local_of_input}):
        place = {"host": known.host_of_input.get(i), "rank": known.rank_of_input.get(i)}
        other.append({"input_id": i, **place, "local_rank": known.local_of_input.get(i), "known_by": "input"})
    other += [{"host": h, "address": a, "known_by": "address"} for a, h in known.addresses.items()]
    pods = {*tables["pods"]["pod_name"].drop_nulls(), *tables.as_read("errors")["container_name"].drop_nulls()}
    other += [
        {"host": known.pod(p), "pod": p, "known_by": "pod"} for p in sorted(pods) if known.pod(p) in known.machines
    ]
    kinds = frame("input_id u16, host str, rank i32, local_rank i32, address str, pod str, known_by str")
    rows = stack([rows, of_rows(other, kinds)])
    local = pl.col("rank").rank("dense").over("host") - 1
    return rows.with_columns(
        local_rank=pl.when(pl.col("known_by") == "process").then(local.cast(pl.Int32)).otherwise("local_rank")
    )


_RAS: Final[Mapping[str, Step]] = {
    "process": partial(_by_member, _process),
    "communicator": partial(_by_member, _member),
    "report": partial(_by_member, _reported),
    "rank": partial(_by_rank, "global_rank"),
}
_ERRORS: Final[Mapping[str, Step]] = {
    "test": _by_test, "rank tag": _by_rank_tag, "process": _by_process, "file": _by_file, "tag": _by_tag,
    "GPU": _by_gpu, "rank": partial(_by_rank, "rank"), "host's file": _by_host_file,
}  # fmt: skip
PLACING: Final[Placing] = {
    "places": _relation,
    "errors": partial(_placed, "errors", _ERRORS),
    "tracebacks": partial(_placed, "tracebacks", {"words": partial(_by_words, "tag")}),
    "endings": partial(_placed, "endings", {"file": partial(_by_words, None)}),
    "ras": partial(_placed, "ras", _RAS, headed=~_BARE & pl.col("event").is_null()),
    "ras_ranks": partial(_placed, "ras_ranks", _RAS, headed=pl.lit(False)),
    "watchdog": partial(_placed, "watchdog", {"file": _by_input, "rank": partial(_by_rank, "global_rank")}),
}
"""What makes each table whose rows are placed."""
