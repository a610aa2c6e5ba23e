"""Lines that a terminal, a viewer or a mail program broke at its width, put together again."""

from __future__ import annotations

import polars as pl

from nccl_insight.readers.nccl_log.wrapped import unwrapped


def test_lines_of_one_length_are_not_taken_for_wrapped_ones() -> None:
    """Every rank prints the longest line alike, and the program prints something after each."""
    said = "NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal"
    long = [f"n{i}:1{i}:2{i} [{i}] {said}" for i in range(8)]
    text = [part for line in long for part in (line, "loss 2.5")]
    assert unwrapped(pl.Series(text), (1,)).to_list() == text
    row = "float  sum  -1  100.0  1.00  1.88  0  99.0  1.01  1.89  0"
    table = [f"{2**i:>12} {2**i // 4:>13}  {row}" for i in range(9)]
    assert unwrapped(pl.Series(table), (1,)).to_list() == table


def test_lines_with_the_label_of_their_neighbors_are_not_taken_for_the_rest_of_them() -> None:
    """kubectl puts the name of a pod in front of each line, which leaves no room for it behind a long one."""
    kinds = ("AllReduce", "AllGather", "Broadcast", "ReduceScatter")
    text = [
        f"[pod/train-{n}/pytorch] {said}"
        for n, kind in enumerate(kinds)
        for said in (f"gpu1:1{n}:2{n} [{n}] NCCL INFO {kind}: opCount {n} sendbuff 0x7f", f"step {n} loss 2.5")
    ]
    assert unwrapped(pl.Series(text), (1,)).to_list() == text


def test_records_that_were_broken_at_the_width_are_put_together() -> None:
    """A terminal of 60 columns breaks within words; each kind of message fills its line and goes on in the next."""
    whole = [
        f"gpu1:{n}:{n} [0] NCCL INFO {kind} the rest of it is long enough to need one more line"
        for n, kind in enumerate(("Bootstrap", "Channel", "Trees", "Connected"), 100)
    ]
    broken = [part for line in whole for part in (line[:60], line[60:])]
    found = unwrapped(pl.Series(broken), (1,)).to_list()
    assert found == [part for line in whole for part in (line, "")]
    assert unwrapped(pl.Series(broken[:4]), (1,)).to_list() == broken[:4]  # two kinds may be chance


def test_words_that_were_kept_whole_get_their_blank_back() -> None:
    heads = [
        f"gpu1:{n}:{n} [0] NCCL INFO {kind} "
        for n, kind in enumerate(("Bootstrap", "Channel", "Trees", "Connected"), 100)
    ]
    broken, whole = [], []
    for n, head in enumerate(heads):
        first = head + "x" * (64 - n - len(head))
        broken += [first, "somewhat-longer-word and more"]
        whole += [first + " somewhat-longer-word and more", ""]
    assert unwrapped(pl.Series(broken), (1,)).to_list() == whole
