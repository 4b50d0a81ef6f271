"""Files of `elmo embed` with a small model, read by the code of each program that reads such files.

Every value is compared with what the embedder gives for the sentence alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import made
from tolerance import ATOL_ORDER

from elmo_cli.embed import blocks
from elmo_cli.embed.embedder import Embedder
from elmo_cli.model.bilm import BiLM

DIM, PROJECTION = 16, 8  # of `tiny`
LINES = (
    "The cat sat on the mat .",
    "A dog",
    "",
    "Yes .",
    "He said / she said",
    "  indented, with a\ttab and  two spaces  ",
    "Yes .",
    'naïve 日本語 "quoted" \\ tokens 😀',
    "7",
    "A dog",
    "Yes .",
    "eleven , so that ten sorts after nine",
)
DISTINCT = tuple(dict.fromkeys(filter(None, LINES)))

Vectors = np.ndarray
Alone = Callable[..., Vectors]
Embed = Callable[..., Path]


@pytest.fixture
def alone(tiny_bilm: BiLM) -> Alone:
    """The array of a line or of tokens by itself, (layer, token, dim) unless `layers` is given."""

    def computed(text: str | Iterable[str], **settings: Any) -> Vectors:
        tokens = text.split() if isinstance(text, str) else list(text)
        return Embedder(tiny_bilm, device="cpu", **settings).embed(tokens)

    return computed


@pytest.fixture
def embed(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Embed:
    """`elmo embed` of lines or documents with some options; blocks are small, so there are many."""
    monkeypatch.setattr(blocks, "SENTENCES", 4)

    def command(text: Iterable[str | dict[str, Any]], *options: str, name: str = "") -> Path:
        rows = [row if isinstance(row, str) else json.dumps(row) for row in text]
        suffix = "txt" if rows == list(text) else "jsonlines"
        source = tmp_path / f"in.{suffix}"
        source.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        out = tmp_path / (name or "out.hdf5")
        made("embed", source, "-o", out, "-m", tiny, "--device", "cpu", "-q", *options)
        return out

    return command


def near(found: Vectors, expected: Vectors, dtype: str = "<f4") -> None:
    """The same shape, the type of the file, and values to rounding."""
    assert found.dtype == np.dtype(dtype)
    assert found.shape == expected.shape
    atol = ATOL_ORDER if dtype == "<f4" else 2e-3
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def check_form(file: h5py.File, lines: Iterable[Iterable[str]], **facts: object) -> None:
    """Facts are attributes of the root only; values are contiguous and uncompressed."""
    tokens = [list(line) for line in lines]
    said = {
        "dtype": "float32",
        "layers": "all",
        "state": "zero",
        "sentences": len(tokens),
        "tokens": sum(map(len, tokens)),
        "complete": True,
        **facts,
    }
    assert {name: file.attrs[name] for name in said} == said
    assert len(file.attrs["model_sha256"]) == len(file.attrs["text_sha256"]) == 64

    def check(name: str, item: h5py.Dataset | h5py.Group) -> None:
        assert not item.attrs
        if isinstance(item, h5py.Dataset) and name != "sentence_to_index":
            assert item.dtype == np.dtype("<f2" if said["dtype"] == "float16" else "<f4")
            assert (item.chunks, item.compression) == (None, None)

    file.visititems(check)


def split(lines: Iterable[str]) -> list[list[str]]:
    return [line.split() for line in lines]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a1_allennlp_all_layers_by_line_number(embed: Embed, alone: Alone, dtype: str) -> None:
    """AllenNLP's tutorial: `get` a line's number, three layers, then one entry a word."""
    with h5py.File(embed(LINES, "--dtype", dtype), "r") as h5py_file:
        names = [*map(str, range(len(LINES))), "sentence_to_index"]
        assert list(h5py_file) == names  # in the order of the lines, not 0, 1, 10, 11, 2
        check_form(h5py_file, split(LINES), layout="allennlp", keys="number", dtype=dtype)
        for number, line in enumerate(LINES):
            embedding = h5py_file.get(str(number))
            assert len(embedding) == 3
            assert len(embedding[0]) == len(line.split())
            near(embedding[...], alone(line), "<f4" if dtype == "float32" else "<f2")


@pytest.mark.parametrize("layers", ["top", "average"])
def test_a2_allennlp_top_and_average_are_known_by_rank_two(
    embed: Embed, alone: Alone, layers: str
) -> None:
    with h5py.File(embed(LINES, "--layers", layers), "r") as file:
        assert set(file) == {*map(str, range(len(LINES))), "sentence_to_index"}
        check_form(file, split(LINES), layout="allennlp", layers=layers)
        for number, line in enumerate(LINES):
            embedding, whole = file[str(number)], alone(line)
            assert embedding.ndim == 2
            near(embedding[()], whole[2] if layers == "top" else whole.mean(0))


def test_a3_allennlp_by_the_line_itself(embed: Embed, alone: Alone) -> None:
    """The reader takes the stripped line for the key, a slash in it as well."""
    with h5py.File(embed(DISTINCT, "--use-sentence-keys"), "r") as file:
        assert "sentence_to_index" not in file
        check_form(file, split(DISTINCT), layout="allennlp", keys="sentence")
        for line in DISTINCT:
            near(file[f"{line}\n".strip()][()], alone(line))
        assert len(file) == len(DISTINCT)


def test_a4_sentence_to_index_leads_from_a_line_to_its_last_occurrence(
    embed: Embed, alone: Alone
) -> None:
    with h5py.File(embed(LINES), "r") as file:
        stored = file["sentence_to_index"]
        assert (stored.shape, h5py.check_string_dtype(stored.dtype).encoding) == ((1,), "utf-8")
        index = json.loads(stored[0])
        expected = {line.strip(): str(number) for number, line in enumerate(LINES)}
        assert list(index.items()) == list(expected.items())
        assert stored[0] == json.dumps(expected).encode()
        assert index["Yes ."] == "10"
        for line in LINES:
            near(file[index[line.strip()]][()], alone(line))


def test_b1_bilm_tf_dump_by_line_number_with_blank_lines(embed: Embed, alone: Alone) -> None:
    """The usage example reads the second line; a blank line is there with no tokens."""
    with h5py.File(embed(LINES, "--layout", "bilm"), "r") as fin:
        second_sentence_embeddings = fin["1"][...]
        near(second_sentence_embeddings, alone(LINES[1]))
        assert fin["2"][...].shape == (3, 0, DIM)
        assert list(fin) == [str(number) for number in range(len(LINES))]
        check_form(fin, split(LINES), layout="bilm")
        for number, line in enumerate(LINES):
            near(fin[str(number)][...], alone(line))


def test_b2_bilm_tf_token_cache_gets_a_row_of_zeros_in_front(embed: Embed, alone: Alone) -> None:
    """Row i + 1 of its weights is line i of the vocabulary, the borders of sentences as well."""
    types = ["<S>", "</S>", "<UNK>", "the", "cat", "日本語", ".", "/", "Cat", "the" * 30]
    with h5py.File(embed(types, "--layout", "bilm-types"), "r") as fin:
        assert list(fin) == ["embedding"]
        assert fin.attrs["layout"] == "bilm-types"
        assert (fin.attrs["sentences"], fin.attrs["layers"]) == (len(types), "0")
        n_tokens_vocab = fin["embedding"].shape[0] + 1
        embed_weights = fin["embedding"][...]
    weights = np.zeros((n_tokens_vocab, embed_weights.shape[1]), dtype=np.float32)
    weights[1:, :] = embed_weights
    assert embed_weights.dtype == np.dtype("<f4")
    assert weights.shape == (len(types) + 1, PROJECTION)
    assert not weights[0].any()
    for row, one in enumerate(types, start=1):
        token_layer = alone([one])[0, 0]
        for half in (token_layer[:PROJECTION], token_layer[PROJECTION:]):
            near(weights[row], half)


AGAIN = [["again", str(i)] for i in range(9)]
CONLL_2012 = (
    {
        "doc_key": "bc/cctv/00/cctv_0000_0",
        "sentences": [["What", "kind", "?"], ["Yes", "."], *AGAIN],
    },
    {"doc_key": "bc/cctv/00/cctv_0000_1", "sentences": [["The", "next", "part"], ["ends", "."]]},
    {"doc_key": "nw/wsj/24/wsj_2400_3", "sentences": [["One", "sentence", "of", "five", "/"]]},
)
ABSTRACTS = (
    {"doc_key": "J87-1003", "sentences": [["We", "parse", "."], ["It", "works", "."]]},
    {"doc_key": "X_in_1/a_2", "sentences": [["A", "slash"], ["in", "the", "key"]]},
    {"doc_key": "C02-1", "sentences": [["between"]]},
    {"doc_key": "X_in_1/b", "sentences": [["once", "more"]]},
)


def sentences_of(documents: Iterable[dict[str, Any]]) -> list[list[str]]:
    return [tokens for document in documents for tokens in document["sentences"]]


def test_c1_e2e_coref_counts_the_group_and_pads(embed: Embed, alone: Alone) -> None:
    """It counts a group's members, so anything else in it would be taken for a sentence."""
    with h5py.File(embed(CONLL_2012, "--layout", "e2e-coref"), "r") as lm_file:
        check_form(lm_file, sentences_of(CONLL_2012), layout="e2e-coref")
        assert len(lm_file) == len(CONLL_2012)
        for document in CONLL_2012:
            group = lm_file[document["doc_key"].replace("/", ":")]
            num_sentences = len(list(group.keys()))
            assert num_sentences == len(document["sentences"])
            cached = [group[str(i)][...] for i in range(num_sentences)]
            lm_emb = np.zeros([num_sentences, max(s.shape[0] for s in cached), DIM, 3])
            for i, s in enumerate(cached):
                lm_emb[i, : s.shape[0], :, :] = s
            for i, tokens in enumerate(document["sentences"]):
                near(cached[i], alone(tokens).transpose(1, 2, 0))  # token, dim, layer
                np.testing.assert_array_equal(lm_emb[i, : len(tokens)], cached[i])
                assert not lm_emb[i, len(tokens) :].any()


def test_c2_lsgn_ontonotes_flat_names_over_parts(embed: Embed, alone: Alone) -> None:
    """Parts of a document have no number in its names: sentences count on; it turns the axes."""
    with h5py.File(embed(CONLL_2012, "--layout", "lsgn"), "r") as lm_file:
        check_form(lm_file, sentences_of(CONLL_2012), layout="lsgn")
        seen: dict[str, int] = {}
        names = []
        for document in CONLL_2012:
            doc_key = "_".join(document["doc_key"].split("_")[:-1])
            for tokens in document["sentences"]:
                sentence = seen.get(doc_key, 0)
                seen[doc_key] = sentence + 1
                names.append((doc_key + "/" + str(sentence)).replace("/", ":"))
                near(lm_file[names[-1]][...].transpose((1, 2, 0)), alone(tokens).transpose(1, 2, 0))
        assert list(lm_file) == names  # flat: no group


@pytest.mark.parametrize("layout", ["allennlp", "bilm"])
def test_c3_lsgn_conll05_by_number_without_the_letter(
    embed: Embed, alone: Alone, layout: str
) -> None:
    with h5py.File(embed(LINES, "--layout", layout), "r") as lm_file:
        for number, line in enumerate(LINES):
            doc_key = f"S{number}"
            found = lm_file[doc_key[1:]][...].transpose((1, 2, 0))
            near(found, alone(line).transpose(1, 2, 0))


def test_c4_lsgn_otherwise_a_group_a_document(embed: Embed, alone: Alone) -> None:
    """It differs from e2e-coref's in the order of axes alone."""
    documents = [document for document in ABSTRACTS if document["doc_key"] != "X_in_1/a_2"]
    with h5py.File(embed(documents, "--layout", "lsgn"), "r") as lm_file:
        check_form(lm_file, sentences_of(documents), layout="lsgn")
        assert list(lm_file) == ["J87-1003", "C02-1", "X_in_1:b"]
        for document in documents:
            group = lm_file[document["doc_key"].replace("/", ":")]
            assert list(group) == [str(i) for i in range(len(document["sentences"]))]
            for i, tokens in enumerate(document["sentences"]):
                found = group[str(i)][...].transpose((1, 2, 0))
                near(found, alone(tokens).transpose(1, 2, 0))


def test_c5_dygie_by_document_and_number_without_turning_axes(embed: Embed, alone: Alone) -> None:
    with h5py.File(embed(ABSTRACTS, "--layout", "dygie"), "r") as lm_file:
        check_form(lm_file, sentences_of(ABSTRACTS), layout="dygie")
        assert list(lm_file) == ["J87-1003_0", "J87-1003_1", "X_in_1", "C02-1_0"]  # `/` nests
        for document in ABSTRACTS:
            for j, tokens in enumerate(document["sentences"]):
                found = lm_file[document["doc_key"] + "_" + str(j)][...]
                assert found.shape == (len(tokens), DIM, 3)
                near(found, alone(tokens).transpose(1, 2, 0))


@pytest.mark.parametrize(("layers", "layer"), [("1", "1"), ("average", -1)])
def test_d1_manylangs_by_tab_joined_tokens(
    embed: Embed, alone: Alone, layers: str, layer: str | int
) -> None:
    """One layer a file, -1 for the mean of all; `.` and `/` are spelled out in its keys."""
    options = ("--layout", "manylangs", "--layers", layers, "--blank-lines", "skip")
    with h5py.File(embed(LINES, *options, name=f"out.ly{layer}.hdf5"), "r") as file:
        check_form(file, split(DISTINCT), layout="manylangs", layers=layers, duplicate_sentences=3)
        assert len(file) == len(DISTINCT)
        for line in DISTINCT:
            sent = "\t".join(line.split()).replace(".", "$period$").replace("/", "$backslash$")
            whole = alone(line)
            near(file[sent][...], whole.mean(0) if layers == "average" else whole[int(layers)])


def test_flat_is_read_by_offsets(embed: Embed, alone: Alone) -> None:
    """As SCHEMA.md says: rows of `vectors` between two `offsets`, tokens between two ends."""
    out = embed(LINES, "--layout", "flat")
    with h5py.File(out, "r") as file:
        assert set(file) == {
            *("vectors", "offsets", "keys", "token_bytes", "token_ends"),
            *("text_bytes", "text_ends"),  # for the line with two spaces in a row
        }
        assert file["vectors"].shape == (sum(len(line.split()) for line in LINES), 3, DIM)
        assert file["vectors"].dtype == np.dtype("<f4")
        assert file["keys"][...].tolist() == list(range(len(LINES)))
        offsets, ends = file["offsets"][...], [0, *file["token_ends"][...].tolist()]
        spelled = file["token_bytes"][...].tobytes()
        for number, line in enumerate(LINES):
            begin, end = offsets[number : number + 2]
            near(file["vectors"][begin:end].swapaxes(0, 1), alone(line))
            tokens = [spelled[ends[i] : ends[i + 1]].decode() for i in range(begin, end)]
            assert tokens == line.split()
        assert file.attrs["layout"] == "flat"
        assert file.attrs["complete"]
        offset, shape = file["vectors"].id.get_offset(), file["vectors"].shape
    mapped = np.memmap(out, "<f4", "r", offset, shape)
    near(np.asarray(mapped[: offsets[1]]).swapaxes(0, 1), alone(LINES[0]))


@pytest.mark.parametrize("options", [(), ("--forget-sentences",)])
def test_e1_structural_probes_makes_a_number_of_every_name(
    embed: Embed, alone: Alone, options: tuple[str, ...]
) -> None:
    """It calls int() on each name but one: any other dataset of ours would end it."""
    with h5py.File(embed(LINES, *options), "r") as file:
        indices = [int(name) for name in file if name != "sentence_to_index"]
        assert sorted(indices) == list(range(len(LINES)))
        for index, layer in product(sorted(indices), range(3)):
            single_layer = file[str(index)][layer]
            assert single_layer.shape[0] == len(LINES[index].split())
            near(single_layer, alone(LINES[index])[layer])


@pytest.mark.parametrize("layers", ["all", "top"])
def test_e2_contextual_repr_analysis_through_the_map(
    embed: Embed, alone: Alone, layers: str
) -> None:
    """It joins its tokens by a space and asks the map; it may take half of the dim."""
    spaced = [" ".join(line.split()) for line in DISTINCT]
    with h5py.File(embed(spaced, "--layers", layers), "r") as file:
        index = json.loads(file["sentence_to_index"][0])
        for tokens in split(spaced):
            found = file[index[" ".join(tokens)]][()]
            chosen = found[2] if found.ndim == 3 else found
            near(np.split(chosen, 2, axis=-1)[1], alone(tokens)[2][:, DIM // 2 :])


def test_e3_span_based_srl_by_index_tokens_first(embed: Embed, alone: Alone) -> None:
    with h5py.File(embed(LINES), "r") as elmo_emb:
        for index, line in enumerate(LINES):
            found = np.transpose(elmo_emb[str(index)][...], (1, 0, 2))
            assert len(found) == len(line.split())
            near(found, alone(line).transpose(1, 0, 2))


@pytest.mark.parametrize("options", [("--use-sentence-keys",), ("--forget-sentences",)])
def test_e4_sent_bias_takes_every_name_for_a_sentence_of_rank_three(
    embed: Embed, alone: Alone, options: tuple[str, ...]
) -> None:
    """It iterates all names, so nothing but sentences may be there. A / would nest, as with A3."""
    texts = [line for line in DISTINCT if "/" not in line]
    encodings = {}
    with h5py.File(embed(texts, *options), "r") as file:
        for name in file:
            vectors = file[name][...]
            assert vectors.ndim == 3
            encodings[name] = vectors.mean(axis=1).flatten()
    assert len(encodings) == len(texts)
    for number, line in enumerate(texts):
        name = line.strip() if "--use-sentence-keys" in options else str(number)
        near(encodings[name], alone(line).mean(axis=1).flatten())


@pytest.mark.parametrize("layers", ["all", "top"])
def test_e5_neurox_expects_one_entry_for_each_sentence(
    embed: Embed, alone: Alone, layers: str
) -> None:
    """Of equal lines the map has only the last; these are the lines of `docs/inputs.md`."""
    with h5py.File(embed(LINES, "--layers", layers), "r") as file:
        lines = {key: line for line, key in json.loads(file["sentence_to_index"][0]).items()}
        repeated = json.loads(file.attrs.get("repeated_lines", "[]"))
        lines |= {str(key): lines[str(last)] for key, last in repeated}
        sentences = [lines[key] for key in sorted(lines, key=int)]
        assert sentences == [line.strip() for line in LINES]
        for number, line in enumerate(sentences):
            found, whole = file[str(number)][()], alone(line)
            near(found, whole if layers == "all" else whole[2])
