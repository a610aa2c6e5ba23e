"""Makes the pictures of reports in README.md and the tour: ``python docs/picture.py [PATH...]``.

Needs selenium, Chromium and chromedriver. Without paths it draws a bundled recording in which one rank is late
(docs/report.png), and a log of ranks that hang (docs/hang.png).
"""

from __future__ import annotations

import base64
import shutil
import sys
import tempfile
import time
from pathlib import Path

import nccl_insight

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "fixtures" / "traces" / "gloo_late_rank2"
TARGET = ROOT / "docs" / "report.png"
HANG = ROOT / "fixtures" / "triage" / "two-late-ranks-old-torch" / "run.log"
HANG_TARGET = ROOT / "docs" / "hang.png"
WIDTH, HEIGHT = 1180, 1240
# What the README shows: the first screen, then the figure that answers.
SHOWN = """
document.querySelectorAll('#main section').forEach(s => {
  if (s.querySelector('#findings, #environment, #gaps, #provenance')) s.remove(); });
document.querySelectorAll('figure').forEach(f => { if (!f.querySelector('#fig-waits, #fig-node')) f.remove(); });
"""


def picture(paths: list[Path], target: Path, height: int = HEIGHT) -> None:
    """The first screen of the report of the paths as a PNG."""
    from selenium import webdriver

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        nccl_insight.analyze(paths).to_html(page)
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
        for flag in (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/p",
        ):
            options.add_argument(flag)
        browser = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
        )
        try:
            size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.get(page.as_uri())
            browser.execute_script(SHOWN)
            time.sleep(1)
            shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
            target.write_bytes(base64.b64decode(shot["data"]))
        finally:
            browser.quit()


if __name__ == "__main__":
    if sys.argv[1:]:
        picture([Path(p) for p in sys.argv[1:]], TARGET)
    else:
        picture([SAMPLE], TARGET)
        picture([HANG], HANG_TARGET, 720)
