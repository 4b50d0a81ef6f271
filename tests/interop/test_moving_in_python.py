"""The Python calls in docs/guides/moving.md give what the calls of AllenNLP next to them give."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tolerance import ATOL_ORDER

from elmo_cli import ElmoMix, Embedder, embed_file, load, open_embeddings
from elmo_cli.interop.allennlp import Elmo, ElmoEmbedder, batch_to_ids

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "moving.md"
SENTENCES = [["The", "cat", "sat", "."], ["It", "slept", "."], ["a"]]


def replacement(old: str) -> str:
    """The code in the second column of the row of an old call."""
    (code,) = re.findall(rf"^\| `{re.escape(old)}` \| `([^`]*)`", PAGE.read_text("utf-8"), re.M)
    return str(code)


@pytest.fixture
def names(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The names in the code of the page; `old` and `embedder` compute the same."""
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("".join(" ".join(sentence) + "\n" for sentence in SENTENCES))
    names: dict[str, object] = {
        "options_file": tiny / "options.json",
        "weight_file": tiny / "weights.hdf5",
        "tokens": SENTENCES[0],
        "batch": SENTENCES,
        "sentences": SENTENCES,
        "ElmoEmbedder": ElmoEmbedder,
        "Embedder": Embedder,
        "load": load,
        "embed_file": embed_file,
    }
    exec(replacement("ElmoEmbedder(options_file, weight_file)"), names)
    names["old"] = ElmoEmbedder(tiny / "options.json", tiny / "weights.hdf5", state="zero")
    return names


@pytest.mark.parametrize(
    "call", [".embed_sentence(tokens)", ".embed_batch(batch)", ".embed_sentences(sentences)"]
)
def test_arrays_of_sentences(call: str, names: dict[str, object]) -> None:
    expected = list(eval(f"old{call}", names))
    found = list(eval(replacement(call), names))
    assert len(found) == len(expected)
    for array, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, other, rtol=0, atol=ATOL_ORDER)


def test_a_file_that_exists(names: dict[str, object]) -> None:
    call = '.embed_file(open("in.txt"), "out.hdf5")'
    eval(f"old{call}", names)
    with open_embeddings("out.hdf5") as embeddings:
        expected = [embeddings[key] for key in range(len(SENTENCES))]
    eval(replacement(call), names)
    with open_embeddings("out.hdf5") as embeddings:
        for key, array in enumerate(expected):
            np.testing.assert_allclose(embeddings[key], array, rtol=0, atol=ATOL_ORDER)


def test_the_state_of_the_classes(names: dict[str, object]) -> None:
    """Only with `state="zero"` are vectors those of `Embedder`."""
    options_file, weight_file = names["options_file"], names["weight_file"]
    carrying = ElmoEmbedder(options_file, weight_file)  # type: ignore[arg-type]
    carrying.embed_sentence(SENTENCES[0])
    second = carrying.embed_sentence(SENTENCES[0])
    own = eval(replacement(".embed_sentence(tokens)"), names)
    assert np.abs(second - own).max() > 0.01


def test_a_mix_in_place_of_elmo(names: dict[str, object]) -> None:
    mix = eval(replacement("Elmo(options_file, weight_file, 1)"), {"ElmoMix": ElmoMix})
    options_file, weight_file = names["options_file"], names["weight_file"]
    elmo = Elmo(options_file, weight_file, 1)  # type: ignore[arg-type]
    assert (mix.n_layers, mix.dropout.p) == (3, elmo._dropout.p)
    elmo.eval()
    mix.eval()
    with torch.no_grad():
        (expected,) = elmo(batch_to_ids(SENTENCES[:1]))["elmo_representations"]
        found = mix(torch.from_numpy(eval("embedder.embed(tokens)", names)))
    np.testing.assert_allclose(found, expected[0], rtol=0, atol=ATOL_ORDER)
