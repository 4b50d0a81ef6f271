"""Where the bundled model is: inside the package of a wheel, beside the package in a clone."""

from __future__ import annotations

from pathlib import Path

from elmo_cli.pretrained.catalogue import BUNDLED, WEIGHTS_FILE

_PACKAGE = Path(__file__).resolve().parents[1]


def bundled_path() -> Path | None:
    """The folder of the bundled model, None if this installation has none."""
    places = (_PACKAGE / "bundled" / BUNDLED, _PACKAGE.parent / "weights" / BUNDLED)
    return next((place for place in places if (place / WEIGHTS_FILE).is_file()), None)
