"""Every page of the built site, its links, and the search: `make test-browser`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest
from chromium import CHROMIUM, NO_CHROMIUM, Chromium

pytestmark = pytest.mark.browser
NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "word-senses.ipynb"
MOST_BYTES = 6_000_000
VIEWS = ((1280, "light"), (390, "dark"))
# What is typed into the search, and the beginning of the address of the page that explains it.
SEARCHES = {
    "silhouette": "guides/plots",
    "checksum": "reference/file-format",
    "--forget-sentences": "reference/commands/embed",
    "ElmoMix": "reference/python",
    "NeuroX": "guides/readers/",
}
RESULTS = (
    "[...document.querySelectorAll('#search-results li > a')].map(a => a.getAttribute('href'))"
)
_SEARCH_S = 20


class PageParser(HTMLParser):
    """Collects the anchors, the links and the loaded files of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif "src" in values:
            self.loaded.add(values["src"])
        elif tag == "link" and values.get("rel") in {"stylesheet", "icon"}:
            self.loaded.add(values["href"])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, PageParser]:
    """Each page of the site with what it contains."""
    parsed = {}
    for path in sorted(site.rglob("*.html")):
        parser = PageParser()
        parser.feed(path.read_text("utf-8"))
        parsed[path] = parser
    return parsed


@pytest.fixture(scope="module")
def browser(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    browser = Chromium(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def test_the_site_is_small(site: Path) -> None:
    n_bytes = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    assert n_bytes <= MOST_BYTES


def test_links_lead_to_pages_and_anchors(pages: dict[Path, PageParser]) -> None:
    dead = []
    for page, parsed in pages.items():
        for link in sorted(parsed.links):
            address = urlsplit(link)
            if address.scheme:
                continue
            target = page
            if address.path:
                target = (page.parent / unquote(address.path)).resolve()
            anchor = unquote(address.fragment)
            is_anchor_missing = anchor and target in pages and anchor not in pages[target].anchors
            if not target.exists() or is_anchor_missing:
                dead.append(f"{page.name}: {link}")
    assert dead == []


def test_pages_load_nothing_from_the_network(pages: dict[Path, PageParser]) -> None:
    for page, parsed in pages.items():
        for address in parsed.loaded:
            assert not address.startswith(("http:", "https:", "//")), (page, address)


def test_the_notebook_shows_what_the_build_computes(site: Path) -> None:
    """On GitHub, a notebook shows its stored output; on the site, that of the build."""
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    page = unescape((site / "tutorials" / "word-senses.html").read_text("utf-8"))
    n_outputs = 0
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if output["output_type"] == "stream":
                assert "".join(output["text"]) in page
                n_outputs += 1
    assert n_outputs > 3


def test_pages_open_without_errors_and_fit_the_window(
    pages: dict[Path, PageParser], browser: Chromium
) -> None:
    complaints = []
    for page in pages:
        for width, scheme in VIEWS:
            browser.show_as(width=width, scheme=scheme)
            browser.open(page.as_uri())
            page_width = browser.evaluate("document.documentElement.scrollWidth")
            found = browser.complaints()
            if page_width > width:
                found.append(f"is {page_width} pixels wide")
            complaints += [f"{page.name} at {width}: {complaint}" for complaint in found]
    assert complaints == []


@pytest.mark.parametrize("words", SEARCHES)
def test_the_search_finds_the_page_that_explains(words: str, site: Path, browser: Chromium) -> None:
    browser.open(f"{(site / 'search.html').as_uri()}?q={quote(words)}")
    results: list[str] = []
    is_finished = False
    end_s = time.monotonic() + _SEARCH_S
    while not is_finished and time.monotonic() < end_s:
        time.sleep(0.3)
        seen = browser.evaluate(RESULTS)
        is_finished = bool(seen) and seen == results
        results = seen
    assert any(result.startswith(SEARCHES[words]) for result in results[:3]), results
    assert browser.complaints() == []
