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
from typing import TypeAlias
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
FRAME = (1, 110, 398, 258)  # of layer 2: left, top, width, height
STRIP = (1, 26, 398, 48)  # of layer 0
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

Box: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Label:
    """A sentence beside its point; `x` and `y` are those of the start or the end of its line."""

    text: str
    x: float
    y: float
    anchor: str
    color: str

    @property
    def box(self) -> Box:
        """The space that the text takes, rather too much than too little."""
        width = LETTER_WIDTH * len(self.text)
        left = self.x if self.anchor == "start" else self.x - width
        return left, self.y - FONT_SIZE, left + width, self.y + 0.3 * FONT_SIZE


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
    left, top, width, height = FRAME
    lowest = points.min(axis=0)
    span = np.ptp(points, axis=0)
    across, up = ((points - lowest) / span).T
    xs = left + MARGIN + across * (width - 2 * MARGIN)
    ys = top + height - MARGIN - up * (height - 2 * MARGIN)
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
        return Label(sentence, x + gap, middle, "start", color)
    if side == "left":
        return Label(sentence, x - gap, middle, "end", color)
    if side == "above":
        return Label(sentence, x + RADIUS, y - gap, "end", color)
    return Label(sentence, x + RADIUS, y + gap + 0.7 * FONT_SIZE, "end", color)


def overlap(first: Box, second: Box) -> bool:
    """Whether two boxes have a point in common."""
    return (
        first[0] < second[2]
        and second[0] < first[2]
        and first[1] < second[3]
        and second[1] < first[3]
    )


def check_labels(labels: Sequence[Label], places: Sequence[tuple[int, int]]) -> None:
    """Raise a ValueError for a label across the frame, another label or a point."""
    left, top, width, height = FRAME
    point_boxes = [(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS) for x, y in places]
    for number, label in enumerate(labels):
        box = label.box
        is_inside = left < box[0] and box[2] < left + width and top < box[1]
        if not is_inside or box[3] > top + height:
            raise ValueError(f"{label.text}: across the frame")
        others = [*point_boxes, *(other.box for other in labels[number + 1 :])]
        if any(overlap(box, other) for other in others):
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
    for (left, top, width, height), title in zip((STRIP, FRAME), TITLES, strict=True):
        lines.append(
            f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="3" fill="none" '
            f'stroke="{theme.frame}"/>'
        )
        lines.append(f'<text x="1" y="{top - 8}" fill="{theme.text}">{title}</text>')
    middle = STRIP[1] + STRIP[3] / 2
    lines.append(f'<circle cx="200" cy="{middle:g}" r="{RADIUS}" fill="{theme.text}"/>')
    for number, (x, y) in enumerate(places):
        if number < n_verbs:
            lines.append(f'<circle cx="{x}" cy="{y}" r="{RADIUS}" fill="{colors[number]}"/>')
        else:
            side = 2 * RADIUS - 1
            lines.append(
                f'<rect x="{x - side / 2:g}" y="{y - side / 2:g}" width="{side}" height="{side}" '
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
