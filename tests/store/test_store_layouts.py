"""Each layout's exact keys, shapes and types, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import writer_runs
from writer_runs import array, sentences

from elmo_cli.errors import InputError, OutputError, UsageError
from elmo_cli.store import schema
from elmo_cli.store.attributes import read_attributes
from elmo_cli.store.layouts import LAYOUTS
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence


def datasets(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Path of every dataset, in the order of the file -> shape, type."""
    found: dict[str, tuple[tuple[int, ...], str]] = {}

    def note(folder: h5py.Group, above: str) -> None:
        for name, member in folder.items():
            if isinstance(member, h5py.Group):
                note(member, f"{above}{name}/")
            else:
                found[f"{above}{name}"] = (member.shape, member.dtype.str)

    with h5py.File(path, "r") as file:
        note(file, "")
    return found


def sentence(key: int, text: str, **named: Any) -> Sentence:
    return Sentence(tuple(text.split()), key, text, "in.txt", key + 1, **named)


def write(
    out: Path, given: list[Sentence], *, header: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Write arrays (3, token, 4), a commit after each sentence; the attributes."""
    with EmbeddingsWriter.create(out, header=header or {}, **options) as writer:
        for one in given:
            writer.append(one, array(one))
            writer.commit("")
        writer.finish({})
    with h5py.File(out, "r") as file:
        return read_attributes(file)


@pytest.mark.parametrize(
    ("layout", "options", "expected"),
    [
        (
            "allennlp",
            {},
            {
                "0": ((3, 1, 4), "<f4"),
                "1": ((3, 2, 4), "<f4"),
                "2": ((3, 3, 4), "<f4"),
                "3": ((3, 1, 4), "<f4"),
                "sentence_to_index": ((1,), "|O"),
            },
        ),
        (
            "bilm",
            {"dtype": "float16"},
            {str(key): ((3, 1 + key % 3, 4), "<f2") for key in range(4)},
        ),
        (
            "e2e-coref",
            {},
            {
                "bc:cctv:00:cctv_0000_0/0": ((1, 4, 3), "<f4"),
                "bc:cctv:00:cctv_0000_0/1": ((2, 4, 3), "<f4"),
                "bc:cctv:00:cctv_0000_0/2": ((3, 4, 3), "<f4"),
                "bc:cctv:00:cctv_0001_1/0": ((1, 4, 3), "<f4"),
            },
        ),
        (
            "lsgn",
            {},
            {
                "bc:cctv:00:cctv_0000:0": ((3, 1, 4), "<f4"),
                "bc:cctv:00:cctv_0000:1": ((3, 2, 4), "<f4"),
                "bc:cctv:00:cctv_0000:2": ((3, 3, 4), "<f4"),
                "bc:cctv:00:cctv_0001:0": ((3, 1, 4), "<f4"),
            },
        ),
        (
            "dygie",
            {},
            {
                "bc/cctv/00/cctv_0000_0_0": ((1, 4, 3), "<f4"),
                "bc/cctv/00/cctv_0000_0_1": ((2, 4, 3), "<f4"),
                "bc/cctv/00/cctv_0000_0_2": ((3, 4, 3), "<f4"),
                "bc/cctv/00/cctv_0001_1_0": ((1, 4, 3), "<f4"),
            },
        ),
        (
            "manylangs",
            {},
            {
                "t0$period$0$backslash$é": ((1, 4), "<f4"),
                "t1$period$0$backslash$é\tt1$period$1$backslash$é": ((2, 4), "<f4"),
                "t2$period$0$backslash$é\tt2$period$1$backslash$é\tt2$period$2$backslash$é": (
                    (3, 4),
                    "<f4",
                ),
                "t2$period$0$backslash$é": ((1, 4), "<f4"),
            },
        ),
    ],
)
def test_keys_shapes_types(
    tmp_path: Path, layout: str, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Another name, axis order or type, and the consumers of the layout find nothing."""
    out = tmp_path / "out.hdf5"
    writer_runs.run(out, layout=layout, n=4, **options)
    assert datasets(out) == expected
    assert list(datasets(out)) == list(expected)


VIEWS: dict[str, Callable[[h5py.File, Sentence], np.ndarray]] = {
    "allennlp": lambda file, one: file[str(one.key)][...],
    "bilm": lambda file, one: file[str(one.key)][...],
    "e2e-coref": lambda file, one: file[str(one.document).replace("/", ":")][str(one.place)][
        ...
    ].transpose(2, 0, 1),
    "lsgn": lambda file, one: file[f"{str(one.document)[:-2]}/{one.place}".replace("/", ":")][...],
    "dygie": lambda file, one: file[f"{one.document}_{one.place}"][...].transpose(2, 0, 1),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", [*VIEWS, "flat"])
def test_arrays_of_any_strides(tmp_path: Path, layout: str, dtype: str) -> None:
    """Arrays cut from a batch have their layers apart; their values must not be taken in a row."""
    given = sentences(6)
    in_a_row = [array(one) for one in given]
    ends = np.cumsum([len(one.tokens) for one in given])
    layers_apart = np.split(np.concatenate(in_a_row, 1), ends[:-1], 1)
    tokens_first = [one.transpose(1, 0, 2).copy().transpose(1, 0, 2) for one in in_a_row]
    written = []
    for n, arrays in enumerate((in_a_row, layers_apart, tokens_first)):
        out = tmp_path / f"{n}.hdf5"
        with EmbeddingsWriter.create(out, layout=layout, dtype=dtype, header={}) as writer:
            for one, values in zip(given, arrays, strict=True):
                writer.append(one, values)
            writer.commit("")
            writer.finish({})
        written.append(out.read_bytes())
    assert written[0] == written[1] == written[2]


@pytest.mark.parametrize("layout", VIEWS)
def test_values(tmp_path: Path, layout: str) -> None:
    """Values written past HDF5 must stand where HDF5 reads them, with the axes in their places."""
    out = tmp_path / "out.hdf5"
    writer_runs.run(out, layout=layout, n=12, block=5)
    with h5py.File(out, "r") as file:
        for one in sentences(12):
            np.testing.assert_array_equal(VIEWS[layout](file, one), array(one))


def test_lsgn_other_keys_make_groups(tmp_path: Path) -> None:
    """LSGN reads all files but those of OntoNotes by document and sentence."""
    out = tmp_path / "out.hdf5"
    given = [
        sentence(0, "a b", document="S12", place=0),
        sentence(1, "c", document="S12", place=1),
        sentence(2, "d", document="x/S_b", place=0),
    ]
    write(out, given, layout="lsgn")
    assert list(datasets(out)) == ["S12/0", "S12/1", "x:S_b/0"]


def test_lsgn_counts_over_the_parts_of_a_document(tmp_path: Path) -> None:
    """OntoNotes has documents in parts, which LSGN numbers through; else they would collide."""
    out = tmp_path / "out.hdf5"
    given = [
        sentence(0, "a", document="bc/x/00/x_0000_0", place=0),
        sentence(1, "b", document="bc/x/00/x_0000_1", place=0, offset=1),
    ]
    write(out, given, layout="lsgn")
    assert list(datasets(out)) == ["bc:x:00:x_0000:0", "bc:x:00:x_0000:1"]


@pytest.mark.parametrize("layout", ["e2e-coref", "dygie"])
def test_layers_last_without_layers(tmp_path: Path, layout: str) -> None:
    """Their readers take the last axis for layers whatever was chosen."""
    out = tmp_path / "out.hdf5"
    one = sentences(1)[0]
    with EmbeddingsWriter.create(out, layout=layout, header={"layers": "top"}) as writer:
        writer.append(one, array(one, None))
        writer.finish({})
    assert [shape for shape, _ in datasets(out).values()] == [(1, 4, 1)]


@pytest.mark.parametrize(
    ("layout", "shape", "expected"),
    [
        ("allennlp", (3, 4), (3, 4)),
        ("allennlp", (4,), (4,)),
        ("e2e-coref", (3, 4), (4, 3)),
        ("e2e-coref", (4,), (4, 1)),
        ("manylangs", (4,), (4,)),
    ],
)
def test_pooled(
    tmp_path: Path, layout: str, shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """A pooled (layer, dim) must not be taken for (token, dim), nor its layers for tokens."""
    out = tmp_path / "out.hdf5"
    one = sentences(2)[1]
    with EmbeddingsWriter.create(
        out, layout=layout, header={"pool": "mean"}, forget_sentences=layout == "allennlp"
    ) as writer:
        writer.append(one, np.ones(shape, np.float32))
        writer.finish({})
    assert [shape for shape, _ in datasets(out).values()] == [expected]
    with h5py.File(out, "r") as file:
        assert file.attrs["tokens"] == 2


@pytest.mark.parametrize("shape", [(1, 100), (100,)])
def test_bilm_types(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """bilm-tf takes row i of `embedding` for line i of the vocabulary, also where a chunk ends."""
    out = tmp_path / "out.hdf5"
    n = 3_000  # more than a chunk of 1 MiB
    with EmbeddingsWriter.create(out, layout="bilm-types", header={}) as writer:
        for key in range(n):
            writer.append(Sentence((f"t{key}",), key), np.full(shape, key, np.float32))
            if key % 1_000 == 0:
                writer.commit("")
        writer.finish({})
    with h5py.File(out, "r") as file:
        assert list(file) == ["embedding"]
        assert file["embedding"].dtype == "<f4"
        expected = np.repeat(np.arange(n, dtype=np.float32)[:, np.newaxis], 100, axis=1)
        np.testing.assert_array_equal(file["embedding"][...], expected)


def test_sentence_keys_nest_and_are_found_by_the_line(tmp_path: Path) -> None:
    """AllenNLP's file of `--use-sentence-keys` is read by `file[line]`."""
    out = tmp_path / "out.hdf5"
    lines = ["the cat", "and/or", "and/so on", "x/y/z é"]
    given = [sentence(key, line) for key, line in enumerate(lines)]
    write(out, given, layout="allennlp", keys="sentence")
    assert list(datasets(out)) == lines
    with h5py.File(out, "r") as file:
        for one in given:
            np.testing.assert_array_equal(file[one.text][...], array(one))


@pytest.mark.parametrize("token", ["$period$", "and$backslash$or", "a\tb"])
def test_tokens_that_manylangs_spells_otherwise(tmp_path: Path, token: str) -> None:
    """Without it `$period$` and `.` would be equal sentences, of which one is left out."""
    given = [Sentence((name,), key) for key, name in enumerate(["a", token, "."])]
    out = tmp_path / "out.hdf5"
    settings: dict[str, Any] = {"layout": "manylangs", "header": {"layers": "top"}}
    with EmbeddingsWriter.create(out, **settings) as writer:
        writer.append(given[0], np.ones((1, 4), np.float32))
        with pytest.raises(InputError, match="in a token would be read as something else"):
            writer.append(given[1], np.ones((1, 4), np.float32))


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["a b", "a b"], "the key 'a b' is there already, from a sentence before"),
        (["a/b", "a"], "the key 'a' is there already, from a sentence before"),
        (["a", "a/b"], "the key 'a/b' goes on from the whole key of a sentence before"),
        (["x", "."], "the key '.' has a part that is only `.`"),
        (["x", "a/./b"], "the key 'a/./b' has a part that is only `.`"),
        (["x", "a//b"], "the key 'a//b' has an empty part beside a `/`"),
        (["x", "/b"], "the key '/b' has an empty part beside a `/`"),
        (["x", "sentence_to_index"], "the key 'sentence_to_index' is the name of the sentence map"),
        (["x", "a\0b"], "the key 'a\\x00b' has a NUL in it"),
        (["x", "a\ud800"], "the key 'a\\ud800' has half a surrogate pair in it"),
        (
            ["x", "ab" * 40_000],
            f"the key '{'ab' * 40}…' has 80000 bytes, HDF5 takes 60000",
        ),
    ],
)
def test_sentence_keys_that_hdf5_cannot_have(tmp_path: Path, lines: list[str], what: str) -> None:
    """The line is named, and the sentences before and after it are kept."""
    out = tmp_path / "out.hdf5"
    good, bad, after = (sentence(key, line) for key, line in enumerate([*lines, "after"]))
    with EmbeddingsWriter.create(out, layout="allennlp", keys="sentence", header={}) as writer:
        writer.append(good, array(good))
        with pytest.raises(InputError) as caught:
            writer.append(bad, np.zeros((3, 1, 4), np.float32))
        writer.append(after, array(after))
        writer.finish({})
    assert str(caught.value) == f"in.txt, line 2: {what}"
    assert caught.value.hint == "leave out `--use-sentence-keys`; then keys are line numbers"
    assert list(datasets(out)) == [lines[0], "after"]
    with h5py.File(out, "r") as file:
        assert file.attrs["sentences"] == 2


def test_a_blank_line_among_sentence_keys(tmp_path: Path) -> None:
    """AllenNLP refuses blank lines; the hint must name what leaves them out."""
    with EmbeddingsWriter.create(
        tmp_path / "out.hdf5", layout="allennlp", keys="sentence", header={}
    ) as writer:
        writer.append(sentence(0, "x"), array(sentence(0, "x")))
        with pytest.raises(InputError) as caught:
            writer.append(sentence(1, ""), np.zeros((3, 0, 4), np.float32))
    assert str(caught.value) == "in.txt, line 2: a blank line can't be a key"
    assert "`--blank-lines skip`" in caught.value.hint


@pytest.mark.parametrize("layout", ["allennlp", "bilm"])
@pytest.mark.parametrize(
    "numbers",
    [
        [5, 5, 6],
        [5, None, 5, 6],
        [4, 5, 4, 6],
        [5, None, 3, 5, 6],  # found out only when the data set can't be made
        [5, None, 3, 4, None, 4, 6],
    ],
)
def test_a_number_twice(tmp_path: Path, layout: str, numbers: list[int | None]) -> None:
    """It is refused and the others are kept, in whatever order, with commits (None) or without."""
    out, kept = tmp_path / "out.hdf5", {}
    with EmbeddingsWriter.create(out, layout=layout, header={}) as writer:
        for number in numbers:
            if number is None:
                writer.commit("")
                continue
            one = sentence(number, "a b")
            if number not in kept:
                kept[number] = array(one) + len(kept)
                writer.append(one, kept[number])
                continue
            with pytest.raises(InputError) as caught:
                writer.append(one, array(one))
            assert str(caught.value) == (
                f"in.txt, line {number + 1}: the key '{number}' is there already, from a sentence "
                "before"
            )
            assert caught.value.hint == "number each sentence once"
        writer.finish({})
    with h5py.File(out, "r") as file:
        assert {int(name) for name in file if name.isdigit()} == set(kept)
        for number, values in kept.items():
            np.testing.assert_array_equal(file[str(number)][...], values)


@pytest.mark.parametrize("layout", ["e2e-coref", "lsgn", "dygie"])
def test_a_document_twice(tmp_path: Path, layout: str) -> None:
    """Two documents of one key would lie over each other; also when a commit is between them."""
    given = [sentence(key, "a b", document="d/1", place=0) for key in range(2)]
    with pytest.raises(InputError) as caught:
        write(tmp_path / "out.hdf5", given, layout=layout)
    assert str(caught.value).startswith("in.txt, line 2: the key 'd")
    assert str(caught.value).endswith("is there already, from a sentence before")
    assert caught.value.hint.startswith("give each document a `doc_key` of its own")


@pytest.mark.parametrize("layout", ["e2e-coref", "lsgn", "dygie"])
def test_no_documents(tmp_path: Path, layout: str) -> None:
    """Plain text has no document to name a group by."""
    with pytest.raises(UsageError) as caught:
        write(tmp_path / "out.hdf5", [sentence(0, "a b")], layout=layout)
    assert str(caught.value) == (
        f"in.txt, line 1: `--layout {layout}` needs documents, this sentence has none"
    )
    assert "doc_key" in caught.value.hint


def test_manylangs_keeps_the_first(tmp_path: Path) -> None:
    """ELMoForManyLangs drops equal sentences silently; here they are counted."""
    out = tmp_path / "out.hdf5"
    given = [sentence(0, "a b"), sentence(1, "c"), sentence(2, "a  b"), sentence(3, "a b")]
    with EmbeddingsWriter.create(out, layout="manylangs", header={}) as writer:
        for one in given:
            writer.append(one, array(one, None))
            writer.commit("")
        assert writer.duplicates == 2
        assert writer.progress.sentences == 4
        writer.finish({})
    with h5py.File(out, "r") as file:
        facts = read_attributes(file)
        np.testing.assert_array_equal(file["a\tb"][...], array(given[0], None))
    assert (facts["sentences"], facts["tokens"], facts["duplicates"]) == (2, 3, 2)


@pytest.mark.parametrize(("pool", "shape"), [("none", (1, 2, 4)), ("mean", (1, 4))])
def test_manylangs_of_a_single_layer_with_its_axis(
    tmp_path: Path, pool: str, shape: tuple[int, ...]
) -> None:
    """`Embedder(layers="1")` gives such arrays, and they are one layer a file."""
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    out = tmp_path / "out.hdf5"
    with EmbeddingsWriter.create(out, layout="manylangs", header={"pool": pool}) as writer:
        writer.append(sentence(0, "a b"), values)
        writer.finish({})
    with h5py.File(out, "r") as file:
        np.testing.assert_array_equal(file["a\tb"][...], values[0])


def test_manylangs_of_all_layers(tmp_path: Path) -> None:
    """The layout has one layer a file."""
    with pytest.raises(UsageError) as caught:
        write(tmp_path / "out.hdf5", [sentence(0, "a")], layout="manylangs")
    assert str(caught.value) == "`--layout manylangs` holds one layer a file, not 3"
    assert caught.value.hint == "`--layers top`, `--layers average` or one number"


def test_bilm_types_of_sentences(tmp_path: Path) -> None:
    """A sentence has no row."""
    with pytest.raises(UsageError) as caught:
        write(tmp_path / "out.hdf5", [sentence(0, "a b")], layout="bilm-types")
    assert str(caught.value) == (
        "in.txt, line 1: `--layout bilm-types` holds one vector a line, "
        "got an array of shape (3, 2, 4)"
    )


def test_sentence_map(tmp_path: Path) -> None:
    """`json.loads(file["sentence_to_index"][0])` is how every reader of AllenNLP's files begins."""
    out = tmp_path / "out.hdf5"
    lines = ["b a", 'é\t\x01 "q" \\', "b a", "", "😀 x", "a\ud800"]
    given = [sentence(key, line) for key, line in enumerate(lines)]
    write(out, given, layout="allennlp")
    with h5py.File(out, "r") as file:
        content = file["sentence_to_index"][0]
        kind = h5py.check_string_dtype(file["sentence_to_index"].dtype)
    expected = {line: str(key) for key, line in enumerate(lines)}
    assert content == json.dumps(expected).encode()
    assert list(json.loads(content)) == [lines[0], *lines[1:2], *lines[3:]]
    assert json.loads(content)["b a"] == "2"
    assert kind == h5py.h5t.string_info("utf-8", None)


@pytest.mark.parametrize("n", [1, 40, 500])
def test_sentence_map_is_an_object_of_hdf5(tmp_path: Path, n: int) -> None:
    """It is written past HDF5, so HDF5 must be able to copy, replace and delete it."""
    out, copy = tmp_path / "out.hdf5", tmp_path / "copy.hdf5"
    given = [sentence(key, f"line {key} " + "x" * 100) for key in range(n)]
    with EmbeddingsWriter.create(out, layout="allennlp", header={}) as writer:
        for one in given:
            writer.append(one, np.ones((2, 3), np.float32))
        writer.finish({})
    expected = json.dumps({one.text: str(one.key) for one in given}).encode()
    with h5py.File(out, "r+") as file, h5py.File(copy, "w") as other:
        file.copy("sentence_to_index", other)
        assert other["sentence_to_index"][0] == file["sentence_to_index"][0] == expected
        file["sentence_to_index"][0] = "another"
        file["more"] = np.arange(10_000)
    with h5py.File(out, "r+") as file:
        assert file["sentence_to_index"][0] == b"another"
        del file["sentence_to_index"]
        file["and more"] = np.arange(10_000)
    with h5py.File(out, "r") as file:
        np.testing.assert_array_equal(file["more"][...], np.arange(10_000))
        np.testing.assert_array_equal(file[str(n - 1)][...], np.ones((2, 3)))


def test_every_name_has_a_layout() -> None:
    """The names stand alone so that help needs no h5py; one could be offered that is not there."""
    assert tuple(LAYOUTS) == schema.LAYOUTS


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_sentences(tmp_path: Path, layout: str) -> None:
    """An empty input gives a file too: its readers loop over nothing."""
    out = tmp_path / "out.hdf5"
    facts = write(out, [], layout=layout)
    expected = {
        "allennlp": ["sentence_to_index"],
        "flat": ["offsets", "token_bytes", "token_ends", "numbers"],
    }
    assert list(datasets(out)) == expected.get(layout, [])
    assert (facts["sentences"], facts["tokens"], facts["complete"]) == (0, 0, True)


@pytest.mark.parametrize("layout", ["allennlp", "bilm", "flat"])
def test_blank_line(tmp_path: Path, layout: str) -> None:
    """A blank line keeps its number: bilm-tf stores (3, 0, dim)."""
    out = tmp_path / "out.hdf5"
    facts = write(out, [sentence(0, ""), sentence(1, "a")], layout=layout)
    assert (facts["sentences"], facts["tokens"]) == (2, 1)
    if layout != "flat":
        assert datasets(out)["0"] == ((3, 0, 4), "<f4")


def flat_sentences() -> list[Sentence]:
    return [
        sentence(5, "a  b", document="d", place=2, offset=7),
        sentence(6, "é", document="d", place=3, offset=7),
        sentence(7, "", document="d", place=4, offset=7),
        sentence(9, "c d e", document="e", place=0),
        sentence(10, "f"),
        sentence(11, "g"),
        sentence(12, "h", document="e", place=0),
    ]


@pytest.mark.parametrize("block", [1, 3, 10])
def test_flat(tmp_path: Path, block: int) -> None:
    """Every dataset of the schema, whatever the commits; nothing else says where a sentence is."""
    out = tmp_path / "out.hdf5"
    with EmbeddingsWriter.create(out, layout="flat", header={}, first_sentence=5) as writer:
        writer_runs.write(writer, flat_sentences(), block=block)
        writer.finish({})
    with h5py.File(out, "r") as file:
        found = {name: member[...] for name, member in file.items()}
    expected = {
        "offsets": [0, 2, 3, 3, 6, 7, 8, 9],
        "token_ends": [1, 2, 4, 5, 6, 7, 8, 9, 10],
        "numbers": [[0, 5], [3, 9]],
        "documents": [[0, 2, 7], [3, 0, 0], [4, 0, 0], [6, 0, 0]],
        "document_ends": [1, 2, 2, 3],
        "texts": [0],
        "text_ends": [4],
    }
    strings = {"token_bytes": "abécdefgh", "document_bytes": "dee", "text_bytes": "a  b"}
    assert set(found) == {"vectors", *expected, *strings}
    for name, numbers in expected.items():
        assert found[name].tolist() == numbers, name
        assert found[name].dtype == "<i8", name
    for name, text in strings.items():
        assert found[name].tobytes().decode() == text, name
        assert found[name].dtype == "u1", name
    rows = [array(one).transpose(1, 0, 2) for one in flat_sentences()]
    np.testing.assert_array_equal(found["vectors"], np.concatenate(rows))


@pytest.mark.parametrize("shape", [(3, 4), (4,)])
def test_flat_pooled(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """With `pool` a row of `vectors` is a sentence; offsets go on to find its tokens."""
    out = tmp_path / "out.hdf5"
    given = sentences(4)
    with EmbeddingsWriter.create(out, layout="flat", header={"pool": "max"}) as writer:
        for one in given:
            writer.append(one, np.full(shape, one.key, np.float32))
            writer.commit("")
        writer.finish({})
    with h5py.File(out, "r") as file:
        assert file["vectors"].shape == (4, *shape)
        assert file["vectors"][:, ..., 0].reshape(4, -1)[:, 0].tolist() == [0, 1, 2, 3]
        assert file["offsets"][...].tolist() == [0, 1, 3, 6, 7]


def test_flat_chunks_can_be_mapped(tmp_path: Path) -> None:
    """A reader maps the chunks from the file's own bytes: whole rows, no filter, on pages."""
    out = tmp_path / "out.hdf5"
    dim, n = 1000, 300
    with EmbeddingsWriter.create(out, layout="flat", header={}) as writer:
        for key in range(n):
            values = np.random.default_rng(key).standard_normal((2, 3, dim)).astype(np.float32)
            writer.append(Sentence(("a", "b", "c"), key), values)
            if key % 70 == 0:
                writer.commit("")
        writer.finish({})
    content = out.read_bytes()
    with h5py.File(out, "r") as file:
        vectors = file["vectors"]
        n_rows = vectors.chunks[0]
        assert (n_rows, vectors.chunks[1:]) == ((1 << 20) // (2 * dim * 4), (2, dim))
        n_chunks = vectors.id.get_num_chunks()
        assert n_chunks == -(-3 * n // n_rows)
        for number in range(n_chunks):
            chunk = vectors.id.get_chunk_info(number)
            assert (chunk.filter_mask, chunk.byte_offset % 4096) == (0, 0)
            mapped = np.frombuffer(content, "<f4", n_rows * 2 * dim, chunk.byte_offset)
            start = chunk.chunk_offset[0]
            rows = vectors[start : start + n_rows]
            np.testing.assert_array_equal(mapped.reshape(-1, 2, dim)[: len(rows)], rows)
            assert not mapped.reshape(-1, 2, dim)[len(rows) :].any()


def test_flat_refuses_an_array_of_other_length(tmp_path: Path) -> None:
    """Offsets are counted in tokens; rows that don't agree would shift all that follows."""
    out = tmp_path / "out.hdf5"
    with (
        EmbeddingsWriter.create(out, layout="flat", header={}) as writer,
        pytest.raises(ValueError, match=r"an array of shape \(3, 2, 4\) for 1 tokens"),
    ):
        writer.append(Sentence(("a",), 0), np.zeros((3, 2, 4), np.float32))


def test_float16(tmp_path: Path) -> None:
    """A value beyond float16 would be stored as infinity, and nobody told."""
    one = sentence(0, "a")
    with EmbeddingsWriter.create(
        tmp_path / "out.hdf5", layout="bilm", header={}, dtype="float16"
    ) as writer:
        writer.append(one, np.full((3, 1, 4), 65504, np.float32))
        with pytest.raises(OutputError) as caught:
            writer.append(sentence(1, "b"), np.full((3, 1, 4), 70000, np.float32))
    assert str(caught.value) == "in.txt, line 2: a value is beyond float16"
    assert caught.value.hint == "`--dtype float32`"


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            {"layout": "allenlp"},
            "`--layout allenlp`: no such name",
            f"one of {', '.join(LAYOUTS)}",
        ),
        ({"layout": "bilm", "keys": "x"}, "`--keys x`: no such name", "one of number, sentence"),
        (
            {"layout": "bilm", "dtype": "int4"},
            "`--dtype int4`: no such name",
            "one of float32, float16, int8",
        ),
        (
            {"layout": "bilm", "dtype": "int8"},
            "`--dtype int8` and `--layout bilm` contradict each other",
            "a file of `--layout flat` has a place for the scales; others take `--dtype float16`",
        ),
        (
            {"layout": "bilm", "keys": "sentence"},
            "`--use-sentence-keys` and `--layout bilm` contradict each other",
            "leave out `--use-sentence-keys`, or use `--layout allennlp`",
        ),
        (
            {"layout": "flat", "forget_sentences": True},
            "`--forget-sentences` and `--layout flat` contradict each other",
            "leave out `--forget-sentences`, or use `--layout allennlp`",
        ),
    ],
)
def test_options_that_contradict(
    tmp_path: Path, options: dict[str, Any], message: str, hint: str
) -> None:
    """Found before any file is made."""
    with pytest.raises(UsageError) as caught:
        EmbeddingsWriter.create(tmp_path / "out.hdf5", header={}, **options)
    assert (str(caught.value), caught.value.hint) == (message, hint)
    assert list(tmp_path.iterdir()) == []
