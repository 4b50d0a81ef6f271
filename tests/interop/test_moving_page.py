"""Commands and calls of docs/guides/moving.md give the recorded outputs of what they replace.

The row about code of AllenNLP is `test_allennlp_recorded.py`. Rows about training have no recorded
outputs, and those of simple_elmo and flair are not compared.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import made
from hdf5_arrays import read_arrays
from tolerance import ATOL

from elmo_cli import Embedder, load, open_embeddings
from elmo_cli.arrays import FloatArray

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "moving.md"
N_LINES = 31  # of the recorded text; the next one contains a character that elmo refuses
FLOAT32 = ATOL["fast", "float32"]
MANYLANGS = 1e-6  # the differences that the page states
SEQVEC = 3e-6


def new_code(old: str) -> str:
    """The second column of the row of an old command or call, which may have a remark."""
    row = rf"^\| `{re.escape(old)}`[^|]*\| `([^`]*)`"
    (code,) = re.findall(row, PAGE.read_text("utf-8"), re.M)
    return str(code)


def replacement(old: str) -> list[str]:
    """The words of the command that replaces an old one."""
    return shlex.split(new_code(old))


def run(*words: str) -> None:
    """Run a command of the page on the processor."""
    made(*words, "-q", "--device", "cpu")


def all_layers(layers: FloatArray) -> FloatArray:
    return layers


def top_layer(layers: FloatArray) -> FloatArray:
    return layers[-1]


def mean_of_layers(layers: FloatArray) -> FloatArray:
    return layers.mean(axis=0)


@pytest.mark.parametrize(
    ("flag", "combine"),
    [("", all_layers), ("--top", top_layer), ("--average", mean_of_layers)],
    ids=["--all", "--top", "--average"],
)
def test_the_command_of_allennlp(
    flag: str,
    combine: Callable[[FloatArray], FloatArray],
    tiny: Path,
    golden: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = (golden / "sentences.txt").read_text("utf-8").splitlines()
    Path("in.txt").write_text("\n".join(lines[:N_LINES]) + "\n", "utf-8")
    words = replacement("allennlp elmo in.txt out.hdf5 --all")[1:]
    if flag:
        words += replacement(flag)
    made(*words, "-q", "-m", tiny, "--device", "cpu")
    with (
        open_embeddings("out.hdf5") as found,
        h5py.File(golden / "expected" / "tiny.hdf5") as expected,
    ):
        assert len(found) == N_LINES
        for key in range(N_LINES):
            layers = combine(expected[str(key)][...])
            close(found[key].reshape(layers.shape), layers, FLOAT32)


def test_the_state_that_allennlp_carries(
    tiny: Path, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the batch size of the recording, which is 3."""
    monkeypatch.chdir(tmp_path)
    batches = json.loads((golden / "expected" / "carry_batches.json").read_text())["carry_a"]
    lines = (golden / "sentences.txt").read_text("utf-8").splitlines()
    text = [lines[number] for batch in batches for number in batch]
    Path("in.txt").write_text("\n".join(text) + "\n", "utf-8")
    words = [word.replace("64", "3") for word in replacement("--batch-size 64")]
    made("embed", "in.txt", "-o", "out.hdf5", *words, "-q", "-m", tiny, "--device", "cpu")
    with (
        open_embeddings("out.hdf5") as found,
        h5py.File(golden / "expected" / "carry_a_tiny.hdf5") as expected,
    ):
        for key in range(len(text)):
            close(found[key], expected[str(key)][...], FLOAT32)


@pytest.fixture
def sentences(golden: Path) -> list[list[str]]:
    lines = (golden / "sentences.txt").read_text("utf-8").splitlines()
    return [line.split() for line in lines[:N_LINES]]


def test_the_calls_of_allennlp(tiny: Path, golden: Path, sentences: list[list[str]]) -> None:
    expected = read_arrays(golden / "expected" / "tiny.hdf5")
    names: dict[str, Any] = {
        "Embedder": Embedder,
        "load": load,
        "options_file": tiny / "options.json",
        "weight_file": tiny / "weights.hdf5",
        "tokens": sentences[0],
        "batch": sentences,
    }
    exec(new_code("ElmoEmbedder(options_file, weight_file)"), names)
    close(eval(new_code(".embed_sentence(tokens)"), names), expected["0"], FLOAT32)
    arrays = eval(new_code(".embed_batch(batch)"), names)
    for number, array in enumerate(arrays):
        close(array, expected[str(number)], FLOAT32)
    assert len(arrays) == len(sentences)


def copy_model(recorded: Path, model: Path) -> None:
    """Make a model folder from the files that another program recorded."""
    model.mkdir()
    shutil.copy(recorded / "options.json", model)
    shutil.copy(recorded / "lm_weights.hdf5", model / "weights.hdf5")


def test_dump_bilm_embeddings(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the batch size of the recording, which is 3, and the top layer, which was recorded."""
    monkeypatch.chdir(tmp_path)
    folder = golden / "bilm_tf"
    copy_model(folder, tmp_path / "model")
    rows = json.loads((folder / "lm_embeddings_sentences.json").read_text())
    lines = [rows[row][batch] for batch in range(len(rows[0])) for row in range(len(rows))]
    Path("in.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    old = 'dump_bilm_embeddings(vocab, "in.txt", options, weights, "out.hdf5")'
    words = replacement(old)
    assert words[-2:] == ["--batch-size", "1"]
    run(*words[1:-1], str(len(rows)))
    found = read_arrays(Path("out.hdf5"))
    for row in range(len(rows)):
        expected = read_arrays(folder / f"lm_embeddings_{row}.hdf5")
        for batch, top in expected.items():
            layers = found[str(int(batch) * len(rows) + row)]
            close(layers[-1], np.concatenate(list(top), axis=-1), FLOAT32)


def test_dump_token_embeddings(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = golden / "allennlp"
    copy_model(folder, tmp_path / "model")
    shutil.copy(folder / "vocab_test.txt", "vocab.txt")
    run(*replacement('dump_token_embeddings(vocab, options, weights, "types.hdf5")')[1:])
    found = read_arrays(Path("types.hdf5"))
    expected = read_arrays(folder / "elmo_token_embeddings.hdf5")
    close(found["embedding"], expected["embedding"], FLOAT32)


@pytest.mark.parametrize("batch_size", ["1", "2"])
def test_checkpoints_and_perplexities_of_bilm_tf(
    batch_size: str, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the batch sizes of the recording, and the default vocabulary of a folder."""
    monkeypatch.chdir(tmp_path)
    folder = golden / "tf_checkpoint"
    shutil.copytree(folder / "full", "checkpoint")
    old = "python bin/dump_weights.py --save_dir checkpoint --outfile weights.hdf5"
    made(*replacement(old)[1:], "-q")
    shutil.copy(folder / "vocab.txt", "model/vocab.txt")
    Path("heldout").mkdir()
    shutil.copy(folder / "heldout.txt", "heldout/heldout.txt")
    words = replacement("python bin/run_test.py --test_prefix 'heldout/*'")
    words[words.index("heldout/*.txt")] = "heldout/heldout.txt"
    words[words.index("256")] = batch_size
    done = made(*words[1:], "--json", "--device", "cpu")
    found = json.loads(done.out)["perplexity"]["average"]
    recorded = json.loads((folder / "expected.json").read_text())["full"]["bilm_tf_test_float32"]
    assert found == pytest.approx(recorded[f"batch_size_{batch_size}"], rel=2e-6)


@pytest.fixture
def german(golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, FloatArray]:
    """A model `de.model` in the working folder, and the layers of sentences by their numbers."""
    monkeypatch.chdir(tmp_path)
    folder = golden / "elmoformanylangs"
    shutil.copytree(folder / "cnn-both-clip", "de.model")
    shutil.copy(folder / "sentences.json", tmp_path)
    arrays = read_arrays(folder / "expected" / "cnn-both-clip.hdf5")
    return {key: array for key, array in arrays.items() if array.shape[1] > 1}


def test_the_calls_of_elmoformanylangs(german: dict[str, FloatArray]) -> None:
    every = json.loads(Path("sentences.json").read_text("utf-8"))
    sentences = [every[int(key)] for key in german]
    names = {"Embedder": Embedder, "load": load, "sentences": sentences}
    embedder = eval(new_code('Embedder("de.model")'), names)
    averages = eval(new_code("e.sents2elmo(sentences)"), names)
    for tokens, average, layers in zip(sentences, averages, german.values(), strict=True):
        close(embedder.embed(tokens), layers, MANYLANGS)
        close(average, layers.mean(axis=0), MANYLANGS)


def test_the_command_of_elmoformanylangs(german: dict[str, FloatArray]) -> None:
    """Of sentences that a text may contain: without a byte order mark."""
    every = json.loads(Path("sentences.json").read_text("utf-8"))
    for key in list(german):
        if "\ufeff" in "".join(every[int(key)]):
            del german[key]
    with open("text.conllu", "w", encoding="utf-8") as text:
        for key in german:
            rows = [f"{n}\t{token}" + "\t_" * 8 for n, token in enumerate(every[int(key)], 1)]
            text.write("\n".join(rows) + "\n\n")
    run(*replacement("python -m elmoformanylangs test --input_format conll --output_layer -1")[1:])
    found = read_arrays(Path("out.hdf5"))
    assert len(found) == len(german)
    for key, layers in german.items():
        name = "\t".join(every[int(key)]).replace(".", "$period$")  # as the original names it
        close(found[name], layers.mean(axis=0), MANYLANGS)


@pytest.fixture
def proteins(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, FloatArray]:
    """The model `seqvec` and `proteins.fasta`; the layers of each protein by its accession."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(golden / "seqvec", "seqvec")
    shutil.copy(golden / "seqvec" / "uniprot.fasta", "proteins.fasta")
    with np.load(golden / "seqvec" / "layers.npz") as layers:
        return dict(layers)


def test_the_commands_of_seqvec(proteins: dict[str, FloatArray]) -> None:
    words = replacement("seqvec -i proteins.fasta -o out.h5")
    run(*words[1:])
    residues = read_arrays(Path("out.h5"))
    run(*words[1:], *replacement("seqvec … --protein")[1:], "--overwrite")
    means = read_arrays(Path("out.h5"))
    for accession, layers in proteins.items():
        close(residues[accession], layers.sum(axis=0), SEQVEC)
        close(means[accession], layers.sum(axis=0).mean(axis=0), SEQVEC)


def test_the_commands_of_bio_embeddings(proteins: dict[str, FloatArray]) -> None:
    (row,) = re.findall(r"^\| `bio_embeddings`.*`(elmo .*)` \|$", PAGE.read_text("utf-8"), re.M)
    words = shlex.split(row)
    run(*words[1:])
    (reduced,) = re.findall(r"^\| the same, `reduce: true` \| `… (.*)` \|$", PAGE.read_text(), re.M)
    with h5py.File("embeddings_file.h5") as file:
        arrays = {data.attrs["original_id"].split("|")[1]: data[...] for data in file.values()}
    run(*words[1:], *shlex.split(reduced), "--overwrite")
    with h5py.File("embeddings_file.h5") as file:
        means = {data.attrs["original_id"].split("|")[1]: data[...] for data in file.values()}
    for accession, layers in proteins.items():
        close(arrays[accession], layers, SEQVEC)
        close(means[accession], layers.sum(axis=0).mean(axis=0), SEQVEC)


def close(found: FloatArray, expected: FloatArray, atol: float) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
