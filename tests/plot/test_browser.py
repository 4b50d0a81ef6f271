"""The page of `elmo plot senses` in a real browser, headless Chromium: `make test-browser`."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import CHROMIUM, NO_CHROMIUM

from elmo_cli.analysis.query import Occurrence
from elmo_cli.plot.token_plot import PlottedTokens, write_tokens

SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--window-size=1000,800",
    "--dump-dom",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # requests to the network fail …
    "--enable-logging=stderr",  # … and failures are logged
    "--virtual-time-budget=60000",
)
# Move the mouse to each point, once everything is drawn; then write down what the page shows.
VISIT = """<script type="module">
const wait = ms => new Promise(resolve => setTimeout(resolve, ms))
while (!window.Bokeh?.documents[0]?.is_idle) await wait(50)
const view = Bokeh.index.roots[0], found = {title: document.title, points: []}
const shown = root => [...root.querySelectorAll("*")].map(one =>
  (one.matches(".bk-Tooltip") ? one.shadowRoot.textContent + one.textContent : "")
  + (one.shadowRoot ? shown(one.shadowRoot) : "")).join("")
const move = (x, y) => {
  const box = view.canvas.el.getBoundingClientRect()
  const at = {clientX: box.left + x, clientY: box.top + y, bubbles: true, composed: true}
  const pointer = {pointerType: "mouse", isPrimary: true, ...at}
  for (const type of ["pointerover", "pointermove"])
    view.canvas.events_el.dispatchEvent(new PointerEvent(type, pointer))
}
for (const {data_source: {data}} of view.model.renderers)
  for (let i = 0; i < data.x.length; i++) {
    move(2, 2)
    await wait(200)
    move(view.frame.x_scale.compute(data.x[i]), view.frame.y_scale.compute(data.y[i]))
    await wait(200)
    found.points.push([data.x[i], data.y[i], shown(document)])
  }
const pre = document.body.appendChild(document.createElement("pre"))
pre.textContent = JSON.stringify(found)
</script>"""
ATTACK = "</script><script>console.error(1)</script>"
TEX = "$$\\frac{1}{2}$$"
SENTENCES = [
    ("They", "play", "ball", "&amp;", "<b>"),
    (ATTACK, "play", "<img src=x onerror=console.error(2)>"),
    ("@group", "Play", TEX, "日"),
]


def visit(page: Path) -> tuple[dict[str, Any], list[str]]:
    """What the page shows, and what the console says, without the greeting of Bokeh."""
    copy = page.with_name("copy.html")
    copy.write_text(page.read_text("utf-8") + VISIT, "utf-8")
    words = [
        str(CHROMIUM),
        *SWITCHES,
        f"--user-data-dir={page.with_name('profile')}",
        copy.as_uri(),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    (content,) = re.findall(r"<pre>(.*)</pre>", done.stdout, re.S)
    return json.loads(unescape(content)), re.findall(r'CONSOLE[^"]*"(?!\[bokeh).*', done.stderr)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
def test_the_mouse_shows_sentences_as_text(tmp_path: Path) -> None:
    """Nothing of a sentence is run, no formula is read, and nothing is loaded or reported."""
    tokens = [Occurrence(number, 1, sentence) for number, sentence in enumerate(SENTENCES)]
    vectors = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    title = f"“{ATTACK}” {TEX}"[:60]
    groups = [ATTACK, ATTACK, f"x {TEX}"]
    write_tokens(PlottedTokens(title, tokens, vectors, groups), tmp_path / "a.html")
    page, complaints = visit(tmp_path / "a.html")
    assert complaints == []
    assert page["title"] == title
    assert len({(x, y) for x, y, _ in page["points"]}) == len(SENTENCES)
    for number, (_, _, text) in enumerate(page["points"]):
        shown = " ".join(text.split())
        assert " ".join(SENTENCES[number]) in shown
        assert shown.endswith(f"{groups[number]}, {number}:1")
