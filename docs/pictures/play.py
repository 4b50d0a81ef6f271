"""Draw the picture of the README: *play* in 20 sentences, in layer 0 and in layer 2.

    python docs/pictures/play.py    # writes play-light.svg and play-dark.svg beside this file

The text is real text, so that it can be read aloud and searched. Positions are whole pixels: the
same on machines whose vectors differ by rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from elmo_cli import Embedder, load
from elmo_cli.plot.plane import principal_components, unit_vectors

FOLDER = Path(__file__).resolve().parent
TEXT = FOLDER.parents[1] / "examples" / "play.txt"  # a verb in the first half of its lines
WORD = "play"
LAYER = 2

WIDTH = 400
HEIGHT = 370
MARGIN = 22  # between the frame and the outermost points
FONT_SIZE = 13
LETTER_WIDTH = 0.6 * FONT_SIZE  # on average, of the widest of the usual fonts
RADIUS = 5
TITLES = ("layer 0: 20 times “play”, one point", "layer 2: two meanings, two groups")
ALT = (
    "Two plots of the vectors of the word play in 20 sentences. In layer 0, all of them are one "
    "point. In layer 2, they are two groups: on the left, plays at the theatre, such as Her play "
    "won a prize; on the right, the verb, as in The children play in the garden."
)


@dataclass(frozen=True, kw_only=True)
class Box:
    """A rectangle in pixels from the upper left corner of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def contains(self, other: Box) -> bool:
        """Whether another box is inside this one."""
        is_inside_across = self.left < other.left and other.right < self.right
        is_inside_down = self.top < other.top and other.bottom <= self.bottom
        return is_inside_across and is_inside_down

    def overlaps(self, other: Box) -> bool:
        """Whether another box has a point in common with this one."""
        overlaps_across = self.left < other.right and other.left < self.right
        overlaps_down = self.top < other.bottom and other.top < self.bottom
        return overlaps_across and overlaps_down


FRAME = Box(left=1, top=110, right=399, bottom=368)  # of layer 2
STRIP = Box(left=1, top=26, right=399, bottom=74)  # of layer 0


@dataclass(frozen=True)
class Theme:
    """Colors for one background: of text, frames, the verb and the noun."""

    text: str
    frame: str
    verb: str
    noun: str


THEMES = {
    "light": Theme(text="#1f2328", frame="#d1d9e0", verb="#0072b2", noun="#b84a00"),
    "dark": Theme(text="#f0f6fc", frame="#3d444d", verb="#56b4e9", noun="#e69f00"),
}
# The sentences that have a label, by their numbers, and the side of the point that it is on.
LABELS = {0: "left", 8: "above", 7: "below", 10: "right", 11: "right", 13: "right"}


@dataclass(frozen=True, kw_only=True)
class Label:
    """A sentence next to its point.

    Attributes:
        x, y: where the line of text begins or ends, which `anchor` states.
        anchor: "start" or "end".
    """

    text: str
    x: float
    y: float
    anchor: str
    color: str

    @property
    def box(self) -> Box:
        """The space that the text takes, estimated generously."""
        width = LETTER_WIDTH * len(self.text)
        left = self.x if self.anchor == "start" else self.x - width
        return Box(
            left=left,
            top=self.y - FONT_SIZE,
            right=left + width,
            bottom=self.y + 0.3 * FONT_SIZE,
        )


def word_vectors(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """The vectors of the word in each sentence: (layer, sentence, dim)."""
    arrays, _ = Embedder(load()).embed_batch(sentences)
    vectors = []
    for array, tokens in zip(arrays, sentences, strict=True):
        vectors.append(array[:, tokens.index(WORD)])
    return np.stack(vectors, axis=1)


def pixels(points: np.ndarray) -> list[tuple[int, int]]:
    """Positions in the frame of points on the plane, (sentence, 2); the verb is on the right."""
    if points[0, 0] < 0:
        points = points * (-1, 1)
    if points[10, 1] < 0:  # the sign of a component has no meaning
        points = points * (1, -1)
    lowest = points.min(axis=0)
    span = np.ptp(points, axis=0)
    across, up = ((points - lowest) / span).T
    width = FRAME.right - FRAME.left - 2 * MARGIN
    height = FRAME.bottom - FRAME.top - 2 * MARGIN
    xs = FRAME.left + MARGIN + across * width
    ys = FRAME.bottom - MARGIN - up * height
    return [(round(x), round(y)) for x, y in zip(xs, ys, strict=True)]


def as_written(tokens: Sequence[str]) -> str:
    """A sentence without the space before its last token."""
    return " ".join(tokens[:-1]) + tokens[-1]


def make_label(sentence: str, place: tuple[int, int], side: str, color: str) -> Label:
    """The label of a point, on one of its four sides."""
    x, y = place
    middle = y + 0.35 * FONT_SIZE
    gap = RADIUS + 5
    if side == "right":
        return Label(text=sentence, x=x + gap, y=middle, anchor="start", color=color)
    if side == "left":
        return Label(text=sentence, x=x - gap, y=middle, anchor="end", color=color)
    baseline = y - gap if side == "above" else y + gap + 0.7 * FONT_SIZE
    return Label(text=sentence, x=x + RADIUS, y=baseline, anchor="end", color=color)


def check_labels(labels: Sequence[Label], places: Sequence[tuple[int, int]]) -> None:
    """Raise a ValueError for a label across the frame, another label or a point."""
    point_boxes = []
    for x, y in places:
        box = Box(left=x - RADIUS, top=y - RADIUS, right=x + RADIUS, bottom=y + RADIUS)
        point_boxes.append(box)
    for number, label in enumerate(labels):
        if not FRAME.contains(label.box):
            raise ValueError(f"{label.text}: across the frame")
        others = [*point_boxes, *(other.box for other in labels[number + 1 :])]
        if any(label.box.overlaps(other) for other in others):
            raise ValueError(f"{label.text}: not enough space")


def draw(sentences: Sequence[Sequence[str]], places: list[tuple[int, int]], theme: Theme) -> str:
    """The picture as SVG."""
    n_verbs = len(sentences) // 2
    colors = [theme.verb] * n_verbs + [theme.noun] * (len(sentences) - n_verbs)
    labels = []
    for number, side in LABELS.items():
        sentence = as_written(sentences[number])
        labels.append(make_label(sentence, places[number], side, colors[number]))
    check_labels(labels, places)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="title description" '
        f'font-family="Helvetica, Arial, \'DejaVu Sans\', sans-serif" font-size="{FONT_SIZE}">',
        '<title id="title">The vectors of “play” in 20 sentences, in two layers</title>',
        f'<desc id="description">{escape(ALT)}</desc>',
    ]
    for box, title in zip((STRIP, FRAME), TITLES, strict=True):
        width = box.right - box.left
        height = box.bottom - box.top
        lines.append(
            f'<rect x="{box.left}" y="{box.top}" width="{width}" height="{height}" rx="3" '
            f'fill="none" stroke="{theme.frame}"/>'
        )
        lines.append(f'<text x="1" y="{box.top - 8}" fill="{theme.text}">{title}</text>')
    middle = (STRIP.top + STRIP.bottom) / 2
    lines.append(f'<circle cx="200" cy="{middle:g}" r="{RADIUS}" fill="{theme.text}"/>')
    for number, (x, y) in enumerate(places):
        if number < n_verbs:
            lines.append(f'<circle cx="{x}" cy="{y}" r="{RADIUS}" fill="{colors[number]}"/>')
        else:
            size = 2 * RADIUS - 1
            lines.append(
                f'<rect x="{x - size / 2:g}" y="{y - size / 2:g}" width="{size}" height="{size}" '
                f'fill="{colors[number]}"/>'
            )
    for label in labels:
        lines.append(
            f'<text x="{label.x:g}" y="{label.y:.1f}" text-anchor="{label.anchor}" '
            f'fill="{label.color}">{escape(label.text)}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def main(folder: Path) -> None:
    """Write both pictures; a ValueError if layer 0 has more than one point."""
    sentences = [line.split() for line in TEXT.read_text(encoding="utf-8").splitlines()]
    vectors = word_vectors(sentences)
    if np.ptp(vectors[0], axis=0).max() > 1e-5:
        raise ValueError("layer 0: the vectors differ")
    points, _ = principal_components(unit_vectors(vectors[LAYER]))
    places = pixels(points[:, :2])
    for name, theme in THEMES.items():
        picture = draw(sentences, places, theme)
        (folder / f"play-{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
