"""The shapes of outputs: indented keys, tables, matrices and boxes, taken apart by hand."""

from __future__ import annotations

from nccl_insight.readers.host_tools import shapes


def _lines(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.splitlines(), 1))


def test_a_key_stands_under_what_is_indented_less() -> None:
    text = "GPU 0\n    Clocks\n        SM : 1980 MHz\n    Serial : 42\n\nGPU 1\n\tSerial:\t43\n"
    items = list(shapes.tree(_lines(text)))
    assert [(i.line, i.path, i.value) for i in items] == [
        (1, "GPU 0", ""), (2, "GPU 0/Clocks", ""), (3, "GPU 0/Clocks/SM", "1980 MHz"), (4, "GPU 0/Serial", "42"),
        (6, "GPU 1", ""), (7, "GPU 1/Serial", "43"),
    ]  # fmt: skip
    assert items[2].above == ("GPU 0", "Clocks")


def test_cells_of_a_table_by_blanks_and_by_bars() -> None:
    plain = "noise\nNAME    STATE   AGE\ngpu07   Ready   4d\ngpu08   Down    2h\n\nNAME later\n"
    assert list(shapes.table(_lines(plain), "NAME +STATE")) == [
        (3, {"NAME": "gpu07", "STATE": "Ready", "AGE": "4d"}), (4, {"NAME": "gpu08", "STATE": "Down", "AGE": "2h"}),
    ]  # fmt: skip
    barred = "NAME|STATE\ngpu07|Ready\n|gpu08| Down |\n"
    assert [row for _, row in shapes.table(_lines(barred), "NAME")] == [
        {"NAME": "gpu07", "STATE": "Ready"}, {"NAME": "gpu08", "STATE": "Down"},
    ]  # fmt: skip


def test_a_line_of_dashes_tells_where_columns_of_several_words_are() -> None:
    text = "Port state  Link layer\n----------  ----------\nActive      InfiniBand\nDown        RoCE v2\n"
    assert [row for _, row in shapes.table(_lines(text), "Port state")] == [
        {"Port state": "Active", "Link layer": "InfiniBand"}, {"Port state": "Down", "Link layer": "RoCE v2"},
    ]  # fmt: skip


def test_a_matrix_has_a_cell_for_each_pair() -> None:
    text = "      GPU0  GPU1  CPU Affinity\nGPU0   X    NV18  0-31\nGPU1  NV18   X    32-63\nLegend: X self\n"
    assert list(shapes.matrix(_lines(text), r"GPU\d+")) == [
        (2, "GPU0", "GPU0", "X"), (2, "GPU0", "GPU1", "NV18"), (3, "GPU1", "GPU0", "NV18"), (3, "GPU1", "GPU1", "X"),
    ]  # fmt: skip
    assert list(shapes.matrix(_lines("GPU1 GPU0\nGPU0 X X\n"), r"GPU\d+")) == []  # names that count down are no header


def test_boxes_give_cells_and_rules_give_none() -> None:
    text = "+-----+----+\n| GPU | MiB |\n|=====+====|\n|  0  | 512 |\nplain | text\n"
    assert list(shapes.boxes(_lines(text))) == [(2, ["GPU", "MiB"]), (4, ["0", "512"])]
