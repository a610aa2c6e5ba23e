"""Lists, trees, rings and settings: spans of a message that hold several values."""

from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

# From here on a line may have been cut in mid-number (a buffer of 1024 with the head in it, for most releases).
_LONG: Final = 940


def _explode_groups(frame: pl.DataFrame, column: str, width: int) -> pl.DataFrame:
    """One row per group of ``width`` numbers, which are the columns ``_0`` ... of it.

    Only the numbers are exploded: an exploded frame would hold the whole list once a group.
    """
    length = pl.col("_length") if "_length" in frame.columns else pl.col("_body").str.len_bytes()
    size = pl.col(column).list.len()
    doubtful = (size % width == 0) & (size > width) & (length >= _LONG)
    whole = frame.select(size // width - doubtful.fill_null(False).cast(pl.UInt32)).to_series().fill_null(0)
    kept = frame.with_columns(_n=whole * width).filter(pl.col("_n") > 0)
    numbers = kept.select(pl.col(column).list.head(pl.col("_n"))).to_series().explode()
    rows = pl.DataFrame({"n": whole}).select(pl.int_range(pl.len()).repeat_by("n").explode().drop_nulls())
    items = [numbers.gather_every(width, i).alias(f"_{i}") for i in range(width)]
    return frame.drop(column)[rows.to_series()].hstack(items)


def _rank_or_none(value: pl.Expr) -> pl.Expr:
    return pl.when(value >= 0).then(value)


def _children(*values: pl.Expr) -> pl.Expr:
    return pl.concat_list(list(values)).list.eval(pl.element().filter(pl.element() >= 0))


def _trees(frame: pl.DataFrame, column: str, width: int, *trees: tuple[int, ...]) -> pl.DataFrame:
    """One row per channel and tree; each of ``trees`` tells which of its numbers are rank, parent and children."""
    rows = _explode_groups(frame, column, width).with_columns(channel=pl.col("_0"))
    parts = [
        rows.with_columns(
            tree=pl.lit(number),
            rank=pl.col(f"_{rank}"),
            parent_rank=_rank_or_none(pl.col(f"_{up}")),
            child_ranks=_children(*(pl.col(f"_{child}") for child in down)),
        )
        for number, (rank, up, *down) in enumerate(trees)
    ]
    return pl.concat(parts).select(pl.exclude("^_[0-9]+$"))


def trees_children_first(frame: pl.DataFrame) -> pl.DataFrame:
    """2.8+: ``[0] 5/-1/-1->4->3``."""
    return _trees(frame, "trees_children_first", 6, (4, 5, 1, 2, 3))


def trees_parent_first(frame: pl.DataFrame) -> pl.DataFrame:
    """2.4: ``[0] 37->42->71/-1/-1``."""
    return _trees(frame, "trees_parent_first", 6, (2, 1, 3, 4, 5))


def trees_joined(frame: pl.DataFrame) -> pl.DataFrame:
    """2.5-2.7: ``[0] 5/6/-1->4->3|3->4->5/6/-1``: the first tree children first, the second parent first."""
    return _trees(frame, "trees_joined", 11, (4, 5, 1, 2, 3), (7, 6, 8, 9, 10))


def tree_neighbours(frame: pl.DataFrame) -> pl.DataFrame:
    """``Tree 0 : 3 -> 4 -> 5/-1/-1``: parent, rank, children."""
    kids = [pl.col(f"child_rank_{i}") for i in range(3)]
    return frame.with_columns(
        tree=pl.lit(0), parent_rank=_rank_or_none(pl.col("parent_rank")), child_ranks=_children(*kids)
    ).drop([f"child_rank_{i}" for i in range(3)])


def ring_ranks(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per rank of the ring, in order; without the last one where it may have been cut in mid-number."""
    mark = pl.col("ring_cut") if "ring_cut" in frame.columns else pl.lit(None, pl.String)
    ranks = pl.col("ring_ranks")
    sure = pl.when(mark == "...").then(ranks.list.head(ranks.list.len() - 1)).otherwise(ranks)
    rows = frame.with_columns(truncated=mark.is_not_null(), ring_ranks=sure)
    rows = rows.with_columns(position=pl.int_ranges(0, pl.col("ring_ranks").list.len()))
    rows = rows.explode("ring_ranks", "position").rename({"ring_ranks": "rank"})
    return rows.drop("ring_cut", strict=False)


def env_value(frame: pl.DataFrame) -> pl.DataFrame:
    """Takes the sentence's dot off integers (and NCCL_COLLNET_ENABLE); unsigned negatives become negative."""
    value = pl.col("value").fill_null("")
    dotted = value.str.contains(r"^-?[0-9]+\.$") | (pl.col("name") == "NCCL_COLLNET_ENABLE")
    bare = pl.when(dotted).then(value.str.strip_suffix(".")).otherwise(value)
    unsigned = bare.str.extract(r"^(18446744073[0-9]{9})$").cast(pl.UInt64, strict=False).reinterpret(signed=True)
    return frame.with_columns(value=pl.coalesce(unsigned.cast(pl.String), bare))


def env_config(frame: pl.DataFrame) -> pl.DataFrame:
    """Fields of ncclConfig_t: the field's name, or the variable that replaced it."""
    replaced = "name" in frame.columns
    name = pl.lit("NCCL_") + pl.col("name") if replaced else pl.lit("config ") + pl.col("config_field")
    return frame.with_columns(name=name, value=pl.col("value").fill_null(""))


_PORT: Final = r"(?:\[([0-9]+)\] ?)?([A-Za-z0-9_.+-]+):([0-9]+)(?::(-?[0-9]+):(-?[0-9]+))?/([A-Za-z]*)"
_PORTS: Final = r"(?:\[[0-9]+\] ?)?[A-Za-z0-9_.+-]+:[0-9]+(?::-?[0-9]+:-?[0-9]+)?/[A-Za-z]*"
_DEVICES: Final = r"\[[0-9]+\]=\{[^}]*\}?|\[[0-9]+\]" + _PORTS.removeprefix(r"(?:\[[0-9]+\] ?)?")


def nic_list_ib(frame: pl.DataFrame) -> pl.DataFrame:
    """``[0]mlx5_0:1/IB [1]={[2] mlx5_2:1/RoCE, [3] mlx5_3:1/RoCE} [RO]``: one row a port.

    ``index`` is the device as connections name it; ``physical_index`` the port's own number where several are
    merged; ``rail`` and ``plane`` where 2.30 prints them.
    """
    rows = frame.with_columns(_device=pl.col("ib_nics").str.extract_all(_DEVICES)).explode("_device")
    rows = rows.with_columns(
        index=pl.col("_device").str.extract(r"^\[([0-9]+)\]").cast(pl.Int32, strict=False),
        _nic=pl.col("_device").str.replace(r"^\[[0-9]+\]=?", "").str.extract_all(_PORTS),
    )
    rows = rows.explode("_nic").filter(pl.col("_nic").is_not_null())
    part = [pl.col("_nic").str.extract(_PORT, i) for i in range(1, 7)]
    layer = part[5]
    return rows.with_columns(
        physical_index=part[0].cast(pl.Int32, strict=False),
        name=part[1],
        port=part[2].cast(pl.Int32, strict=False),
        rail=part[3].cast(pl.Int32, strict=False),
        plane=part[4].cast(pl.Int32, strict=False),
        link_layer=pl.when(layer.is_in(["IB", "RoCE"])).then(layer).otherwise(pl.lit("other")),
    ).drop("ib_nics", "_device", "_nic")


def nic_list_socket(frame: pl.DataFrame) -> pl.DataFrame:
    """``[0]eth0:10.0.0.1<0> [1]eth1:fe80::1%eth1<0>``: one row an interface."""
    rows = frame.with_columns(_nic=pl.col("socket_nics").str.extract_all(r"\[[0-9]+\][^ ]+"))
    rows = rows.explode("_nic").filter(pl.col("_nic").is_not_null())
    rows = rows.with_columns(
        index=pl.col("_nic").str.extract(r"^\[([0-9]+)\]").cast(pl.Int32, strict=False),
        name=pl.col("_nic").str.extract(r"^\[[0-9]+\]([^:]+)"),
        address=pl.col("_nic").str.extract(r"^\[[0-9]+\][^:]+:(.*)$"),
        link_layer=pl.lit("Socket"),
    )
    if "network" not in rows.columns:
        rows = rows.with_columns(interface=pl.col("name"))
    return rows.drop("socket_nics", "_nic")


def version_line(frame: pl.DataFrame) -> pl.DataFrame:
    """``2.21.5`` + ``cuda12.4`` or ``hip6.2``: library, NCCL and toolkit version."""
    build = pl.col("toolkit_build")
    hip = build.str.starts_with("hip") | pl.col("version_banner").str.starts_with("RCCL")
    return frame.with_columns(
        library=pl.when(hip).then(pl.lit("rccl")).otherwise(pl.lit("nccl")),
        cuda_version=build.str.extract(r"^cuda([0-9.]+)"),
        hip_version=build.str.extract(r"^hip([0-9.]+)"),
    )


_PLUGIN_NIC: Final = r"\[([0-9]+)\] ?([^\[\]]+)"


def nic_list_plugin(frame: pl.DataFrame) -> pl.DataFrame:
    """``[0]rdmap16s27:1/RoCE [1]...`` as external network plugins list their devices."""
    rows = frame.with_columns(_nic=pl.col("plugin_nics").str.extract_all(_PLUGIN_NIC))
    rows = rows.explode("_nic").filter(pl.col("_nic").is_not_null())
    device = pl.col("_nic").str.extract(_PLUGIN_NIC, 2).str.strip_chars(" ;,")
    layer = device.str.extract(r"/(IB|RoCE)")
    rows = rows.with_columns(
        index=pl.col("_nic").str.extract(_PLUGIN_NIC, 1).cast(pl.Int32, strict=False),
        name=device.str.extract(r"^([^:/ ]+)"),
        port=device.str.extract(r":([0-9]+)/").cast(pl.Int32, strict=False),
        address=device.str.extract(r":([0-9a-fA-F.:]+<[0-9]+>)"),
        link_layer=pl.coalesce(layer, pl.lit("other")),
    )
    if "vendor_network" in rows.columns:
        rows = rows.rename({"vendor_network": "network"})
    return rows.drop("plugin_nics", "_nic")


def own_head(frame: pl.DataFrame) -> pl.DataFrame:
    """Lines of other libraries with a head of their own: its host and process number are the line's."""
    return frame.with_columns(
        _host=pl.coalesce("_host", pl.col("node_name").cast(frame.schema["_host"])),
        _pid=pl.coalesce("_pid", pl.col("killed_pid").cast(frame.schema["_pid"])),
    )


_OF_GRAPHS: Final = (trees_children_first, trees_parent_first, trees_joined, tree_neighbours, ring_ranks)
_OF_LINES: Final = (env_value, env_config, nic_list_ib, nic_list_socket, nic_list_plugin, version_line, own_head)
NORMALISERS: Final[Mapping[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    f.__name__: f for f in (*_OF_GRAPHS, *_OF_LINES)
}
