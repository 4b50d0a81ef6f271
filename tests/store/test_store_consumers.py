"""Files of `elmo embed` with a small model, read by the code of each program that reads such files.

Every value is compared with what the embedder gives for the sentence alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
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

PROJECTION = 8  # of `tiny`
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
SPACED = tuple(" ".join(line.split()) for line in DISTINCT)
FLAT_NAMES = tuple(line for line in DISTINCT if "/" not in line)
CONLL_2012 = (
    {
        "doc_key": "bc/cctv/00/cctv_0000_0",
        "sentences": [["What", "kind", "?"], ["Yes", "."], *(["again", str(i)] for i in range(9))],
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
WITHOUT_UNDERSCORES = tuple(
    document for document in ABSTRACTS if document["doc_key"] != "X_in_1/a_2"
)

Vectors = np.ndarray
Alone = Callable[[Iterable[str]], Vectors]
Embed = Callable[..., Path]
Text = tuple[str, ...] | tuple[dict[str, Any], ...]
# The tokens of a sentence, and the array that a program reads for it.
Reader = Iterator[tuple[Iterable[str], Vectors]]


@pytest.fixture(scope="module")
def alone(tiny_bilm: BiLM) -> Alone:
    """The array of tokens by themselves, (layer, token, dim), computed once."""
    embedder = Embedder(tiny_bilm, device="cpu")

    @cache
    def vectors(tokens: tuple[str, ...]) -> Vectors:
        array = embedder.embed(list(tokens))
        array.flags.writeable = False
        return array

    def embed_alone(tokens: Iterable[str]) -> Vectors:
        return vectors(tuple(tokens))

    return embed_alone


@pytest.fixture
def embed(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Embed:
    """`elmo embed` of lines or documents with some options; blocks are small, so there are many."""
    monkeypatch.setattr(blocks, "SENTENCES", 4)

    def command(text: Text, *options: str) -> Path:
        rows = [row if isinstance(row, str) else json.dumps(row) for row in text]
        source = tmp_path / ("in.txt" if rows == list(text) else "in.jsonlines")
        source.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        out = tmp_path / "out.hdf5"
        made("embed", source, "-o", out, "-m", tiny, "--device", "cpu", "-q", *options)
        return out

    return command


def near(vectors: Vectors, expected: Vectors, dtype: str = "<f4") -> None:
    """The same shape, the type of the file, and values to rounding."""
    assert (vectors.dtype, vectors.shape) == (np.dtype(dtype), expected.shape)
    atol = ATOL_ORDER if dtype == "<f4" else 2e-3
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=atol)


# -- how the programs read ------------------------------------------------------------------------


def by_number(file: h5py.File) -> Reader:
    """AllenNLP, bilm-tf, LSGN for CoNLL-2005, span-based SRL; structural probes make a number of
    each other name, in the order of the lines, not 0, 1, 10, 11, 2."""
    indices = [int(name) for name in file if name != "sentence_to_index"]
    assert indices == list(range(len(LINES)))
    for index in indices:
        yield LINES[index].split(), file.get(str(index))[...]


def by_line(file: h5py.File) -> Reader:
    """AllenNLP: the stripped line is the key, a slash in it as well."""
    assert "sentence_to_index" not in file
    assert len(file) == len(DISTINCT)
    for line in DISTINCT:
        yield line.split(), file[f"{line}\n".strip()][()]


def by_map(file: h5py.File) -> Reader:
    """contextual-repr-analysis joins its tokens by a space and asks the map."""
    index = json.loads(file["sentence_to_index"][0])
    for line in SPACED:
        yield line.split(), file[index[line]][()]


def every_name(file: h5py.File) -> Reader:
    """sent_bias takes each name for a sentence of rank three, so nothing else may be there."""
    assert set(file) == set(map(str.strip, FLAT_NAMES))
    for name in file:
        assert file[name].ndim == 3
        yield name.split(), file[name][...]


def neurox(file: h5py.File) -> Reader:
    """What NeuroX reads: the arrays in the order of the entries, one for each line of the text."""
    names = json.loads(file["sentence_to_index"][0]).values()
    assert len(names) == len(LINES)
    for line, name in zip(LINES, names, strict=True):
        yield line.split(), file[name][()]


def by_repeated_lines(file: h5py.File) -> Reader:
    """Every line: of equal ones the map has one under the line; the attribute has the others."""
    names = json.loads(file["sentence_to_index"][0])
    repeated = dict(json.loads(file.attrs["repeated_lines"]))
    lines = {}
    for line, name in names.items():
        if int(name) not in repeated:
            lines[name] = line
    lines |= {str(key): lines[str(named_key)] for key, named_key in repeated.items()}
    assert [lines[key] for key in sorted(lines, key=int)] == [line.strip() for line in LINES]
    for key, line in lines.items():
        yield line.split(), file[key][()]


def e2e_coref(lm_file: h5py.File) -> Reader:
    """It counts a group's members, so anything else in it would be taken for a sentence."""
    assert len(lm_file) == len(CONLL_2012)
    for document in CONLL_2012:
        group = lm_file[document["doc_key"].replace("/", ":")]
        num_sentences = len(list(group.keys()))
        assert num_sentences == len(document["sentences"])
        for i in range(num_sentences):
            yield document["sentences"][i], group[str(i)][...]


def lsgn_ontonotes(lm_file: h5py.File) -> Reader:
    """Parts of a document have no number in its names: sentences count on."""
    seen: dict[str, int] = {}
    names = []
    for document in CONLL_2012:
        doc_key = "_".join(document["doc_key"].split("_")[:-1])
        for tokens in document["sentences"]:
            sentence = seen.get(doc_key, 0)
            seen[doc_key] = sentence + 1
            names.append((doc_key + "/" + str(sentence)).replace("/", ":"))
            yield tokens, lm_file[names[-1]][...].transpose((1, 2, 0))
    assert list(lm_file) == names  # flat: no group


def lsgn(lm_file: h5py.File) -> Reader:
    """It differs from e2e-coref's in the order of axes alone, and turns them."""
    assert list(lm_file) == ["J87-1003", "C02-1", "X_in_1:b"]
    for document in WITHOUT_UNDERSCORES:
        group = lm_file[document["doc_key"].replace("/", ":")]
        assert list(group) == [str(i) for i in range(len(document["sentences"]))]
        for i, tokens in enumerate(document["sentences"]):
            yield tokens, group[str(i)][...].transpose((1, 2, 0))


def dygie(lm_file: h5py.File) -> Reader:
    """By document and number, without turning axes; a `/` nests."""
    assert list(lm_file) == ["J87-1003_0", "J87-1003_1", "X_in_1", "C02-1_0"]
    for document in ABSTRACTS:
        for j, tokens in enumerate(document["sentences"]):
            yield tokens, lm_file[document["doc_key"] + "_" + str(j)][...]


def manylangs(file: h5py.File) -> Reader:
    """One layer per file; `.` and `/` are spelled out in its keys."""
    assert len(file) == len(DISTINCT)
    for line in DISTINCT:
        sent = "\t".join(line.split()).replace(".", "$period$").replace("/", "$backslash$")
        yield line.split(), file[sent][...]


def flat(file: h5py.File) -> Reader:
    """As SCHEMA.md says: rows of `vectors` between two `offsets`, tokens between two ends."""
    assert file["keys"][...].tolist() == list(range(len(LINES)))
    offsets = file["offsets"][...]
    ends = [0, *file["token_ends"][...].tolist()]
    spelled = file["token_bytes"][...].tobytes()
    vectors = file["vectors"]
    mapped = np.memmap(file.filename, "<f4", "r", vectors.id.get_offset(), vectors.shape)
    for number, line in enumerate(LINES):
        begin, end = offsets[number : number + 2]
        tokens = [spelled[ends[i] : ends[i + 1]].decode() for i in range(begin, end)]
        assert tokens == line.split()
        np.testing.assert_array_equal(mapped[begin:end], vectors[begin:end])
        yield tokens, vectors[begin:end].swapaxes(0, 1)


# -- what the files hold of the (layer, token, dim) of a sentence ---------------------------------


def all_layers(vectors: Vectors) -> Vectors:
    return vectors


def top_layer(vectors: Vectors) -> Vectors:
    return vectors[2]


def layer_1(vectors: Vectors) -> Vectors:
    return vectors[1]


def mean_layer(vectors: Vectors) -> Vectors:
    return np.asarray(vectors.mean(0))


def layers_last(vectors: Vectors) -> Vectors:
    return vectors.transpose(1, 2, 0)


SKIP = "--layout manylangs --blank-lines skip --layers"
Case = tuple[Callable[[h5py.File], Reader], Text, str, Callable[[Vectors], Vectors]]
CONSUMERS: list[Case] = [
    (by_number, LINES, "", all_layers),
    (by_number, LINES, "--dtype float16", all_layers),
    (by_number, LINES, "--layers top", top_layer),
    (by_number, LINES, "--layers average", mean_layer),
    (by_number, LINES, "--forget-sentences", all_layers),
    (by_number, LINES, "--layout bilm", all_layers),
    (by_line, DISTINCT, "--use-sentence-keys", all_layers),
    (by_map, SPACED, "", all_layers),
    (by_map, SPACED, "--layers top", top_layer),
    (every_name, FLAT_NAMES, "--use-sentence-keys", all_layers),
    (by_repeated_lines, LINES, "", all_layers),
    (by_repeated_lines, LINES, "--sentence-map occurrences --layers top", top_layer),
    (neurox, LINES, "--sentence-map occurrences", all_layers),
    (e2e_coref, CONLL_2012, "--layout e2e-coref", layers_last),
    (lsgn_ontonotes, CONLL_2012, "--layout lsgn", layers_last),
    (lsgn, WITHOUT_UNDERSCORES, "--layout lsgn", layers_last),
    (dygie, ABSTRACTS, "--layout dygie", layers_last),
    (manylangs, LINES, f"{SKIP} 1", layer_1),
    (manylangs, LINES, f"{SKIP} average", mean_layer),
    (flat, LINES, "--layout flat", all_layers),
]


@pytest.mark.parametrize("case", CONSUMERS)
def test_each_program_finds_every_sentence(embed: Embed, alone: Alone, case: Case) -> None:
    """Another name, or order of sentences or axes, and it trains on other vectors."""
    reader, text, options, of_layers = case
    dtype = "<f2" if "float16" in options else "<f4"
    with h5py.File(embed(text, *options.split())) as file:
        pairs = list(reader(file))
        check_form(file)
    assert pairs
    for tokens, array in pairs:
        near(array, of_layers(alone(tokens)), dtype)


def check_form(file: h5py.File) -> None:
    """Facts are attributes of the root only; values are contiguous and uncompressed."""
    assert file.attrs["complete"]
    assert len(file.attrs["model_sha256"]) == len(file.attrs["text_sha256"]) == 64

    def check(name: str, item: h5py.Dataset | h5py.Group) -> None:
        assert not item.attrs
        if isinstance(item, h5py.Dataset) and name != "sentence_to_index":
            assert (item.chunks, item.compression) == (None, None)

    file.visititems(check)


def test_bilm_tf_gives_its_token_cache_a_row_of_zeros(embed: Embed, alone: Alone) -> None:
    """Row i + 1 of its weights is line i of the vocabulary, the borders of sentences as well."""
    types = ("<S>", "</S>", "<UNK>", "the", "cat", "日本語", ".", "/", "Cat", "the" * 30)
    with h5py.File(embed(types, "--layout", "bilm-types"), "r") as fin:
        assert list(fin) == ["embedding"]
        assert (fin.attrs["sentences"], fin.attrs["layers"]) == (len(types), "0")
        n_tokens_vocab = fin["embedding"].shape[0] + 1
        embed_weights = fin["embedding"][...]
    weights = np.zeros((n_tokens_vocab, embed_weights.shape[1]), dtype=np.float32)
    weights[1:, :] = embed_weights
    assert weights.shape == (len(types) + 1, PROJECTION)
    for row, vocabulary_type in enumerate(types, start=1):
        token_layer = alone([vocabulary_type])[0, 0]
        for half in (token_layer[:PROJECTION], token_layer[PROJECTION:]):
            near(weights[row], half)
