"""``nvidia-smi topo -m`` matrices and ``nvidia-smi nvlink`` listings among lines of text."""

from __future__ import annotations

import polars as pl

from nccl_insight.readers.embedded.smi_text import scan_nvlinks, scan_topology


def lines_of(*texts: str) -> pl.DataFrame:
    return pl.DataFrame(
        {"line": range(1, len(texts) + 1), "text": texts}, schema={"line": pl.UInt64, "text": pl.String}
    )


def test_a_matrix_gives_its_devices_and_each_pair_in_both_directions() -> None:
    nodes, links = scan_topology(
        lines_of(
            "loss 2.5",
            "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity",
            "GPU0\t X \tNV12\tPXB\t0-31\t0",
            "GPU1\tNV12\t X \tSYS\t32-63\t1",
            "NIC0\tPXB\tSYS\t X ",
            "  NIC0: mlx5_0",
        )
    )
    assert nodes.select("line", "node", "kind", "numa", "device").rows() == [
        (3, "GPU0", "GPU", 0, None), (4, "GPU1", "GPU", 1, None), (5, "NIC0", "NIC", None, "mlx5_0"),
    ]  # fmt: skip
    assert links.select("src", "dst", "link", "path", "count").rows() == [
        ("GPU0", "GPU1", "NVL", "NV12", 12), ("GPU0", "NIC0", "PCI", "PXB", None), ("GPU1", "GPU0", "NVL", "NV12", 12),
        ("GPU1", "NIC0", "SYS", "SYS", None), ("NIC0", "GPU0", "PCI", "PXB", None),
        ("NIC0", "GPU1", "SYS", "SYS", None),
    ]  # fmt: skip


def test_cells_that_a_paste_joined_are_read_and_short_rows_are_not() -> None:
    nodes, links = scan_topology(lines_of("     GPU0 GPU1 GPU2", "GPU0 X PXBNODE", "GPU1 PXB X", "GPU2 NODESYS X"))
    assert nodes["node"].to_list() == ["GPU0", "GPU2"]
    assert links.select("src", "dst", "path", "link").rows() == [
        ("GPU0", "GPU1", "PXB", "PCI"), ("GPU0", "GPU2", "NODE", "SYS"), ("GPU2", "GPU0", "NODE", "SYS"),
        ("GPU2", "GPU1", "SYS", "SYS"),
    ]  # fmt: skip
    assert scan_topology(lines_of("loss 2.5"))[0].is_empty()


def test_listings_of_links_are_merged() -> None:
    found = scan_nvlinks(
        lines_of(
            "GPU 0: NVIDIA L4 (UUID: GPU-1)", "\t Link 0: 26.562 GB/s", "\t Link 1: <inactive>",
            "GPU 0: NVIDIA L4 (UUID: GPU-1)", "\t Link 0: Replay Errors: 3", "\t Link 0: CRC FLIT Errors: 0",
        )
    )  # fmt: skip
    columns = ["gpu", "link", "model", "speed_gbps", "active", "replay_errors", "crc_errors", "recovery_errors"]
    assert found.select(columns).rows() == [
        (0, 0, "NVIDIA L4", 26.562, True, 3, 0, None), (0, 1, "NVIDIA L4", None, False, None, None, None),
    ]  # fmt: skip
    assert scan_nvlinks(lines_of("Link to nowhere")).is_empty()
