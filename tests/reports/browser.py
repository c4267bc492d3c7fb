"""The Chromium that is installed, driven by Playwright. As a program it takes a picture of a section of a report:

python tests/reports/browser.py report.html player.png --section player --step 43
"""

import argparse
import contextlib
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@contextlib.contextmanager
def started():
    """A browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--section", help="default: the whole page")
    parser.add_argument("--step", type=int, default=0)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--dark", action="store_true")
    given = parser.parse_args()
    with started() as browser:
        size = {"width": given.width, "height": 900}
        page = browser.new_context(viewport=size, color_scheme="dark" if given.dark else "light").new_page()
        page.goto(f"{given.report.resolve().as_uri()}#step-{given.step}")
        page.wait_for_selector(".js-plotly-plot, .map")
        page.wait_for_timeout(1000)  # for the heat
        if given.section is None:
            page.screenshot(path=given.picture, full_page=True)
        else:
            page.add_style_tag(content=".chosen { position: static; }")
            page.locator(f"#{given.section}").screenshot(path=given.picture)


if __name__ == "__main__":
    main()
