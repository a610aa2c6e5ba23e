"""SQL over the tables of a run, and over nothing else."""

from __future__ import annotations

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.share import api
from nccl_insight.tables.run import build_run
from nccl_insight.tables.sql import check_sql, select
from tests.runs import RUNS

SECRET = "read_csv('/etc/passwd')"


@pytest.mark.parametrize(
    "sql",
    [
        f'select 1 as "--", * from {SECRET}', f'select 1 as "/*", * from {SECRET}',
        f"select 1 as \"'\", * from {SECRET}",
        f"select 1 as `'`, * from {SECRET}", f"select $$'$$ as a, * from {SECRET}",
        f'select "key" as "--" from {SECRET}',
        f"select E'\\'' as a, * from {SECRET}", f"select * from a, {SECRET}", f'select """--" as a from {SECRET}',
        f"select * from ranks where rank in (select \"a\" as \"--\" from {SECRET})", "select * from `read_csv`('x')",
        "select * from generate_series(1, 10000000000)", "select lpad('x', 2000000000, 'y')", "select repeat('x', 10)",
        "create table x as select * from ranks", "drop table ranks", "values (1)", "", "copy ranks to 'x'",
        "select " + "(" * 3_000 + "1" + ")" * 3_000, "select " + "1+" * 3_000 + "1",
        "select " + "not " * 3_000 + "true",
        "with recursive a as (select 1) select * from a",
    ],
)  # fmt: skip
def test_sql_reads_tables_only(sql: str) -> None:
    with pytest.raises(UsageError, match="query:"):
        check_sql(sql)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("select '-- read_csv(' as a", 1), ("select rank as \"a -- b\" from ranks where rank in (0, 1)", 2),
        ("select count(*) from ranks -- how many\n", 1), ("with x as (select rank from ranks) select * from x", 4),
        ("(select max(rank) from ranks)", 1), ("select 'it''s' as `a b`", 1),
        ("select rank, row_number() over (order by rank) from ranks", 4),
        ("select cast(rank as varchar(9)) from ranks where not (rank > 5)", 4), ("explain select * from ranks", 1),
        ("select case when rank > (0) then (1) else (2) end from ranks", 4),
    ],
)  # fmt: skip
def test_ordinary_sql_is_answered(sql: str, rows: int) -> None:
    assert select(api.load(RUNS / "tiny-shm" / "run.log"), sql).height == rows


def test_unknown_names_are_errors() -> None:
    run = build_run({})
    with pytest.raises(UsageError, match="no table is called 'conections'; did you mean connections"):
        run.table("conections")
    with pytest.raises(UsageError, match="table gdr has no column 'distanse'; did you mean distance"):
        run.table("gdr", "distanse")
    with pytest.raises(UsageError, match="no column is called 'chanel'; did you mean channel"):
        select(run, "select chanel from connections")
    with pytest.raises(UsageError, match="no table is called 'conections'; did you mean connections"):
        select(run, "select channel from conections")
