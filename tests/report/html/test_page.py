# ruff: noqa: E501 - markup is long
"""The HTML report as text: what it says, that it is safe, small, complete and always the same."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import itertools
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nccl_insight.base.model import Analysis, Coverage, InputInfo, Job, NotJudged
from nccl_insight.report import json_
from nccl_insight.report.figures.base import Figure, listing
from nccl_insight.report.html.page import asset, figure_data
from nccl_insight.share import api
from nccl_insight.tables.run import build_run
from tests import pages
from tests import render_samples as samples
from tests.hostile import PAYLOADS
from tests.report.html_pages import Page, hostile_run


def _page(name: str, **options: Any) -> Page:
    return Page(_html(name, **options))


def _html(name: str, **options: Any) -> str:
    analysis, run = samples.ALL[name]()
    return pages.render(analysis, run, **{"js": "none", **options})


def _policy(text: str) -> dict[str, list[str]]:
    match = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert match
    rules = (rule.split() for rule in match[1].replace("&#x27;", "'").split("; "))
    return {rule[0]: rule[1:] for rule in rules}


@pytest.mark.parametrize("name", sorted(samples.ALL))
@pytest.mark.parametrize("js", ["inline", "none"])
def test_sizes_stay_within_the_budget(name: str, js: str) -> None:
    size = len(_html(name, js=js).encode())
    assert size <= (1_300_000 if js == "inline" else 300_000 if name == "thousand" else 250_000)


@pytest.mark.parametrize("name", sorted(samples.ALL))
def test_same_input_gives_the_same_bytes(name: str) -> None:
    assert _html(name, js="cdn") == _html(name, js="cdn")


def test_first_screen_has_verdict_top_findings_with_next_step_job_and_coverage() -> None:
    text = _page("failing").text
    first = text[: text.index("Other findings of this report")]
    assert "FAIL Queue pair set-up to 10.1.7.23 timed out on 2 ranks" in first
    assert "64 ranks on 8 nodes, NCCL 2.27.3 and 2.26.2, 61,204 lines (99.0% of 58,000 NCCL lines understood)" in first
    titles = [
        "Queue pair set-up to 10.1.7.23",
        "Two NCCL versions in one communicator",
        "16 inter-node connections use TCP",
    ]
    places = [first.index(t) for t in titles]
    assert places == sorted(places)
    assert "Do: Run ibping -G 0xb8599f03001a2b3c" in first
    assert "62 ranks lost a connection" not in first, "a cascade is not what to do first"
    assert re.search(
        r"NCCL 2\.27\.3, 2\.26\.2 CUDA 12\.8 Driver 570\.86\.15 Ranks 64 Nodes 8 GPUs 64 Networks IB, Socket", first
    )
    assert "57,400 understood" in first
    assert "Not redacted" in first


def test_every_finding_shows_all_of_its_parts() -> None:
    page = _page("failing")
    assert [a["id"] for t, a in page.tags if t == "article"] == ["NI223-1", "NI102-1", "NI210-1", "NI501-1"]
    for part in (
        "Error NI223 ib-qp-timeout action isolate, take the node or link out confidence high kind stops the job",
        "2 ranks: 40-41; host gpu-node-05",
        "Observed errno 110 after 20.4 s Expected a connected queue pair in under 1 s",
        "job-4711/all.log:214,215",
        "The HCA retried the address handshake until its timeout.",
        "Follows from ib-qp-timeout: look there first.",
        "confidence medium",
    ):
        assert part in page.text


def test_evidence_stands_among_the_lines_around_it() -> None:
    page = _page("failing")
    assert re.search(
        r"212 gpu-node-05\S+ \[4\] NCCL INFO Channel .* 213 .* 214 evidence: gpu-node-05\S+ \[0\] misc/ibvwrap\.cc:262 NCCL WARN",
        page.text,
    )
    assert "217 gpu-node-05" in page.text
    assert "218 gpu-node-05:24140:24640 [2] NCCL INFO Channel 10/0" in page.text, "context of line 220"


def test_absence_is_shown_as_evidence() -> None:
    assert "searched 480 AllReduce kernels of 8 ranks" in _page("traced").text


def test_versions_list_the_odd_ones_first() -> None:
    text = _page("failing").text
    assert text.index("2.26.2 (differs)") < text.index("2.27.3 12.8 12080 (CUDA 12.8) nccl IB 0-31,40-63")


def test_settings_say_value_origin_default_and_what_is_unusual() -> None:
    text = _page("failing").text
    assert re.search(r"NCCL_IB_GID_INDEX 0 environment \S+ 1 process on gpu-node-02 2 different values", text)
    assert text.index("NCCL_IB_GID_INDEX 0") < text.index("NCCL_DEBUG INFO environment")


def test_what_was_not_analysed_is_listed() -> None:
    text = _page("failing").text
    assert (
        "no trace was given give a PyTorch profiler trace of the same job 2 exposed-communication, straggler-rank"
        in text
    )
    assert "NI106 env-deprecated" in text
    assert "known on this cluster 2027-01-01" in text
    assert "Bootstrap timings total # (create #, send #) 420" in text
    assert "3,200 lines of other programs and 4 torn lines" in text


def test_provenance_has_hash_command_version_and_redaction() -> None:
    text = _page("failing", command="nccl-insight analyze job --token=s3cret -o html=r.html").text
    assert "5f" * 32 in text
    assert "nccl-insight analyze job --token=*** -o html=r.html" in text
    assert "Tool nccl-insight 0.1.0 Grammar 9f2c4e1ab07d Schema version 1" in text


def test_machine_readable_copy_is_the_json_output() -> None:
    analysis, run = samples.failing()
    copy = dict(_page("failing").data("nccl-insight"))
    drawn = copy.pop("figures")
    assert copy == json.loads(json_.render(analysis))
    built = pages.build(analysis, run)
    assert [(f["id"], f["total"], len(f["rows"])) for f in drawn] == [
        (f.id, f.table.total, len(f.table.rows)) for f in built
    ]
    assert all(len(row) == len(f["columns"]) for f in drawn for row in f["rows"])


def test_a_huge_machine_readable_copy_is_shortened_and_says_so() -> None:
    many = tuple(
        dataclasses.replace(samples.finding(), ranks=tuple(range(1024)), anchor=f"NI223-{n}") for n in range(300)
    )
    hosts = tuple(f"node-{n}" for n in range(4096))
    gaps = tuple(NotJudged(f"name-{n}", "because " * 20, "how " * 20) for n in range(100))
    inputs = tuple(InputInfo(f"job/rank{n}.log", "nccl_log", 1, "0" * 64, 1) for n in range(4096))
    big = Analysis("findings", many, Job(hosts=hosts, nranks=4096), Coverage(), inputs, samples.TOOL, not_judged=gaps)
    text = pages.render(big, build_run({}), js="none")
    assert len(text.encode()) <= 400_000
    assert Page(text).data("nccl-insight")["shortened"] is True
    assert "and 4,046 more" in text
    assert "further finding" in text


@pytest.mark.parametrize("name", sorted(samples.ALL))
def test_document_structure_is_semantic(name: str) -> None:
    page = _page(name, js="inline")
    names = Counter(tag for tag, _ in page.tags)
    assert dict(page.tags)["html"]["lang"] == "en"
    assert names["h1"] == names["main"] == 1
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert names["caption"] == names["table"]
    assert all(attrs.get("scope") for tag, attrs in page.tags if tag == "th")
    ids = Counter(attrs["id"] for _, attrs in page.tags if "id" in attrs)
    assert max(ids.values()) == 1
    for tag, attrs in page.tags:
        href = attrs.get("href") or ""
        if tag in {"a", "use"} and href.startswith("#"):
            assert href[1:] in ids, f"{href} leads nowhere"
        assert not [key for key in attrs if key.startswith("on") or key == "style"]


def test_every_figure_has_a_sentence_and_a_table() -> None:
    for sample in samples.ALL.values():
        for figure in pages.build(*sample()):
            assert len(figure.summary) > 20
            assert figure.table.rows
            assert all(len(row) == len(figure.table.columns) for row in figure.table.rows)
            assert figure.table.total >= len(figure.table.rows) <= 50
            if figure.choices and figure.plot is not None:
                assert len(figure.masks) == len(figure.plot["data"])
                assert set(figure.masks) - {-1} == set(range(len(figure.choices)))


def test_figures_are_valid_for_plotly() -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    for sample in samples.ALL.values():
        for figure in pages.build(*sample()):
            assert (figure.plot is None) == bool(figure.svg)
            if figure.plot is None:
                continue
            graph_objects.Figure(figure.plot["data"], figure.plot["layout"])


def test_which_figures_a_run_gets() -> None:
    got = {name: [f.id for f in pages.build(*sample())] for name, sample in samples.ALL.items()}
    log = ["node", "cluster", "matrix", "rings", "trees", "nics", "ranks", "init", "calls"]
    assert got["failing"] == got["thousand"] == log
    assert got["healthy"] == [i for i in log if i != "cluster"], "a few nodes, all alike: no map"
    traces = ["steps", "timeline", "durations", "busbw", "excess"]
    assert [i for i in got["traced"] if i != "waits"] == [*(i for i in log if i not in ("nics", "cluster")), *traces]
    assert "waits" in got["traced"]


def test_figure_sentences_state_the_facts() -> None:
    said = {f.id: f.summary for f in pages.build(*samples.failing())}
    assert "8 nodes with 64 ranks in 2 classes of alike nodes" in said["cluster"]
    assert "findings name gpu-node-05" in said["cluster"]
    assert said["matrix"].startswith("96 rank-to-rank connections: 64 P2P (GPU memory)")
    assert "each crosses between nodes 8 times, the minimum for 8 nodes" in said["rings"]
    assert "initialization, s: ranks 32-39 (on gpu-node-05)" in said["ranks"]
    assert "the slowest, rank 34, took 3.54 s, most of it in connections" in said["init"]
    traced = {f.id: f.summary for f in pages.build(*samples.traced())}
    assert re.match(r"Rank 5 alone takes \d+\.\d+ ms more than its peers, the most of all", traced["excess"])
    assert "computation 66%, communication, exposed 9%" in traced["steps"]


def test_the_matrix_of_very_many_nodes_has_a_bounded_number_of_cells(tmp_path: Path) -> None:
    lines = []
    nodes = 600
    for rank in range(nodes):
        head = f"n{rank:03d}:10:10 [0] NCCL INFO "
        who = f"comm 0x{rank + 1:x}00 rank {rank} nranks {nodes} cudaDev 0 nvmlDev 0 busId 1000 commId 0xab"
        lines.append(f"{head}ncclCommInitRank {who} - Init COMPLETE")
        lines.append(f"{head}Channel 00/0 : {rank}[0] -> {(rank + 1) % nodes}[0] [send] via NET/IB/0")
    log = tmp_path / "wide.log"
    log.write_text("\n".join(lines) + "\n")
    run = api.load([str(log)])
    (matrix,) = (f for f in pages.build(api.analyze(run), run) if f.id == "matrix")
    assert matrix.plot is None
    (cells,) = re.findall(r'<path d="([^"]+)" class="k-host_rdma"', matrix.svg)
    # Ten neighbors share a cell: each group of them talks inside itself and to the next group.
    assert cells.count("M") == 2 * nodes // 10
    assert "10 neighbors per cell" in matrix.svg


def test_a_large_job_is_drawn_by_node() -> None:
    by_id = {f.id: f for f in pages.build(*samples.thousand())}
    matrix = by_id["matrix"]
    assert "inside each of 128 nodes" in matrix.svg
    assert "between 128 nodes, 2 neighbors per cell" in matrix.svg
    assert "inside, all 128 nodes are connected alike" in matrix.summary
    assert matrix.table.total > 50
    assert len(re.findall(r'<rect data-c="', by_id["cluster"].svg)) == 128
    page = pages.render(*samples.thousand(), js="none")
    assert len(page.encode()) < 400_000


def test_a_run_without_tables_still_gives_a_complete_page() -> None:
    text = pages.render(Analysis("not_judged", (), Job(), Coverage(), (), samples.TOOL), build_run({}), js="inline")
    page = Page(text)
    assert "NOT JUDGED" in page.text
    assert "neither healthy nor broken" in page.text
    assert len(text) < 100_000, "no chart library without charts"


@pytest.mark.parametrize("name", ["healthy", "failing", "traced"])
@pytest.mark.parametrize("seed", range(8))
def test_gaps_in_the_tables_never_stop_the_report(name: str, seed: int) -> None:
    """Columns without values, rows that miss some, rows that are gone: as damaged inputs give them."""
    analysis, run = samples.ALL[name]()
    chance = random.Random(seed)
    tables = {}
    for table, frame in run.tables.items():
        gaps = []
        for column, dtype in frame.schema.items():
            dice = chance.random()
            if dice < 0.12:
                gaps.append(pl.lit(None, dtype=dtype).alias(column))
            elif dice < 0.3:
                gaps.append(pl.when(pl.int_range(pl.len()) % 3 > 0).then(pl.col(column)).alias(column))
            elif dice < 0.36 and dtype.is_numeric():
                gaps.append((pl.col(column) * 0).alias(column))
        tables[table] = frame.gather_every(chance.choice((1, 1, 2, 20))).with_columns(gaps)
    Page(pages.render(analysis, build_run(tables), js="cdn"))


def test_policy_forbids_everything_but_the_scripts_of_this_file() -> None:
    text = _html("failing", js="inline")
    policy = _policy(text)
    assert policy["default-src"] == ["'none'"]
    assert policy["form-action"] == policy["base-uri"] == ["'none'"]
    assert "connect-src" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    (packed,) = re.findall(r'id="chart-library">(.*?)</script>', text, re.S)
    scripts.append(gzip.decompress(base64.b64decode(packed)).decode())
    hashes = ["'sha256-" + base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() + "'" for s in scripts]
    assert sorted(policy["script-src"]) == sorted(hashes)
    assert len(hashes) == 3
    without = _policy(_html("failing", js="none"))
    assert without["script-src"] == ["'none'"]
    assert all(source.startswith("'sha256-") for source in without["style-src"])


def test_cdn_variant_is_small_and_pins_the_library() -> None:
    text = _html("failing", js="cdn")
    assert len(text) < 400_000
    tag = re.search(
        r'<script src="(https://cdn\.plot\.ly/plotly-[0-9.]+\.min\.js)" integrity="sha256-[^"]+" crossorigin="anonymous">',
        text,
    )
    assert tag
    assert tag[1] in _policy(text)["script-src"]


def test_nothing_is_fetched_from_elsewhere() -> None:
    for name in samples.ALL:
        for tag, attrs in _page(name, js="inline").tags:
            for key in ("src", "srcset", "data", "poster", "action", "background"):
                assert key not in attrs, f"<{tag} {key}>"
            if tag == "link":
                assert (attrs["href"] or "").startswith("data:")


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_hostile_text_adds_no_element_and_no_attribute(payload: str) -> None:
    harmless = Page(pages.render(*hostile_run("harmless"), js="cdn", command="harmless"))
    text = pages.render(*hostile_run(payload), js="cdn", command=payload)
    text.encode()
    assert len(text) < 900_000
    page = Page(text)
    allowed = {tag for tag, _ in harmless.tags} | {"code"}
    assert {tag for tag, _ in page.tags} <= allowed
    executable = [attrs for attrs, _ in page.scripts if attrs.get("type") != "application/json"]
    assert len(executable) == 3
    known = {(tag, key) for tag, attrs in harmless.tags for key in attrs}
    assert {(tag, key) for tag, attrs in page.tags for key in attrs} <= known
    links = {attrs.get("href") or "" for tag, attrs in page.tags if tag == "a"}
    assert all(link.startswith(("#", "https://")) for link in links)
    for hidden in "\u202e\u2066\u200b\u2028\x1b\x00\x9b":
        assert hidden not in text
    for block in ("nccl-insight", "data-markdown", "data-figures"):
        page.data(block)


def test_a_hostile_log_leaves_no_executable_markup(tmp_path: Path) -> None:
    """The payloads in a log, through reading, rules and renderers: in host names, settings, warnings, foreign lines."""
    lines = []
    for number, payload in enumerate(PAYLOADS):
        short = payload.replace("\n", " ")
        host = re.sub(r"\s", "", short)[:200] or "h"
        lines += [
            f"{host}:{number}:{number} [0] NCCL INFO Bootstrap : Using eth0:10.0.0.{number}<0>",
            f"node:{number}:{number} [0] NCCL INFO NCCL_TOPO_FILE set by environment to {short}",
            f"node:{number}:{number} [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by peer {host}<1>",
            f"node:{number}:{number} [0] NCCL WARN {short}",
            f"node:{number}:{number} [0] NCCL INFO unheard of {short}",
            short,
        ]
    log = tmp_path / "<img src=x onerror=alert(1)>.log"
    log.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
    run = api.load([str(log)])
    analysis = api.analyze(run)
    assert analysis.findings
    text = pages.render(analysis, run, js="cdn", command=str(log))
    page = Page(text)
    assert not {"img", "iframe", "object", "embed", "form", "input", "base", "math", "mtext"} & {
        t for t, _ in page.tags
    }
    assert len([attrs for attrs, _ in page.scripts if attrs.get("type") != "application/json"]) <= 3
    assert not [key for _, attrs in page.tags for key in attrs if key.startswith("on") or key == "style"]
    assert not re.search("[\u202e\u2066\u200b\u2028\x1b\x00\x9b]", text)
    assert len(text.encode()) < 900_000


def test_figures_are_data_for_programs() -> None:
    figure = Figure("ranks", "Ranks\ncompared", "said", listing("Rank#|Host", [("0", "a")], "", 7))
    (data,) = figure_data([figure])
    assert (data["id"], data["title"], data["total"]) == ("ranks", "Ranks compared", 7)
    assert "\r" not in asset("report.js")
    assert figure_data([]) == []
