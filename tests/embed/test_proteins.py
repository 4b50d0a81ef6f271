"""Proteins: the vectors of SeqVec and bio_embeddings, and the files that they write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import elmo, made, only_tiny
from hdf5_arrays import read_arrays

from elmo_cli.embed.embedder import Embedder
from elmo_cli.model.bilm import State
from elmo_cli.store.inspection import verify
from elmo_cli.store.reader import open_embeddings
from elmo_cli.text.input import InputSettings, read_sentences
from elmo_cli.weightfile.read import read_bilm

ATOL = 3e-6
Arrays = dict[str, np.ndarray]
WARM_UP = (
    "MGSSHHHHHHSSGLVPRGSHMASVQKFPGDANCDGIVDISDAVLIMQTM"
    "ANPSKYQMTDKGRINADVTGNSDGVTVLDAQFIQSYCLGLVELPPVE"
)


@pytest.fixture(scope="module")
def model(golden: Path) -> Path:
    return golden / "seqvec"


@pytest.fixture
def uniprot(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """FASTA of three proteins; the model is the default, and its outputs are in `layers.npz`."""
    only_tiny(monkeypatch, model)
    monkeypatch.chdir(tmp_path)
    return model / "uniprot.fasta"


def check_equal(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, np.float32)
        np.testing.assert_allclose(found[name], array, rtol=0, atol=ATOL)


def layers_of(model: Path) -> Arrays:
    """Layers by accession, (3, residue, dim), as the original computes them in float64."""
    with np.load(model / "layers.npz") as file:
        return dict(file)


@pytest.mark.parametrize(
    ("layers", "select", "pool"),
    [
        ("sum", lambda array: array.sum(0), False),
        ("all", np.hstack, False),
        ("2,1", lambda array: np.hstack(array[[2, 1]]), False),
        ("0", lambda array: array[0], True),
        ("all", np.hstack, True),
    ],
)
def test_files_of_seqvec(uniprot: Path, layers: str, select: Any, pool: bool) -> None:
    """Other names, shapes or values, and its readers compute with other proteins."""
    options = ["--pool", "mean"] if pool else []
    made("embed", uniprot, "-o", "a.h5", "-q", "--layout", "seqvec", "--fasta-id", "uniprot",
         "--layers", layers, *options)  # fmt: skip
    expected = {}
    for accession, array in layers_of(uniprot.parent).items():
        selected = select(array)
        expected[accession] = selected.mean(0) if pool else selected
    check_equal(read_arrays(Path("a.h5")), expected)
    assert verify("a.h5").count == 0


@pytest.mark.parametrize("pool", [False, True])
def test_files_of_bio_embeddings(uniprot: Path, pool: bool) -> None:
    """With all layers; or the mean of their sum, whatever `--layers all` says."""
    options = ["--pool", "mean"] if pool else []
    made("embed", uniprot, "-o", "a.h5", "-q", "--layout", "bio-embeddings", *options)
    expected = {}
    ids = {}
    arrays = layers_of(uniprot.parent)
    for sentence in read_sentences(uniprot, InputSettings(fasta_id="uniprot")):
        sequence = "".join(sentence.tokens).encode()
        name = hashlib.md5(sequence, usedforsecurity=False).hexdigest()
        layers = arrays[str(sentence.document)]
        expected[name] = layers.sum(0).mean(0) if pool else layers
    check_equal(read_arrays(Path("a.h5")), expected)
    with h5py.File("a.h5") as file:
        ids = {dataset.attrs["original_id"] for dataset in file.values()}
    assert ids == {"sp|P12345|TEST1_HUMAN", "tr|Q0AAA1|Q0AAA1_ECOLI", "sp|P00003|SHORT_YEAST"}


@pytest.mark.parametrize(
    "options", ["--layout seqvec", "--layout bio-embeddings --pool mean"], ids=["seqvec", "bio"]
)
def test_a_run_in_shards_and_a_resumed_one(uniprot: Path, options: str) -> None:
    """Names, ids and lengths come back from the log and from shards."""
    call = ["embed", uniprot, *options.split()]
    made(*call, "-o", "whole.h5")
    for shard in ("1/2", "2/2"):
        made(*call, "-o", f"{shard[0]}.h5", "--shard", shard)
    made("merge", "1.h5", "2.h5", "-o", "merged.h5")
    assert Path("merged.h5").read_bytes() == Path("whole.h5").read_bytes()
    assert "complete already" in made(*call, "-o", "whole.h5", "--resume").err


def test_inspection_counts_letters_and_compares_residues(uniprot: Path) -> None:
    content = uniprot.read_text() + ">odd\nMKJ*K\n"
    Path("odd.fa").write_text(content)
    made("embed", "odd.fa", "-o", "a.h5", "-q", "--layout", "seqvec")
    done = made("inspect", "a.h5", "--text", "odd.fa")
    assert "neither amino acids nor X, U, B, Z, O: J 1, * 1" in done.out.decode()
    assert "nothing wrong" in done.out.decode()
    assert "all are amino acids" in elmo("inspect", "a.h5", "--text", uniprot).out.decode()
    done = made("inspect", "a.h5", "--recompute", "2", "--text", "odd.fa", "--json")
    assert json.loads(done.out)["other_residues"] == {"J": 1, "*": 1}
    Path("odd.fa").write_text(content.replace("MNEQ", "MNEK"))
    assert "not those of the text" in elmo("inspect", "a.h5", "--text", "odd.fa").err


def test_both_engines_compute_the_layers_of_the_original(model: Path, engine: str) -> None:
    """Within 3e-6 of the original in float64."""
    bilm = read_bilm(model / "options.json", model / "weights.hdf5")
    embedder = Embedder(bilm, engine=engine, device="cpu")
    settings = InputSettings(fasta_id="uniprot")
    sentences = list(read_sentences(model / "uniprot.fasta", settings))
    arrays = layers_of(model)
    assert len(sentences) == len(arrays) == 3
    for sentence, array in embedder.stream(sentences):
        np.testing.assert_allclose(array, arrays[str(sentence.document)], rtol=0, atol=ATOL)


# -- against the whole reference data -------------------------------------------------------------


@pytest.fixture
def seqvec(reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the reference data."""
    folder = reference / "seqvec"
    only_tiny(monkeypatch, folder / "model")
    monkeypatch.chdir(tmp_path)
    return folder


RUNS = [
    ("uniprot_sum", "--layers sum --fasta-id uniprot"),
    ("uniprot_all", "--layers all --fasta-id uniprot"),
    ("uniprot_CNN", "--layers 0 --fasta-id uniprot"),
    ("uniprot_LSTM1", "--layers 1 --fasta-id uniprot"),
    ("uniprot_LSTM2", "--layers 2 --fasta-id uniprot"),
    ("uniprot_protein", "--layers sum --fasta-id uniprot --pool mean"),
    ("odd_sum", "--layers sum --fasta-id header --fasta-raw --on-error skip"),
    ("odd_all", "--layers all --fasta-id header --fasta-raw --on-error skip"),
    ("odd_protein", "--layers sum --fasta-id header --fasta-raw --on-error skip --pool mean"),
    ("odd_space0", "--layers sum --fasta-raw --on-error skip"),
    ("slash", "--layers sum"),
]


@pytest.mark.reference
@pytest.mark.parametrize(("name", "options"), RUNS)
def test_all_files_of_seqvec(seqvec: Path, name: str, options: str) -> None:
    """Apart from its silent losses: equal ids, of which it keeps the last, and an empty record."""
    text = seqvec / "fasta" / f"{name.split('_')[0]}.fasta"
    done = elmo("embed", text, "-o", "a.h5", "-q", "--layout", "seqvec", *options.split())
    assert done.code == (3 if "skip" in options else 0), done.err
    found = read_arrays(Path("a.h5"))
    expected = read_arrays(seqvec / "expected" / f"{name}.h5")
    for lost in ("dup first", "dup", "empty"):
        found.pop(lost, None)
        expected.pop(lost, None)
    check_equal(found, expected)


def batches_of_seqvec(sequences: Sequence[str], most_residues: int) -> Iterator[list[str]]:
    batch: list[str] = []
    for number, sequence in enumerate(sequences, start=1):
        batch.append(sequence)
        n_residues = sum(map(len, batch))
        is_last = number == len(sequences)
        if is_last or n_residues > most_residues or len(sequence) > most_residues / 2:
            yield batch
            batch = []


def embedded(model: Path, batches: Sequence[Sequence[str]], engine: str) -> dict[str, np.ndarray]:
    """The layers of the sequences of consecutive batches, whose state is carried on."""
    bilm = read_bilm(model / "options.json", model / "weights.hdf5")
    embedder = Embedder(bilm, state="carry", engine=engine, device="cpu")
    state: State | None = None
    layers = {}
    for batch in batches:
        arrays, state = embedder.embed_batch([list(sequence) for sequence in batch], state)
        layers.update(zip(batch, arrays, strict=True))
    return layers


@pytest.mark.reference
def test_the_batches_of_seqvec(seqvec: Path, engine: str) -> None:
    settings = InputSettings(fasta_id="uniprot")
    text = seqvec / "fasta" / "uniprot.fasta"
    ids = {"".join(s.tokens): str(s.document) for s in read_sentences(text, settings)}
    batches = list(batches_of_seqvec(sorted(ids, key=len), 40))
    assert [list(map(len, batch)) for batch in batches] == [[1, 22], [37], [173]]
    layers = embedded(seqvec / "model", batches, engine)
    found = {ids[sequence]: np.hstack(array) for sequence, array in layers.items()}
    check_equal(found, read_arrays(seqvec / "expected" / "uniprot_batch40_all.h5"))


@pytest.mark.reference
@pytest.mark.parametrize("n_warm_ups", [0, 4])
def test_the_state_of_bio_embeddings(seqvec: Path, engine: str, n_warm_ups: int) -> None:
    """One protein after the other, longest first, after runs of a fixed protein; in batches, row r
    continues where row r stopped. It keeps lower-case letters."""
    text = seqvec / "fasta" / "uniprot.fasta"
    records = text.read_text().split(">")[1:]
    ids = {}
    for record in records:
        header, _, lines = record.partition("\n")
        ids["".join(lines.split())] = header.split()[0]
    longest_first = sorted(ids, key=len, reverse=True)
    batches_by_name = {"None": [[sequence] for sequence in longest_first]}
    if n_warm_ups:
        batches_by_name["15000"] = [longest_first]
    for name, batches in batches_by_name.items():
        warm_ups = [[WARM_UP]] * n_warm_ups
        layers = embedded(seqvec / "model", [*warm_ups, *batches], engine)
        found = {ids[sequence]: layers[sequence] for sequence in longest_first}
        expected = seqvec / "expected" / f"bio_embeddings_warm{n_warm_ups}_batch{name}.h5"
        check_equal(found, read_arrays(expected))


@pytest.mark.reference
def test_carried_proteins_by_the_command(seqvec: Path) -> None:
    """The warm-up as records of a text, as the documentation shows."""
    text = (seqvec / "fasta" / "uniprot.fasta").read_text()
    by_length = sorted(text.split(">")[1:], key=lambda record: -len(record.partition("\n")[2]))
    warm_up = "".join(f">warm-up{number}\n{WARM_UP}\n" for number in range(4))
    Path("sorted.fasta").write_text(warm_up + "".join(f">{record}" for record in by_length))
    made("embed", "sorted.fasta", "-o", "a.h5", "-q", "--layout", "flat", "--state", "carry",
         "--batch-size", "1")  # fmt: skip
    expected = read_arrays(seqvec / "expected" / "bio_embeddings_warm4_batchNone.h5")
    with open_embeddings("a.h5") as embeddings:
        first, *_ = list(embeddings)[4:]
        document = str(embeddings.info(first).document)
        np.testing.assert_allclose(embeddings[first], expected[document], rtol=0, atol=ATOL)
