"""Probe data of a few words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from embeddings_files import make_sentences, write, write_lines

from elmo_cli.analysis.probe_data import ProbeData, read_probe_data


def zeros(folder: Path, splits: Mapping[str, tuple[str, str]], **options: Any) -> ProbeData:
    """A sentence per split, with a letter per word as its label, and zeros for vectors."""
    files = {}
    for split, (words, labels) in splits.items():
        array = np.zeros((1, len(labels), 2), np.float32)
        files[split] = (
            str(write(folder / f"{split}.hdf5", make_sentences([words]), [array], **options)),
            str(write_lines(folder / f"{split}.tags", [[*labels]])),
        )
    return read_probe_data(**files)
