"""Programs that train probes accept files of the documented commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import made
from pages import run_program

from elmo_cli.store.reader import open_embeddings

pytestmark = pytest.mark.interop

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "readers" / "neurox.md"
LINES = ("The cat sat .", "Yes .", "The cat sat .", "Yes . (Occurrence 2)", "Yes .", "Yes .")


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list:UserWarning")
def test_the_program_of_the_page_runs(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("neurox.data.loader")
    monkeypatch.chdir(tmp_path)
    text = "".join(f"{line}\n" for line in LINES)
    for name in ("lines.txt", "label_lines.txt"):
        Path(name).write_text(text, encoding="utf-8")
    options = ("--sentence-map", "occurrences", "-o", "corpus.hdf5", "-m", tiny)
    made("embed", "lines.txt", *options)
    run_program(PAGE, 0)


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list:UserWarning")
@pytest.mark.parametrize("is_converted", [False, True])
def test_neurox_reads_repeated_sentences(
    is_converted: bool, tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = pytest.importorskip("neurox.data.loader")
    monkeypatch.chdir(tmp_path)
    text = "".join(f"{line}\n" for line in LINES)
    Path("corpus.txt").write_text(text, encoding="utf-8")
    options = ("--sentence-map", "occurrences", "-o", "corpus.hdf5")
    if is_converted:
        made("embed", "corpus.txt", "-o", "lines.hdf5", "-m", tiny)
        made("convert", "lines.hdf5", *options)
    else:
        made("embed", "corpus.txt", *options, "-m", tiny)
    activations, n_layers = loader.load_activations("corpus.hdf5")
    tokens = loader.load_data("corpus.txt", "corpus.txt", activations, 512)
    assert tokens["source"] == [line.split() for line in LINES]
    with open_embeddings("corpus.hdf5") as embeddings:
        assert n_layers == embeddings.n_layers
        for array, key in zip(activations, embeddings, strict=True):
            expected = embeddings[key].transpose(1, 0, 2).reshape(len(array), -1)
            np.testing.assert_array_equal(array, expected)
