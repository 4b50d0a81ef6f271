"""measure_geometry: what is drawn from files, and the measures of it by an independent program."""

from __future__ import annotations

import random
from pathlib import Path

import geometry_oracle as oracle
import numpy as np
import pytest
from embeddings_files import DIM, layers, make_sentences, write

from elmo_cli.analysis import geometry
from elmo_cli.analysis.geometry import measure_geometry
from elmo_cli.analysis.geometry_sample import GeometrySettings, draw_sample, read_tokens
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.reader import open_embeddings

WORDS = ("the", "The", "bank", "river", "money", "of", "sat", "on", "a", "cat")
N_LAYERS = 3


def random_lines(n: int = 40) -> list[str]:
    """Sentences of 0 to 12 words, of which some occur twice."""
    rng = random.Random(3)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(0, 12))) for _ in range(n)]
    return [*lines, lines[0], "unique", lines[5]]


LINES = random_lines()
SMALL = GeometrySettings(samples=30, seed=4, min_contexts=6, max_words=4, max_occurrences=9)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("geometry") / "a.hdf5", make_sentences(LINES))


def vectors_of(positions: np.ndarray, layer: int) -> np.ndarray:
    """The vectors of tokens, from the arrays that the file was written from: (token, dim)."""
    sentences = make_sentences(LINES)
    rows = [layers(sentences[number])[layer, token] for number, token in positions.tolist()]
    return np.array(rows, np.float64).reshape(-1, DIM)


def tokens_at(positions: np.ndarray) -> list[str]:
    return [LINES[number].split()[token] for number, token in positions.tolist()]


def mean(values: list[float]) -> float:
    return float(np.mean(values))


@pytest.mark.parametrize("settings", [SMALL, GeometrySettings()])
@pytest.mark.parametrize("layout", ["flat", "allennlp"])
def test_each_measure_is_that_of_its_formula(tmp_path, settings, layout):
    """On the tokens that the function says it drew."""
    path = write(tmp_path / "a.hdf5", make_sentences(LINES), layout=layout)
    (measured,) = measure_geometry([path], settings).files
    sample = measured.sample
    sentences = make_sentences(LINES)
    for number, layer in enumerate(measured.layers):
        of_random = vectors_of(sample.random_tokens, number)
        anisotropy = oracle.pairwise(of_random)
        of_words = [vectors_of(word.positions, number) for word in sample.words]
        of_sentences = [layers(sentences[k])[number] for k in sample.sentences.tolist()]
        norms = np.sqrt((of_random**2).sum(axis=1))
        assert layer.layer == number
        assert layer.norm == pytest.approx(norms.mean(), abs=1e-6)
        assert layer.anisotropy == pytest.approx(anisotropy, abs=1e-6)

        self_similarity = mean([oracle.pairwise(vectors) for vectors in of_words])
        assert layer.self_similarity.raw == pytest.approx(self_similarity, abs=1e-6)
        assert layer.self_similarity.adjusted == pytest.approx(
            self_similarity - anisotropy, abs=1e-6
        )
        with_mean = mean([oracle.with_mean(vectors) for vectors in of_sentences])
        assert layer.sentence_similarity.raw == pytest.approx(with_mean, abs=1e-6)
        assert layer.sentence_similarity.adjusted == pytest.approx(with_mean - anisotropy, abs=1e-6)

        mev = mean([oracle.uncentered(vectors) for vectors in of_words])
        assert layer.mev_uncentered.raw == pytest.approx(mev, abs=1e-6)
        assert layer.mev_uncentered.baseline == pytest.approx(
            oracle.uncentered(of_random), abs=1e-6
        )
        assert layer.mev_pca.baseline == pytest.approx(oracle.pca(of_random), abs=1e-6)
        assert layer.mev_truncated_svd.baseline == pytest.approx(
            oracle.truncated_svd(of_random), abs=1e-6
        )
        if number == 0:  # equal in all contexts
            assert layer.self_similarity.raw == pytest.approx(1)
            assert layer.mev_pca.raw is None
            assert layer.mev_pca.adjusted is None
            assert layer.mev_truncated_svd.raw is None
            continue
        pca = mean([oracle.pca(vectors) for vectors in of_words])
        assert layer.mev_pca.raw == pytest.approx(pca, abs=1e-6)
        svd = mean([oracle.truncated_svd(vectors) for vectors in of_words])
        assert layer.mev_truncated_svd.raw == pytest.approx(svd, abs=1e-6)
        assert layer.mev_truncated_svd.adjusted == pytest.approx(
            svd - oracle.truncated_svd(of_random), abs=1e-6
        )


def test_words_have_their_own_rows(file):
    (measured,) = measure_geometry([file], SMALL).files
    drawn = measured.sample.words
    assert [word.word for word in measured.words] == list(drawn) * N_LAYERS
    for row in measured.words:
        vectors = vectors_of(row.word.positions, int(row.layer))
        assert row.self_similarity == pytest.approx(oracle.pairwise(vectors), abs=1e-6)
        assert row.explained_variance.uncentered == pytest.approx(
            oracle.uncentered(vectors), abs=1e-6
        )


def test_words_in_groups_are_measured_as_all_at_once(file, monkeypatch):
    whole = measure_geometry([file], SMALL)
    monkeypatch.setattr(geometry, "_GROUP_BYTES", 4 * DIM * 12 * N_LAYERS)
    groups = list(geometry._groups(whole.files[0].sample.words, 12))
    assert len(groups) == 4
    in_groups = measure_geometry([file], SMALL)
    assert in_groups.files[0].layers == whole.files[0].layers


def test_only_different_sentences_are_drawn(file):
    sample = measure_geometry([file]).files[0].sample
    last = {len(LINES) - 3, len(LINES) - 1}  # are repeated
    for positions in (sample.random_tokens, sample.cka_tokens):
        assert not last & set(positions[:, 0].tolist())
        lengths = [len(LINES[number].split()) for number in positions[:, 0].tolist()]
        assert ((positions[:, 1] >= 0) & (positions[:, 1] < lengths)).all()
    n_tokens = len(" ".join(LINES[: len(LINES) - 3]).split()) + 1
    assert len(sample.cka_tokens) == n_tokens
    assert len(sample.random_tokens) == n_tokens
    one_token = {number for number, line in enumerate(LINES) if len(line.split()) == 1}
    assert not one_token & set(sample.sentences.tolist())


def test_words_are_case_sensitive_and_occur_in_enough_sentences(file):
    sample = measure_geometry([file], GeometrySettings(min_contexts=17)).files[0].sample
    distinct = dict.fromkeys(LINES)
    expected = {}
    for word in WORDS:
        n_contexts = sum(word in line.split() for line in distinct)
        if n_contexts >= 17:
            expected[word] = (n_contexts, sum(line.split().count(word) for line in distinct))
    assert 0 < len(expected) < len(WORDS)
    found = {word.word: (word.n_contexts, word.n_occurrences) for word in sample.words}
    assert found == expected
    assert sample.n_eligible_words == len(expected)
    for word in sample.words:
        assert set(tokens_at(word.positions)) == {word.word}
        assert len(word.positions) == word.n_occurrences


def test_limits_hold_and_each_token_is_drawn_once(file):
    settings = GeometrySettings(
        samples=50, min_contexts=2, max_words=3, max_occurrences=7, max_cka_tokens=60
    )
    sample = measure_geometry([file], settings).files[0].sample
    assert len(sample.words) == 3
    assert sample.n_eligible_words == len(WORDS)
    assert {len(word.positions) for word in sample.words} == {7}
    assert len(sample.cka_tokens) == 60
    assert len(sample.random_tokens) == 50
    for positions in (sample.cka_tokens, sample.random_tokens):
        assert len(np.unique(positions, axis=0)) == len(positions)


def test_random_tokens_are_drawn_by_sentence(tmp_path):
    """A long sentence is drawn as often as a short one, until the short ones are exhausted."""
    lines = [" ".join(f"long{k}" for k in range(500)), "a b", "c d", "e f"]
    path = write(tmp_path / "a.hdf5", make_sentences(lines))
    sample = measure_geometry([path], GeometrySettings(samples=12)).files[0].sample
    counts = np.bincount(sample.random_tokens[:, 0])
    assert counts.tolist() == [6, 2, 2, 2]


def test_samples_depend_on_the_seed_and_the_tokens_alone(file, tmp_path):
    """So files of other layouts, and with other keys, are measured on the same tokens."""
    other = write(tmp_path / "b.hdf5", make_sentences(LINES), layout="allennlp")
    samples = []
    for path, seed in ((file, 4), (file, 4), (other, 4), (file, 5)):
        with open_embeddings(path) as embeddings:
            tokens = read_tokens(LayerView(embeddings))
        settings = GeometrySettings(samples=30, seed=seed, max_words=4, max_cka_tokens=50)
        samples.append(draw_sample(tokens, settings))
    first, again, of_other, reseeded = samples
    for sample in (again, of_other):
        assert np.array_equal(sample.random_tokens, first.random_tokens)
        assert np.array_equal(sample.cka_tokens, first.cka_tokens)
        assert [word.word for word in sample.words] == [word.word for word in first.words]
    assert not np.array_equal(reseeded.random_tokens, first.random_tokens)
    assert not np.array_equal(reseeded.cka_tokens, first.cka_tokens)


@pytest.mark.parametrize("max_cka_tokens", [25, 20_000])
def test_cka_is_between_all_layers_of_files_with_equal_tokens(
    file, tmp_path, monkeypatch, max_cka_tokens
):
    """The chunks are smaller than the sample."""
    monkeypatch.setattr(geometry, "_CKA_CHUNK", 16)
    sentences = [sentence for sentence in make_sentences(LINES) if sentence.tokens]  # other keys
    arrays = [layers(sentence, n_layers=2, dim=9) for sentence in sentences]
    narrow = write(tmp_path / "b.hdf5", sentences, arrays)
    different = write(tmp_path / "c.hdf5", make_sentences(LINES[1:]))
    settings = GeometrySettings(max_cka_tokens=max_cka_tokens)
    measured = measure_geometry([file, different, narrow], settings)
    both, alone = measured.cka
    assert both.layers == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1)]
    assert alone.layers == [(1, 0), (1, 1), (1, 2)]
    positions = measured.files[0].sample.cka_tokens
    assert both.n_tokens == len(positions)
    by_layer = [vectors_of(positions, layer) for layer in range(N_LAYERS)]
    for layer in range(2):
        rows = [
            layers(make_sentences(LINES)[number], n_layers=2, dim=9)[layer, token]
            for number, token in positions.tolist()
        ]
        by_layer.append(np.array(rows, np.float64))
    for row, first in enumerate(by_layer):
        for column, second in enumerate(by_layer):
            expected = oracle.cka(first, second)
            assert both.values[row][column] == pytest.approx(expected, abs=1e-6)


def test_a_file_without_enough_words_lacks_their_measures(tmp_path):
    path = write(tmp_path / "a.hdf5", make_sentences(["a b c", "d e f"]))
    (measured,) = measure_geometry([path]).files
    assert measured.words == []
    for layer in measured.layers:
        assert layer.self_similarity.raw is None
        assert layer.mev_uncentered.raw is None
        assert layer.anisotropy is not None
        assert layer.sentence_similarity.raw is not None


def test_zero_vectors_are_no_error(tmp_path):
    sentences = make_sentences(["a b", "c a"])
    arrays = [np.zeros((3, 2, DIM), np.float32) for _ in sentences]
    path = write(tmp_path / "a.hdf5", sentences, arrays)
    measured = measure_geometry([path], GeometrySettings(min_contexts=2))
    for layer in measured.files[0].layers:
        assert layer.norm == 0
        assert layer.anisotropy is None
        assert layer.self_similarity.raw is None
        assert layer.sentence_similarity.raw is None
        assert layer.mev_uncentered.raw is None
    assert measured.cka[0].values[0][1] is None


@pytest.mark.parametrize("layer", [0, 2])
def test_a_value_that_is_not_finite_is_refused(tmp_path, layer):
    sentences = make_sentences(["a b c"])
    array = layers(sentences[0])
    array[layer, 1, 3] = np.nan
    path = write(tmp_path / "a.hdf5", sentences, [array])
    with pytest.raises(EmbeddingsFileError, match=f"a value in layer {layer} is not finite"):
        measure_geometry([path])


def test_vectors_of_sentences_are_refused(tmp_path):
    sentences = make_sentences(LINES)
    arrays = [np.ones((3, DIM), np.float32) for _ in sentences]
    path = write(tmp_path / "a.hdf5", sentences, arrays, header={"pool": "mean"})
    with pytest.raises(UsageError, match="has vectors of sentences, not of tokens"):
        measure_geometry([path])


def test_a_file_that_does_not_store_its_tokens_is_refused(tmp_path):
    path = write(tmp_path / "a.hdf5", make_sentences(LINES), layout="e2e-coref")
    with pytest.raises(UsageError, match="does not store tokens"):
        measure_geometry([path])


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_a_file_without_sentences_is_refused(tmp_path, lines):
    path = write(tmp_path / "a.hdf5", make_sentences(lines))
    with pytest.raises(UsageError, match=r"has no (tokens|sentences)"):
        measure_geometry([path])
