"""The documentation site, opened from disk in headless Chromium: its search works, and nothing is asked of another host."""

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import expect

from reports.browser import CHROMIUM, started
from test_docs import ROOT


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")
def test_search_works_from_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path)))
    wrong, requests = [], []
    with started() as browser:
        page = browser.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto((tmp_path / "index.html").as_uri())
        page.locator("input.md-search__input").click()
        page.keyboard.type("adjacency table")
        page.locator(".md-search-result__item h1", has_text="The algorithm").click()
        expect(page).to_have_title("The algorithm - hrac")
    assert wrong == []
    assert [url for url in requests if not url.startswith("file:")] == []
