"""Static figures of the report: the node and how far each rank got, without scripts."""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree

import nccl_insight
from tests import pages
from tests import render_samples as samples
from tests.pages import build
from tests.runs import HEALTHY

STEPS = ("launched", "bootstrap", "init started", "init done", "connected", "first call", "last call", "closed")


def drawings(path: Path) -> dict[str, ElementTree.Element]:
    run = nccl_insight.load([path])
    figures = build(nccl_insight.analyze(run), run)
    return {f.id: ElementTree.fromstring(f.svg) for f in figures if f.svg}


def words(drawing: ElementTree.Element) -> list[str]:
    return [t.text or "" for t in drawing.iter("text")]


def test_the_node_shows_gpus_ranks_and_nics_by_name() -> None:
    node = drawings(HEALTHY)["node"]
    said = words(node)
    assert [w for w in said if w.startswith("rank ")] == [f"rank {n}" for n in range(8)]
    assert sum(w.startswith("mlx5_") for w in said) == 8
    lines = [e for e in node.iter("line") if "net" in e.attrib["class"]]
    assert len(lines) == 8  # each GPU uses the one NIC of its own


def test_ranks_that_all_got_equally_far_need_no_picture() -> None:
    assert "journey" not in drawings(HEALTHY)


def test_a_rank_that_is_behind_is_marked(tmp_path: Path) -> None:
    init = "ncclCommInitRank comm 0x{0} rank {0} nranks 2 cudaDev {0} nvmlDev {0} busId {0}b000 commId 0xabc - Init "
    lines = [f"h:10{r}:10{r} [{r}] NCCL INFO " + init.format(r) + "START" for r in range(2)]
    lines.append("h:100:100 [0] NCCL INFO " + init.format(0) + "COMPLETE")
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    journey = drawings(tmp_path / "run.log")["journey"]
    assert "silent" in words(journey)
    behind = [e for e in journey.iter("rect") if e.attrib["class"] == "cell behind"]
    assert len(behind) == 2  # bootstrap and end of init of rank 1


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    text = HEALTHY.read_text().replace("node00", "<b>x</b>&\"'")
    (tmp_path / "run.log").write_text(text)
    run = nccl_insight.load([tmp_path / "run.log"])
    page = pages.render(nccl_insight.analyze(run), run, js="none")
    assert "<b>x</b>" not in page


def test_pictures_are_there_without_scripts_and_sizes_hold() -> None:
    run = nccl_insight.load([HEALTHY])
    analysis = nccl_insight.analyze(run)
    plain = pages.render(analysis, run, js="none")
    assert plain.count('<svg class="draw') == 7
    assert len(plain.encode()) < 250_000
    assert len(pages.render(analysis, run, js="inline").encode()) < 1_300_000


def test_sizes_hold_at_a_thousand_ranks() -> None:
    analysis, run = samples.thousand()
    assert len(pages.render(analysis, run, js="none").encode()) < 400_000
    assert len(pages.render(analysis, run, js="inline").encode()) < 1_300_000


def test_the_chart_library_is_the_one_that_was_looked_at() -> None:
    assets = resources.files("nccl_insight.report.html").joinpath("assets")
    code = assets.joinpath("plotly-charts.min.js").read_bytes()
    assert re.search(rb"plotly\.js \(scatter, bar, box, heatmap - minified\) v4\.1\.1", code[:200])
    assert hashlib.sha256(code).hexdigest() == "9877bb755c284053042d921663756ffdd11bab3ff49ab3b241e66cdeca3be66e"
    url, integrity = assets.joinpath("plotly-cdn.txt").read_text().split()
    assert url == "https://cdn.plot.ly/plotly-4.1.1.min.js"
    assert integrity == "sha256-O24V1F27f8pb0glCkelh3cVHLNiHAJ5gCaVtq2aNch8="
    assert "MIT" in assets.joinpath("plotly-charts.LICENSE").read_text()


def test_a_child_beyond_all_ranks_is_no_child(tmp_path: Path) -> None:
    lines = []
    for rank, child in ((0, 1), (1, 2**32 - 2)):
        head = f"h{rank}:10{rank}:10{rank} [0] NCCL INFO "
        lines.append(
            f"{head}ncclCommInitRank comm 0x1 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7 - "
            "Init START"
        )
        lines.append(f"{head}Trees [0] {child}/-1/-1->{rank}->{rank - 1}")
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    run = nccl_insight.load([tmp_path / "run.log"])
    (figure,) = (f for f in build(nccl_insight.analyze(run), run) if f.id == "trees")
    assert [row[2:4] for row in figure.table.rows] == [("0", "1")]
