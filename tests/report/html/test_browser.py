"""The HTML report in a real browser, opened from file://.

Needs Chromium with chromedriver and selenium; the accessibility check also needs axe-core, whose
``axe.min.js`` the environment variable NCCL_INSIGHT_AXE names.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nccl_insight.engine.compare import compare
from nccl_insight.report import html, html_diff, markdown
from nccl_insight.share import api
from tests import pages
from tests import render_samples as samples
from tests.hostile import PAYLOADS
from tests.report.html_pages import hostile_run
from tests.runs import HEALTHY, TINY_SHM

pytestmark = pytest.mark.browser


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = Path(os.environ.get("NCCL_INSIGHT_AXE", "/nonexistent"))
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if not CHROMIUM or not DRIVER:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder = tmp_path_factory.mktemp("reports")

    def write(name: str, js: html.JsMode = "inline") -> Path:
        path = folder / f"{name}-{js}.html"
        if not path.exists():
            path.write_text(pages.render(*samples.ALL[name](), js=js), encoding="utf-8")
        return path

    return write


def _open(browser: Any, path: Path, anchor: str = "", *, width: int = 1280, dark: bool = False) -> None:
    browser.get_log("browser")
    browser.get_log("performance")
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get("about:blank")
    browser.get(path.as_uri() + anchor)
    _loaded(browser)


def _loaded(browser: Any) -> None:
    """Waits for the whole page: on a busy machine the driver hands over a page that is still being parsed."""
    whole = "return location.protocol === 'file:' && document.readyState === 'complete'"
    deadline = time.monotonic() + 60
    while not browser.execute_script(whole):
        assert time.monotonic() < deadline, "the page did not load"
        time.sleep(0.05)


def _requests(browser: Any) -> list[str]:
    """Addresses that a page of ours asked for, without the file itself and data or blob addresses."""
    urls = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        ours = str(message["params"].get("documentURL", "")).startswith("file:")  # not the browser's own first page
        if message["method"] == "Network.requestWillBeSent" and ours:
            urls.append(message["params"]["request"]["url"])
    return [u for u in urls if not u.startswith(("file:", "data:", "blob:", "about:"))]


def _complaints(browser: Any) -> list[str]:
    return [e["message"] for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]


def _draw_all(browser: Any) -> int:
    """Scrolls every plot into view and waits until all are drawn; how many there are."""
    count = browser.execute_script("return document.querySelectorAll('.plot').length")
    deadline = time.monotonic() + 60
    scroll = "const p = document.querySelector('.plot:not([data-drawn])');"
    scroll += "if (p) p.closest('figure').scrollIntoView({behavior: 'instant'}); return p === null"
    while not browser.execute_script(scroll) and time.monotonic() < deadline:
        time.sleep(0.05)
    drawn = "return document.querySelectorAll('.plot[data-drawn] .main-svg:first-child').length"
    assert browser.execute_script(drawn) >= count
    hidden = "return [...document.querySelectorAll('.plot')].filter(p => { const a = p.getBoundingClientRect(),"
    hidden += " b = p.closest('figure').getBoundingClientRect();"
    hidden += " return a.height < 100 || a.bottom > b.bottom || a.right > b.right; })"
    assert browser.execute_script(hidden + ".map(p => p.id)") == [], "charts that their box cuts off"
    return int(count)


def _axe(browser: Any) -> None:
    """No serious violation in the open page; checks nothing where axe-core is not at hand."""
    if not AXE.is_file():
        return
    browser.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    browser.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    result = browser.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations))"
    )
    serious = [
        f"{v['id']} ({v['impact']}): {n['html'][:200]} {n['failureSummary'][:200]}"
        for v in result
        if v["impact"] in ("serious", "critical")
        for n in v["nodes"][:3]
    ]
    assert serious == []


@pytest.mark.parametrize("name", sorted(samples.ALL))
def test_opens_without_network_or_complaint_and_draws_every_figure(
    browser: Any, report: Callable[..., Path], name: str
) -> None:
    _open(browser, report(name))
    drawn = _draw_all(browser)
    still = browser.execute_script("return document.querySelectorAll('svg.draw').length")
    assert drawn >= 2
    assert drawn + still >= 7
    assert _requests(browser) == []
    assert _complaints(browser) == []


def test_the_comparison_page_loads_nothing_and_draws(browser: Any, tmp_path: Path) -> None:
    (good, good_run), (bad, bad_run) = samples.healthy(), samples.failing()
    path = tmp_path / "diff.html"
    path.write_text(html_diff.render(compare(good_run, bad_run, good, bad)), encoding="utf-8")
    _open(browser, path)
    assert _draw_all(browser) == 1
    assert _requests(browser) == []
    assert _complaints(browser) == []
    _axe(browser)


def test_theme_follows_the_system_and_the_toggle_survives_a_reload(browser: Any, report: Callable[..., Path]) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    _open(browser, report("failing"), dark=True)
    browser.execute_script("localStorage.clear()")
    browser.refresh()
    _loaded(browser)
    dark = browser.execute_script(background)
    _open(browser, report("failing"))
    light = browser.execute_script(background)
    assert light != dark
    _draw_all(browser)
    toggle = browser.find_element("id", "theme")
    assert toggle.get_attribute("aria-pressed") == "false"
    browser.execute_script("scrollTo(0, 0)")
    toggle.click()
    assert browser.execute_script(background) == dark
    ink = "return getComputedStyle(document.querySelector('#plot-ranks .xtick text')).fill"
    assert browser.execute_script(ink) == "rgb(231, 235, 243)", "charts follow the theme"
    browser.refresh()
    _loaded(browser)
    assert browser.execute_script(background) == dark
    assert browser.find_element("id", "theme").get_attribute("aria-pressed") == "true"
    browser.execute_script("localStorage.clear()")
    assert _complaints(browser) == []


def test_a_refused_storage_does_not_break_the_toggle(browser: Any, report: Callable[..., Path]) -> None:
    _open(browser, report("healthy"))
    refuse = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('refused'); }})"
    browser.execute_script(refuse)
    before = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    browser.find_element("id", "theme").click()
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") != before


def test_an_anchor_leads_to_its_finding(browser: Any, report: Callable[..., Path]) -> None:
    _open(browser, report("failing"), "#NI210-1")
    time.sleep(0.8)
    top = browser.execute_script("return document.getElementById('NI210-1').getBoundingClientRect().top")
    assert 0 <= top < 200
    assert browser.execute_script("return document.querySelector(':target').id") == "NI210-1"


def test_copy_button_gives_the_finding_as_markdown(browser: Any, report: Callable[..., Path]) -> None:
    _open(browser, report("failing"))
    browser.execute_script(
        "window.caught = null; const keep = text => { window.caught = text; return Promise.resolve(); };"
        "document.addEventListener('copy', () => keep(document.activeElement.value));"
        "if (navigator.clipboard) navigator.clipboard.writeText = keep;"
    )
    button = browser.find_element("css selector", "button[data-copy='NI223-1']")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    time.sleep(0.5)
    button.click()
    time.sleep(0.2)
    assert browser.execute_script("return window.caught") == markdown.finding(samples.failing()[0].findings[0])
    assert button.find_element("tag name", "span").text == "Copied"


def test_a_select_box_switches_the_figure(browser: Any, report: Callable[..., Path]) -> None:
    _open(browser, report("failing"))
    _draw_all(browser)
    shown = "return document.getElementById('plot-ranks').data.map(t => t.visible !== false)"
    before = browser.execute_script(shown)
    choose = (
        "const s = document.querySelector('select[data-figure=' + arguments[0] + ']'); s.value = '1';"
        "s.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    browser.execute_script(choose, "ranks")
    after = browser.execute_script(shown)
    assert before != after
    tiles = "return [...document.querySelectorAll('[data-c]')].map(t => t.getAttribute('class'))"
    by_findings = browser.execute_script(tiles)
    browser.execute_script(choose, "cluster")
    by_class = browser.execute_script(tiles)
    assert "tile t-err" in by_findings
    assert sorted(set(by_class)) == ["tile t-0", "tile t-1"]


def test_a_finding_marks_its_ranks_in_every_figure(browser: Any, report: Callable[..., Path]) -> None:
    _open(browser, report("failing"))
    _draw_all(browser)
    marked = "return [...document.querySelectorAll('.lit[data-r]:not([data-h])')].map(e => e.getAttribute('data-r'))"
    bands = "return (document.getElementById('plot-ranks').layout.shapes || []).length"
    assert browser.execute_script(marked) == []
    before = browser.execute_script(bands)
    button = browser.find_element("css selector", "button[data-mark='NI223-1']")
    browser.execute_script("arguments[0].click()", button)
    lit = browser.execute_script(marked)
    assert lit
    assert all({"40", "41"} & set(ranks.split()) for ranks in lit)
    assert browser.execute_script(bands) == before + 2
    assert button.get_attribute("aria-pressed") == "true"
    browser.execute_script("arguments[0].click()", button)
    assert browser.execute_script(marked) == []
    assert browser.execute_script(bands) == before
    assert _complaints(browser) == []


def test_findings_can_be_narrowed_and_lead_to_their_figures(browser: Any, report: Callable[..., Path]) -> None:
    _open(browser, report("failing"))
    cards = "return [...document.querySelectorAll('article.finding')].filter(c => !c.hidden).map(c => c.id)"
    type_in = (
        "const f = document.getElementById(arguments[0]); f.value = arguments[1];"
        "f.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    every = browser.execute_script(cards)
    browser.execute_script(type_in, "f-rank", "41")
    by_rank = browser.execute_script(cards)
    assert "NI223-1" in by_rank
    assert len(by_rank) < len(every)
    browser.execute_script(type_in, "f-rank", "")
    browser.execute_script(type_in, "f-words", "no finding has these words")
    assert browser.execute_script(cards) == []
    assert browser.execute_script("return document.getElementById('f-count').textContent") == (
        f"0 of {len(every)} shown"
    )
    browser.execute_script(type_in, "f-words", "")
    assert browser.execute_script(cards) == every
    link = browser.find_element("css selector", "#NI223-1 .shown a")
    figure = link.get_attribute("href").rpartition("#")[2]
    back = f"document.getElementById('{figure}').closest('figure').querySelector('a[href=\"#NI223-1\"]')"
    assert browser.execute_script(f"return {back} !== null")


def test_without_scripts_everything_is_there(browser: Any, report: Callable[..., Path]) -> None:
    path = report("failing")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        _open(browser, path)
        body = browser.find_element("tag name", "body").text
        for part in (
            "FAIL",
            "Queue pair set-up to 10.1.7.23 timed out on 2 ranks",
            "Queue pair set-up",
            "Next step:",
            "Table: Connected pairs",
        ):
            assert part in body
        assert not browser.find_element("id", "theme").is_displayed()
        assert not browser.find_element("css selector", "button[data-copy='NI223-1']").is_displayed()
        assert browser.find_element("css selector", "figure svg.draw").is_displayed()
        assert not browser.find_element("id", "plot-ranks").is_displayed()
        summary = browser.find_element("css selector", "figure details summary")
        summary.send_keys("\ue007")
        assert "NET over TCP" in browser.find_element("css selector", "figure details table").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("name", ["failing", "traced"])
def test_labels_below_a_chart_do_not_run_into_each_other(browser: Any, report: Callable[..., Path], name: str) -> None:
    _open(browser, report(name), width=390)
    _draw_all(browser)
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('.plot')].map(p => [...p.querySelectorAll('.xtick text')]"
        ".map(t => { const b = t.getBoundingClientRect(); return [b.left, b.right, t.textContent]; })"
        ".sort((a, b) => a[0] - b[0]))"
    )
    assert sum(map(len, boxes)) > 5
    for labels in boxes:
        for (_, right, before), (left, _, after) in itertools.pairwise(labels):
            assert left > right, f"{before!r} and {after!r}"


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 2200])
@pytest.mark.parametrize("name", ["failing", "traced"])
def test_no_sideways_scrolling_of_the_page(browser: Any, report: Callable[..., Path], name: str, width: int) -> None:
    """320 pixels is what 400 % zoom leaves of a 1,280 pixel window."""
    _open(browser, report(name), width=width)
    _draw_all(browser)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["failing", "traced"])
def test_evidence_leaves_room_for_its_text_on_a_phone(browser: Any, report: Callable[..., Path], name: str) -> None:
    """A long path beside the text once took the whole row."""
    _open(browser, report(name), width=390)
    browser.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    widths = browser.execute_script(
        "return [...document.querySelectorAll('.log tr.hit td')].map(e => e.getBoundingClientRect().width)"
    )
    assert widths
    assert min(widths) >= 200


def test_the_keyboard_reaches_everything_and_the_focus_is_visible(browser: Any, report: Callable[..., Path]) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    _open(browser, report("failing"))
    seen, outlines = [], []
    for _ in range(40):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        active = browser.switch_to.active_element
        seen.append(active.get_attribute("data-copy") or active.get_attribute("id") or active.text)
        outlines.append(active.value_of_css_property("outline-style"))
    assert seen[0] == "Skip to the verdict"
    assert {"Findings", "all", "theme", "NI223-1", "NI102-1"} <= set(seen)
    assert set(outlines) == {"solid"}


def test_printing_opens_the_evidence_and_nothing_else(browser: Any, tmp_path: Path) -> None:
    run = api.load(TINY_SHM)
    path = tmp_path / "shm.html"
    path.write_text(pages.render(api.analyze(run), run), encoding="utf-8")
    _open(browser, path, dark=True)
    background = "return getComputedStyle(document.body).backgroundColor"
    dark = browser.execute_script(background)
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    told = "return [...document.querySelectorAll('details')].map(d => [d.open, !!d.closest('.finding')])"
    details = browser.execute_script(told)
    assert any(inside for _, inside in details)
    assert all(open_ is inside for open_, inside in details)
    assert browser.execute_script(background) != dark, "paper is white"
    browser.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert not browser.execute_script("return [...document.querySelectorAll('details')].some(d => d.open)")
    assert browser.execute_script(background) == dark


@pytest.mark.parametrize("js", ["inline", "none"])
@pytest.mark.parametrize("paper", [(8.27, 11.69), (8.5, 11)], ids=["A4", "letter"])
def test_a_healthy_report_of_16_ranks_prints_on_two_pages(
    browser: Any, tmp_path: Path, js: html.JsMode, paper: tuple[float, float]
) -> None:
    run = api.load(HEALTHY)
    path = tmp_path / "healthy.html"
    path.write_text(pages.render(api.analyze(run), run, js=js), encoding="utf-8")
    _open(browser, path)
    size = {"paperWidth": paper[0], "paperHeight": paper[1], "printBackground": True}
    data = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", size)["data"])
    assert len(re.findall(rb"/Type\s*/Page\b", data)) in (1, 2)


def test_a_headline_of_long_words_stays_on_a_phone(browser: Any, tmp_path: Path) -> None:
    analysis, run = samples.failing()
    path = tmp_path / "long.html"
    long = dataclasses.replace(analysis, headline="Names changed: " + ",".join(f"mlx5_{k}" for k in range(40)))
    path.write_text(pages.render(long, run, js="none"), encoding="utf-8")
    _open(browser, path, width=390)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


def test_a_long_path_above_evidence_breaks_on_a_phone(browser: Any, report: Callable[..., Path]) -> None:
    _open(browser, report("failing"), width=390)
    browser.execute_script(
        "document.querySelectorAll('details').forEach(d => { d.open = true; });"
        "document.querySelectorAll('.log caption').forEach(c => { c.textContent = '/data/' + 'x'.repeat(200); })"
    )
    over = browser.execute_script(
        "return [...document.querySelectorAll('.log:has(caption)')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert over
    assert max(over) <= 0


def test_words_beside_a_colored_box_are_as_bright_as_others(browser: Any, report: Callable[..., Path]) -> None:
    """The legend of ranks that are behind: only the word inside a cell is dark on it."""
    _open(browser, report("failing"), dark=True)
    drawn = (
        '<svg class=draw><rect class="cell late"/><text class="t s">a</text>'
        '<rect class="cell late"/><text class="t c b">b</text><g><text class="t s">c</text></g></svg>'
    )
    beside, inside, other = browser.execute_script(
        "document.body.insertAdjacentHTML('beforeend', arguments[0]);"
        "return [...document.querySelectorAll('body > svg:last-child text')].map(e => getComputedStyle(e).fill)",
        drawn,
    )
    assert beside == other
    assert inside != other


@pytest.mark.parametrize("js", ["inline", "none"])
def test_hostile_text_runs_nothing_and_asks_for_nothing(browser: Any, tmp_path: Path, js: html.JsMode) -> None:
    path = tmp_path / "hostile.html"
    # A page with plotly takes seconds to open: several payloads share one there.
    together = [" ".join(PAYLOADS[first::6]) for first in range(6)]
    for payload in together if js == "inline" else PAYLOADS:
        path.write_text(pages.render(*hostile_run(payload), js=js, command=payload), encoding="utf-8")
        _open(browser, path)
        if js == "inline":
            browser.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true; })")
            browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
        assert browser.execute_script("return window.pwned === undefined"), payload[:80]
        assert browser.execute_script("return document.querySelectorAll('iframe,object,embed,form,img').length") == 0
        assert _requests(browser) == [], payload[:80]
        assert _complaints(browser) == [], payload[:80]


@pytest.mark.part(2)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", sorted(samples.ALL))
def test_axe_finds_no_serious_violation(browser: Any, report: Callable[..., Path], name: str, dark: bool) -> None:
    if not AXE.is_file():
        pytest.skip("NCCL_INSIGHT_AXE does not name axe.min.js of axe-core")
    _open(browser, report(name), dark=dark)
    _draw_all(browser)
    _axe(browser)
