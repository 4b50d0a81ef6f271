"""Embedder: the doors of the library, and what it does when memory ends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tolerance import ATOL_ORDER
from torch import Tensor

from elmo_cli.embed import blocks
from elmo_cli.embed import embedder as embedder_module
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.output import Output
from elmo_cli.embed.parts import Parts
from elmo_cli.engine.contract import Engine
from elmo_cli.errors import DeviceError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch
from elmo_cli.text.input import InputSettings
from elmo_cli.text.sentence import Sentence


def embedder_of(bilm: BiLM, **settings: object) -> Embedder:
    return Embedder(bilm, device="cpu", **settings)


def close(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=ATOL_ORDER)


def test_a_sentence_and_a_batch(tiny_bilm: BiLM) -> None:
    """Without it the doors of the library would give other shapes than they say."""
    embedder = embedder_of(tiny_bilm)
    assert embedder.embed(["The", "cat", "sat"]).shape == (3, 3, 16)
    assert embedder.embed([]).shape == (3, 0, 16)
    arrays, state = embedder.embed_batch([["a", "b"], [], ["c"]])
    assert [array.shape for array in arrays] == [(3, 2, 16), (3, 0, 16), (3, 1, 16)]
    assert state is None
    close([arrays[2]], [embedder.embed(["c"])])


def test_generators_and_tuples_of_tokens(tiny_bilm: BiLM) -> None:
    """Without it only lists would be embedded."""
    embedder = embedder_of(tiny_bilm)
    close([embedder.embed(("a", "b"))], [embedder.embed(["a", "b"])])


def test_numbers_and_devices_as_python_has_them(tiny_bilm: BiLM) -> None:
    """A notebook writes `layers=1` and has a `torch.device` at hand."""
    embedder = Embedder(tiny_bilm, layers=1, device=torch.device("cpu"))
    named = Embedder(tiny_bilm, layers="1", device="cpu")
    np.testing.assert_array_equal(embedder.embed(["a", "b"]), named.embed(["a", "b"]))


def test_what_is_no_list_of_tokens(tiny_bilm: BiLM) -> None:
    """A text would be embedded letter by letter."""
    embedder = embedder_of(tiny_bilm)
    with pytest.raises(TypeError, match=r"not a text: 'The cat'; \.split\(\) it"):
        embedder.embed("The cat")
    with pytest.raises(TypeError, match="not a text: 'The cat'"):
        embedder.embed_batch(["The cat"])
    with pytest.raises(TypeError, match="not list; `embed_batch` takes several"):
        embedder.embed([["The", "cat"], ["sat"]])
    with pytest.raises(TypeError, match="not a text: 'a b'"):
        list(embedder.stream(["a b"]))


def test_stream_of_lists(tiny_bilm: BiLM) -> None:
    """As of the sentences of a file, numbered from 0."""
    embedder = embedder_of(tiny_bilm)
    found = list(embedder.stream([["a", "b"], ["c"]]))
    assert [(sentence.key, sentence.tokens) for sentence, _ in found] == [
        (0, ("a", "b")),
        (1, ("c",)),
    ]
    close([array for _, array in found], embedder.embed_batch([["a", "b"], ["c"]])[0])


def test_arrays_do_not_share_memory_with_each_other(tiny_bilm: BiLM) -> None:
    """Without it keeping one sentence would keep its whole batch, and changing it change others."""
    first, second = embedder_of(tiny_bilm).embed_batch([["a", "b"], ["a", "b"]])[0]
    first[...] = 0
    assert second.any()


def test_vectors_of_types(engine: str, tiny_bilm: BiLM) -> None:
    """Without it a vocabulary with a line twice would shift the vectors after it."""
    embedder = embedder_of(tiny_bilm, engine=engine)
    types = ["a", "b", "a", "c", "b"]
    vectors = embedder.embed_types(types)
    assert vectors.shape == (5, 8)
    np.testing.assert_array_equal(vectors[0], vectors[2])
    alone = embedder.embed(["c"])
    np.testing.assert_allclose(vectors[3], alone[0, 0, :8], rtol=0, atol=ATOL_ORDER)
    assert embedder.embed_types([]).shape == (0, 8)
    half = embedder_of(tiny_bilm, engine=engine, dtype="float16").embed_types(types)
    np.testing.assert_array_equal(half, vectors.astype(np.float16))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"batch_size": 0}, "--batch-size 0: a whole number from 1 is needed"),
        ({"batch_size": 1.5}, "--batch-size 1.5: a whole number from 1 is needed"),
        ({"engine": "onnx"}, "`engine=onnx`: not fast or plain"),
        ({"layers": "7"}, "`layers=7`: the model has layers 0, 1, 2"),
        ({"state": "none"}, "--state none: not zero, warm, carry, document"),
    ],
)
def test_refused(settings: dict[str, object], said: str, tiny_bilm: BiLM) -> None:
    """Without it a wrong setting would be met in the middle of a run."""
    with pytest.raises(UsageError, match=said):
        embedder_of(tiny_bilm, **settings)


def test_stream_gives_what_a_batch_gives(
    tiny_bilm: BiLM, lines: list[list[str]], golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a stream could lose the sentences at the borders of blocks."""
    monkeypatch.setattr(blocks, "SENTENCES", 7)
    embedder = embedder_of(tiny_bilm)
    found = list(embedder.stream(golden / "sentences.txt"))
    assert [sentence.key for sentence, _ in found] == list(range(41))
    assert [list(sentence.tokens) for sentence, _ in found] == lines
    close([array for _, array in found], embedder.embed_batch(lines)[0])


@pytest.mark.parametrize("state", ["carry", "document"])
def test_stream_carries_over_blocks(
    state: str, tiny_bilm: BiLM, lines: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a stream would lose the state at the border of a block."""
    given = [Sentence(tuple(tokens), key) for key, tokens in enumerate(lines)]
    embedder = embedder_of(tiny_bilm, state=state, batch_size=1)
    expected, _ = embedder.embed_block(given, None)
    monkeypatch.setattr(blocks, "SENTENCES", 3)
    monkeypatch.setattr(blocks, "_OPEN_DOCUMENT", 2)
    close([array for _, array in embedder.stream(given)], expected)


def test_rows_where_none_are_asked_for(tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many where they only share the work; those of a carried state decide about the vectors."""
    given = [[f"w{n}"] * (1 + n % 5) for n in range(600)]
    usual, few = embedder_of(tiny_bilm), embedder_of(tiny_bilm, batch_size=7)
    assert (usual.batch_size, few.batch_size) == (512, 7)
    assert embedder_of(tiny_bilm, state="carry").batch_size == 64
    monkeypatch.setattr(embedder_module, "_GATE_VALUES", 100 * tiny_bilm.options.lstm_dim)
    assert embedder_of(tiny_bilm).batch_size == 100
    close(few.embed_batch(given)[0], usual.embed_batch(given)[0])


@pytest.mark.parametrize("given", ["elmo-en", Path("tiny"), None])
def test_an_embedder_of_a_name_is_refused(given: object) -> None:
    """The first thing that people try ended in an AttributeError of a text."""
    with pytest.raises(TypeError, match=r"not BiLM: `Embedder\(load\("):
        Embedder(given)


class SmallMemory:
    """An engine whose memory ends above a number of rows."""

    def __init__(self, engine: Engine, n_rows: int) -> None:
        self.options, self.pads = engine.options, engine.pads
        self._engine, self._n_rows = engine, n_rows
        self.tried: list[int] = []

    def embed_types(self, types: Sequence[str]) -> Tensor:
        return self._engine.embed_types(types)

    def forward(self, batch: Batch, *given: Any, **named: Any) -> tuple[Tensor, State | None]:
        self._try(batch)
        return self._engine.forward(batch, *given, **named)

    def _try(self, batch: Batch) -> None:
        self.tried.append(len(batch.rows))
        if len(batch.rows) > self._n_rows:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.parametrize("state", ["zero", "warm", "carry", "document"])
@pytest.mark.parametrize("n_rows", [1, 3, 10])
def test_batches_are_halved_where_memory_ends(
    state: str, n_rows: int, odd_bilm: BiLM, lines: list[list[str]]
) -> None:
    """Without it a long sentence in a batch would end a run on a GPU, or change its numbers."""
    given = [
        Sentence(tuple(tokens), key, starts_document=key % 4 == 0)
        for key, tokens in enumerate(lines[:30])
    ]
    embedder = embedder_of(odd_bilm, state=state, batch_size=16)
    expected, expected_left = embedder.embed_block(given, None)
    small = SmallMemory(embedder.engine, n_rows)
    embedder.engine = small
    arrays, left = embedder.embed_block(given, None)
    close(arrays, expected)
    assert max(small.tried) > n_rows or state == "document"
    if left is not None and expected_left is not None:
        close([left.h, left.c], [expected_left.h, expected_left.c])


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_memory_may_end_where_layers_are_reduced(
    state: str, odd_bilm: BiLM, lines: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a batch that a GPU has just had room for ends the run when it leaves it."""
    given = [Sentence(tuple(tokens), key) for key, tokens in enumerate(lines[:30])]
    embedder = embedder_of(odd_bilm, state=state, batch_size=16, layers="average")
    expected, _ = embedder.embed_block(given, None)
    reduce, tried = Output.of, []

    def reduced(output: Output, layers: Tensor) -> Tensor:
        tried.append(layers.shape[1])
        if layers.shape[1] > 40:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`")
        return reduce(output, layers)

    monkeypatch.setattr(Output, "of", reduced)
    arrays, _ = embedder.embed_block(given, None)
    assert max(tried) > 40
    close(arrays, expected)


def test_on_a_gpu_the_size_that_failed_is_not_tried_again(
    tiny_bilm: BiLM, lines: list[list[str]]
) -> None:
    """Without it every batch of a long run would fail once before it is halved."""
    given = [["the", "cat", str(n)] for n in range(160)]
    embedder = embedder_of(tiny_bilm, batch_size=16)
    expected, _ = embedder.embed_batch(given)
    # Any device but the CPU; the engine stays where it is.
    embedder._parts = Parts(torch.device("mps"), padded=False)
    small = SmallMemory(embedder.engine, 4)
    embedder.engine = small
    arrays, _ = embedder.embed_batch(given)
    close(arrays, expected)
    assert [n for n in small.tried if n > 4] == [16, 8]


@pytest.mark.parametrize(("engine", "rows"), [("fast", [9]), ("plain", [3, 6])])
def test_padding_counts_where_the_engine_pads(
    engine: str, rows: list[int], tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a long sentence would make the plain engine's batches as many times as large."""
    monkeypatch.setattr("elmo_cli.embed.embedder._BATCH_TOKENS", 60)
    given = [["a"] * 18, *[["b", "c"]] * 8]  # with borders 20, and 4 each
    embedder = embedder_of(tiny_bilm, engine=engine)
    ample = SmallMemory(embedder.engine, 100)
    embedder.engine = ample
    embedder.embed_batch(given)
    assert ample.tried == rows


def test_a_single_sentence_that_does_not_fit_is_named(tiny_bilm: BiLM) -> None:
    """Without it the user would not know which sentence to shorten."""
    given = [
        Sentence(("a",), 0, source="corpus.txt", line=1),
        Sentence(("b", "c", "d"), 1, source="corpus.txt", line=2),
    ]
    embedder = embedder_of(tiny_bilm)
    embedder.engine = SmallMemory(embedder.engine, 0)
    with pytest.raises(DeviceError) as caught:
        embedder.embed_block(given, None)
    assert caught.value.message == (
        "corpus.txt, line 2: out of memory on cpu with a sentence of 3 tokens"
    )
    assert "--max-sentence-length" in caught.value.hint


def test_other_errors_of_torch_are_not_hidden(tiny_bilm: BiLM) -> None:
    """Without it a mistake in the program would be told as a lack of memory."""
    embedder = embedder_of(tiny_bilm)

    class Broken(SmallMemory):
        def forward(self, *given: Any, **named: Any) -> tuple[Tensor, State | None]:
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    embedder.engine = Broken(embedder.engine, 1)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        embedder.embed(["a"])


@pytest.mark.parametrize("n_threads", [1, 2])
def test_threads_of_a_program_share_an_embedder(n_threads: int, tiny_bilm: BiLM) -> None:
    """Without it two of them put their types into the same places of the cache, for good."""
    sentences = [[f"word{n * k % 91}" for k in range(1, 12)] for n in range(60)]
    expected = [embedder_of(tiny_bilm).embed(tokens) for tokens in sentences]
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        for _ in range(3):
            shared = embedder_of(tiny_bilm)
            with ThreadPoolExecutor(4) as pool:
                close(list(pool.map(shared.embed, sentences)), expected)
            close([shared.embed(tokens) for tokens in sentences], expected)
    finally:
        torch.set_num_threads(before)


def test_an_array_keeps_nothing_else_alive(tiny_bilm: BiLM) -> None:
    """Who keeps one sentence of a thousand, or saves a tensor of it, would keep or save all."""
    embedder = embedder_of(tiny_bilm)
    sentences = [["a", "b"], ["c"], []]
    arrays, _ = embedder.embed_batch(sentences)
    for array in (*arrays, *(array for _, array in embedder.stream(sentences))):
        assert array.base is None
        assert array.flags.c_contiguous


def test_states_that_no_batch_can_go_on_from(tiny_bilm: BiLM) -> None:
    """One that is passed over would end in vectors of another text."""
    carried = embedder_of(tiny_bilm, state="carry")
    _, state = carried.embed_batch([["a"]])
    assert state is not None
    for name in ("zero", "warm", "document"):
        embedder = embedder_of(tiny_bilm, state=name)
        assert embedder.embed_batch([["a"]])[1] is None
        with pytest.raises(TypeError, match='a state is taken with state="carry" alone'):
            embedder.embed_batch([["a"]], state)
    with pytest.raises(TypeError, match="the state is of type str"):
        carried.embed_batch([["a"]], "x")
    other = State(state.h[:, :, :, :-1], state.c)
    with pytest.raises(UsageError, match="the state is of a biLM of other sizes"):
        carried.embed_batch([["a"]], other)


def test_types_are_no_text_and_sizes_no_truth(tiny_bilm: BiLM) -> None:
    """`embed_types("cat")` would give the vectors of c, a and t."""
    embedder = embedder_of(tiny_bilm, batch_size=np.int64(8))
    assert embedder.batch_size == 8
    with pytest.raises(TypeError, match="not a text: 'cat'"):
        embedder.embed_types("cat")
    with pytest.raises(TypeError, match="a token is a text, not int"):
        embedder.embed_types([1])
    for size in (0, True, 1.5):
        with pytest.raises(UsageError, match=f"--batch-size {size}: a whole number"):
            embedder_of(tiny_bilm, batch_size=size)


def test_a_file_may_be_named_by_any_path(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """Without it an entry of `os.scandir` is looked for under the name that it prints as."""
    (tmp_path / "a.txt").write_text("The cat\n", "utf-8")
    (entry,) = os.scandir(tmp_path)
    embedder = embedder_of(tiny_bilm)
    assert [sentence.tokens for sentence, _ in embedder.stream(entry)] == [("The", "cat")]


def test_what_would_be_passed_over_is_refused(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """Without it a text is read otherwise than was asked for, or a file is not made anew."""
    embedder = embedder_of(tiny_bilm)
    with pytest.raises(UsageError, match="settings say how a file is read"):
        next(embedder.stream([["a"]], InputSettings(tokenize=True)))
