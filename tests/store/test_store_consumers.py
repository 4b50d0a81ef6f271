"""Each program that reads such files, played on a file of ours in its own manner of reading."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from reader_files import DIM, array, documents, lines, write, write_types

from elmo_cli.text.sentence import Sentence

# Consumers that look sentences up by their text can't tell equal lines apart.
DISTINCT = lines(blank=False, repeats=False)
NUMBERED = [Sentence(s.tokens, key, s.text, s.source, key + 1) for key, s in enumerate(DISTINCT)]


def test_a1_allennlp_all_layers_by_line_number(tmp_path: Path) -> None:
    """AllenNLP's own tutorial: the file has the lines' numbers, three layers of each."""
    with h5py.File(write(tmp_path / "a.hdf5", lines(), layout="allennlp"), "r") as file:
        assert len(file.keys()) == len(lines()) + 1
        for number, sentence in enumerate(lines()):
            embedding = file.get(str(number))
            assert len(embedding) == 3
            assert len(embedding[0]) == len(sentence.tokens)
            assert embedding.dtype == np.dtype("<f4")
            np.testing.assert_array_equal(embedding[...], array(sentence))


def test_a2_allennlp_top_and_average_are_known_by_rank_two(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", lines(), layout="allennlp", layers=None)
    with h5py.File(path, "r") as file:
        for sentence in lines():
            embedding = file[str(sentence.key)]
            assert embedding.ndim == 2
            np.testing.assert_array_equal(embedding[()], array(sentence, None))


def test_a3_allennlp_by_the_line_itself(tmp_path: Path) -> None:
    """The reader takes the stripped line for the key, a slash in it as well."""
    path = write(tmp_path / "a.hdf5", DISTINCT, layout="allennlp", keys="sentence")
    with h5py.File(path, "r") as file:
        assert "sentence_to_index" not in file
        for sentence in DISTINCT:
            np.testing.assert_array_equal(file[f"{sentence.text}\n".strip()][()], array(sentence))


def test_a4_sentence_to_index_leads_from_a_line_to_its_last_occurrence(tmp_path: Path) -> None:
    with h5py.File(write(tmp_path / "a.hdf5", lines(), layout="allennlp"), "r") as file:
        stored = file["sentence_to_index"]
        assert stored.shape == (1,)
        index = json.loads(stored[0])
        expected = {sentence.text: str(sentence.key) for sentence in lines()}
        assert list(index.items()) == list(expected.items())
        assert stored[0] == json.dumps(expected).encode()
        np.testing.assert_array_equal(file[index["Yes ."]][()], array(lines()[9]))


def test_b1_bilm_tf_dump_by_line_number_with_blank_lines(tmp_path: Path) -> None:
    """The usage example reads the second line; a blank line is there with no tokens."""
    with h5py.File(write(tmp_path / "b.hdf5", lines(), layout="bilm"), "r") as fin:
        np.testing.assert_array_equal(fin["1"][...], array(lines()[1]))
        assert fin["2"][...].shape == (3, 0, DIM)
        assert len(fin) == len(lines())


def test_b2_bilm_tf_token_cache_gets_a_row_of_zeros_in_front(tmp_path: Path) -> None:
    with h5py.File(write_types(tmp_path / "b.hdf5", 7), "r") as fin:
        assert list(fin) == ["embedding"]
        embeddings = fin["embedding"]
        weights = np.zeros((embeddings.shape[0] + 1, embeddings.shape[1]), dtype=np.float32)
        weights[1:, :] = embeddings[...]
    assert weights.shape == (8, DIM)
    np.testing.assert_array_equal(weights[:, 0], [0, 0, 1, 2, 3, 4, 5, 6])


CONLL = ("bc/cctv/00/cctv_0000_0", "nw/wsj/24/wsj_2400_3")


def test_c1_e2e_coref_counts_the_group_and_pads(tmp_path: Path) -> None:
    """It counts a group's members, so anything else in it would be taken for a sentence."""
    sentences = documents(*CONLL, n_places=11)
    with h5py.File(write(tmp_path / "c.hdf5", sentences, layout="e2e-coref"), "r") as lm_file:
        for doc_key in CONLL:
            mine = [s for s in sentences if s.document == doc_key]
            group = lm_file[doc_key.replace("/", ":")]
            n_sentences = len(list(group.keys()))
            assert n_sentences == len(mine)
            cached = [group[str(i)][...] for i in range(n_sentences)]
            padded = np.zeros((n_sentences, max(len(c) for c in cached), DIM, 3), np.float32)
            for i, c in enumerate(cached):
                padded[i, : c.shape[0], :, :] = c
            for i, sentence in enumerate(mine):
                expected = array(sentence).transpose(1, 2, 0)  # token, dim, layer
                np.testing.assert_array_equal(padded[i, : len(sentence.tokens)], expected)
                assert not padded[i, len(sentence.tokens) :].any()


def lsgn_key_of_ontonotes(doc_key: str, sentence: int) -> str:
    """Document without its part and number over all parts, slashes as colons."""
    stem = "_".join(doc_key.split("_")[:-1])
    return (stem + "/" + str(sentence)).replace("/", ":")


def test_c2_lsgn_ontonotes_flat_names_over_parts(tmp_path: Path) -> None:
    """Parts of one document follow each other by their offset; it turns the axes itself."""
    parts = ("bc/cctv/00/cctv_0000_0", "bc/cctv/00/cctv_0000_1")
    sentences = documents(*parts)
    with h5py.File(write(tmp_path / "c.hdf5", sentences, layout="lsgn"), "r") as lm_file:
        for sentence in sentences:
            assert sentence.document is not None
            key = lsgn_key_of_ontonotes(sentence.document, sentence.offset + sentence.place)
            np.testing.assert_array_equal(
                lm_file[key][...].transpose((1, 2, 0)), array(sentence).transpose(1, 2, 0)
            )


def test_c3_lsgn_conll05_by_number_without_the_letter(tmp_path: Path) -> None:
    for layout in ("allennlp", "bilm"):
        with h5py.File(write(tmp_path / layout, NUMBERED, layout=layout), "r") as lm_file:
            for sentence in NUMBERED:
                doc_key = f"S{sentence.key}"
                found = lm_file[doc_key[1:]][...].transpose((1, 2, 0))
                np.testing.assert_array_equal(found, array(sentence).transpose(1, 2, 0))


def test_c4_lsgn_otherwise_a_group_a_document(tmp_path: Path) -> None:
    sentences = documents("J87-1003", "a/b")
    with h5py.File(write(tmp_path / "c.hdf5", sentences, layout="lsgn"), "r") as lm_file:
        for doc_key in ("J87-1003", "a/b"):
            group = lm_file[doc_key.replace("/", ":")]
            for i, sentence in enumerate(s for s in sentences if s.document == doc_key):
                found = group[str(i)][...].transpose((1, 2, 0))
                np.testing.assert_array_equal(found, array(sentence).transpose(1, 2, 0))
            assert len(group) == 3


def test_c5_dygie_by_document_and_number_without_turning_axes(tmp_path: Path) -> None:
    sentences = documents("J87-1003", "X_in_1/a_2")
    with h5py.File(write(tmp_path / "c.hdf5", sentences, layout="dygie"), "r") as lm_file:
        for sentence in sentences:
            found = lm_file[f"{sentence.document}_{sentence.place}"][...]
            assert found.shape == (len(sentence.tokens), DIM, 3)
            np.testing.assert_array_equal(found, array(sentence).transpose(1, 2, 0))


def test_d1_manylangs_by_tab_joined_tokens(tmp_path: Path) -> None:
    path = write(tmp_path / "d.ly-1.hdf5", lines(blank=False), layout="manylangs", layers=None)
    with h5py.File(path, "r") as file:
        assert len(file) == len(DISTINCT)
        for sentence in DISTINCT:
            key = "\t".join(sentence.tokens)
            key = key.replace(".", "$period$").replace("/", "$backslash$")
            found = file[key][...]
            assert found.shape == (len(sentence.tokens), DIM)
            np.testing.assert_array_equal(found, array(sentence, None))


@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"forget_sentences": True}])
def test_e1_structural_probes_makes_a_number_of_every_name(
    tmp_path: Path, layer: int, options: dict[str, bool]
) -> None:
    """It calls int() on each name but one: any other dataset of ours would end it."""
    with h5py.File(write(tmp_path / "e.hdf5", lines(), layout="allennlp", **options), "r") as file:
        indices = [int(name) for name in file if name != "sentence_to_index"]
        assert sorted(indices) == list(range(len(lines())))
        for index in sorted(indices):
            single_layer = file[str(index)][layer]
            assert single_layer.shape[0] == len(lines()[index].tokens)
            np.testing.assert_array_equal(single_layer, array(lines()[index])[layer])


def test_e2_contextual_repr_analysis_through_the_map(tmp_path: Path) -> None:
    """It joins its tokens by a space and asks the map; it may take half of the dim."""
    for layers in (3, None):
        path = write(tmp_path / f"{layers}", NUMBERED, layout="allennlp", layers=layers)
        with h5py.File(path, "r") as file:
            index = json.loads(file["sentence_to_index"][0])
            for sentence in NUMBERED:
                found = file[index[" ".join(sentence.tokens)]][()]
                chosen = found[2] if found.ndim == 3 else found
                half = np.split(chosen, 2, axis=-1)[1]
                expected = array(sentence, layers)
                expected = expected[2] if expected.ndim == 3 else expected
                np.testing.assert_array_equal(half, expected[:, DIM // 2 :])


def test_e3_span_based_srl_by_index_tokens_first(tmp_path: Path) -> None:
    with h5py.File(write(tmp_path / "e.hdf5", lines(), layout="allennlp"), "r") as elmo_emb:
        for index, sentence in enumerate(lines()):
            found = np.transpose(elmo_emb[str(index)][...], (1, 0, 2))
            assert len(found) == len(sentence.tokens)
            np.testing.assert_array_equal(found, array(sentence).transpose(1, 0, 2))


@pytest.mark.parametrize("options", [{"keys": "sentence"}, {"forget_sentences": True}])
def test_e4_sent_bias_takes_every_name_for_a_sentence_of_rank_three(
    tmp_path: Path, options: dict[str, str | bool]
) -> None:
    """It iterates all names, so nothing but sentences may be there. A / would nest, as with A3."""
    sentences = [s for s in NUMBERED if "/" not in s.text]
    path = write(tmp_path / "e.hdf5", sentences, layout="allennlp", **options)
    encodings = {}
    with h5py.File(path, "r") as file:
        for name in file:
            vectors = file[name][...]
            assert vectors.ndim == 3
            encodings[name] = vectors.mean(axis=1).flatten()
    assert len(encodings) == len(sentences)
    for sentence in sentences:
        name = sentence.text if options.get("keys") else str(sentence.key)
        expected = array(sentence).mean(axis=1).flatten()
        np.testing.assert_array_equal(encodings[name], expected)
