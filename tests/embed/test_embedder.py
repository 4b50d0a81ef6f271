"""Embedder: sentences, batches, streams and types; refused arguments; memory that is too small."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tolerance import ATOL_ORDER
from torch import Tensor

from elmo_cli.arrays import FloatArray
from elmo_cli.embed import blocks
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.output_reduction import OutputReduction
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.engine.engines import Engine
from elmo_cli.engine.runtime import DeviceTuning
from elmo_cli.errors import DeviceError, InputError, UsageError
from elmo_cli.model.bilm import BiLM, State
from elmo_cli.pretrained.load import load
from elmo_cli.text.batching import Batch
from elmo_cli.text.sentence import Sentence


def embedder_of(bilm: BiLM, **settings: object) -> Embedder:
    return Embedder(bilm, device="cpu", **settings)


def close(arrays: Sequence[FloatArray], expected: Sequence[FloatArray]) -> None:
    for array, expected_array in zip(arrays, expected, strict=True):
        assert array.shape == expected_array.shape
        np.testing.assert_allclose(array, expected_array, rtol=0, atol=ATOL_ORDER)


def numbered(lines: list[list[str]], *, document: int = 1 << 30) -> list[Sentence]:
    """Sentences in documents of equal length."""
    return [
        Sentence(tuple(tokens), key, starts_document=key % document == 0)
        for key, tokens in enumerate(lines)
    ]


def test_sentences_batches_and_streams_agree(
    tiny_bilm: BiLM, lines: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From lists, tuples, a file or its path as text, and across the ends of blocks."""
    monkeypatch.setattr(blocks, "SENTENCES", 7)
    embedder = embedder_of(tiny_bilm)
    arrays, state = embedder.embed_batch(lines)
    assert state is None
    assert [array.shape for array in arrays] == [(3, len(tokens), 16) for tokens in lines]
    close([embedder.embed(tuple(tokens)) for tokens in lines[:5]], arrays[:5])
    path = tmp_path / "sentences.jsonl"
    path.write_text("".join(json.dumps({"tokens": tokens}) + "\n" for tokens in lines))
    for source in (lines, path, str(path)):
        pairs = list(embedder.stream(source))
        assert [sentence.key for sentence, _ in pairs] == list(range(41))
        assert [list(sentence.tokens) for sentence, _ in pairs] == lines
        close([array for _, array in pairs], arrays)
    streamed = [array for _, array in embedder.stream(lines[:3])]
    for array in (*arrays, *streamed):  # none keeps its batch in memory
        assert array.base is None
        assert array.flags.c_contiguous


def test_sentences_of_embed_batch_are_one_batch(tiny_bilm: BiLM, lines: list[list[str]]) -> None:
    """With state "carry" no row continues another one, whatever the batch size."""
    arrays, state = embedder_of(tiny_bilm, state="carry", batch_size=2).embed_batch(lines[:5])
    close(arrays, embedder_of(tiny_bilm).embed_batch(lines[:5])[0])
    assert state is not None
    assert state.h.shape[2] == 5


@pytest.mark.parametrize("state", ["carry", "document"])
def test_a_stream_carries_the_state_over_blocks(
    state: str, tiny_bilm: BiLM, lines: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = embedder_of(tiny_bilm, state=state, batch_size=1)
    sentences = numbered(lines[:14])
    expected, _ = embedder.embed_block(sentences, None)
    monkeypatch.setattr(blocks, "SENTENCES", 3)
    monkeypatch.setattr(blocks, "_OPEN_DOCUMENT", 2)
    close([array for _, array in embedder.stream(sentences)], expected)


def test_vectors_of_types(engine: str, tiny_bilm: BiLM) -> None:
    embedder = embedder_of(tiny_bilm, engine=engine)
    types = ["a", "b", "a", "c", "b"]
    vectors = embedder.embed_types(types)
    assert vectors.shape == (5, 8)
    np.testing.assert_array_equal(vectors[0], vectors[2])
    close([vectors[3]], [embedder.embed(["c"])[0, 0, :8]])
    assert embedder.embed_types([]).shape == (0, 8)
    half = embedder_of(tiny_bilm, engine=engine, dtype="float16").embed_types(types)
    np.testing.assert_array_equal(half, vectors.astype(np.float16))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "`batch_size`: 0 is not at least 1"),
        ({"batch_size": 1.5}, "`batch_size`: 1.5 is not a whole number"),
        ({"batch_size": True}, "`batch_size`: True is not a whole number"),
        ({"batch_size": "8"}, "`batch_size`: '8' is not a whole number"),
        ({"engine": "onnx"}, "`engine`: unknown value 'onnx'"),
        ({"precision": "int4"}, "`precision`: unknown value 'int4'"),
        ({"precision": "bf16", "engine": "plain"}, "`precision=bf16`: the plain engine"),
        ({"device": "gpu"}, "`device=gpu`: not auto, cpu"),
        ({"layers": "7"}, "`layers=7`: "),
        ({"layers": "bottom"}, "`layers=bottom`: "),
        ({"layers": "mix:1,2"}, "`layers=mix:1,2`: "),
        ({"state": "none"}, "`state`: unknown value 'none'"),
        ({"state": None}, "`state`: None is not a string"),
        ({"dtype": "float64"}, "`dtype`: unknown value 'float64'"),
        ({"pool": ""}, "`pool`: unknown value ''"),
        ({"pool": "sum"}, "`pool`: unknown value 'sum'"),
        ({"cuda_device": -1}, "`cuda_device`: no such setting"),
    ],
)
def test_refused_settings(settings: dict[str, Any], message: str, tiny_bilm: BiLM) -> None:
    with pytest.raises(UsageError) as caught:
        Embedder(tiny_bilm, **({"device": "cpu"} | settings))
    assert caught.value.message.startswith(message)


def test_settings_and_changes(tiny_bilm: BiLM) -> None:
    """Values as a notebook has them, and the defaults of the batch size."""
    settings = EmbedderSettings(layers="1", batch_size=np.int64(8))  # type: ignore[arg-type]
    embedder = Embedder(tiny_bilm, settings, device=torch.device("cpu"))
    assert (embedder.batch_size, embedder.device) == (8, torch.device("cpu"))
    changed = Embedder(tiny_bilm, EmbedderSettings(), layers=1, device="cpu")
    np.testing.assert_array_equal(embedder.embed(["a"]), changed.embed(["a"]))
    assert changed.batch_size == 512
    assert embedder_of(tiny_bilm, state="carry").batch_size == 64


def test_fewer_rows_for_large_lstms(tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = replace(
        DeviceTuning.of(torch.device("cpu")), gate_values=100 * tiny_bilm.options.lstm_dim
    )
    monkeypatch.setattr(DeviceTuning, "of", lambda device: tuning)
    assert embedder_of(tiny_bilm).batch_size == 100


@pytest.mark.parametrize(
    ("error", "method", "argument"),
    [
        (TypeError, "embed", "The cat"),
        (TypeError, "embed", b"The cat"),
        (TypeError, "embed", {"The", "cat"}),
        (TypeError, "embed", {"The": "cat"}),
        (TypeError, "embed", 5),
        (TypeError, "embed", [b"The"]),
        (TypeError, "embed", [["The", "cat"], ["sat"]]),
        (InputError, "embed", ["The", ""]),
        (InputError, "embed", ["The", "\ud83d"]),
        (InputError, "embed", ["The", "a\0b"]),
        (TypeError, "embed_batch", "The cat"),
        (TypeError, "embed_batch", ["The cat"]),
        (TypeError, "embed_batch", {("The", "cat")}),
        (TypeError, "embed_batch", {"a": ["The", "cat"]}),
        (InputError, "embed_batch", [["The"], [""]]),
        (TypeError, "stream", ["a b"]),
        (TypeError, "stream", {("a", "b")}),
        (InputError, "stream", [["a"], [""]]),
        (TypeError, "embed_types", "cat"),
        (TypeError, "embed_types", [1]),
        (TypeError, "embed_types", {"cat"}),
        (InputError, "embed_types", [""]),
    ],
)
def test_arguments_that_are_no_tokens(
    error: type[Exception], method: str, argument: object, tiny_bilm: BiLM
) -> None:
    with pytest.raises(error):
        list(getattr(embedder_of(tiny_bilm), method)(argument))


def edit_in_place(bilm: BiLM) -> None:
    with torch.no_grad():
        bilm.backward_lm.layers[1].recurrent.weight[0, 0] += 1


def copy_into_parameters(bilm: BiLM) -> None:
    bilm.load_state_dict(copy.deepcopy(bilm.state_dict()))


def assign_parameters(bilm: BiLM) -> None:
    bilm.load_state_dict(copy.deepcopy(bilm.state_dict()), assign=True)


def convert_to_half(bilm: BiLM) -> None:
    bilm.half()


def convert_to_half_and_back(bilm: BiLM) -> None:
    bilm.half().float()


@pytest.mark.parametrize(
    "change",
    [
        edit_in_place,
        copy_into_parameters,
        assign_parameters,
        convert_to_half,
        convert_to_half_and_back,
    ],
)
def test_a_model_that_changed_is_refused(
    change: Callable[[BiLM], None], engine: str, tiny_bilm: BiLM
) -> None:
    """Otherwise cached and packed weights would be mixed with new ones."""
    bilm = copy.deepcopy(tiny_bilm)
    embedder = embedder_of(bilm, engine=engine)
    embedder.embed(["the"])
    change(bilm)
    message = "weights of the model have changed"
    with pytest.raises(UsageError, match=message):
        embedder.embed(["the"])
    with pytest.raises(UsageError, match=message):
        embedder.embed_types(["the"])
    with pytest.raises(UsageError, match=message):
        next(embedder.stream([["the"]]))


def test_a_change_that_torch_does_not_count_changes_no_part(tiny_bilm: BiLM) -> None:
    """The fast engine has its own copy of every weight."""
    bilm = copy.deepcopy(tiny_bilm)
    embedder = embedder_of(bilm)
    for weight in bilm.parameters():
        weight.data.mul_(1.5)
    expected = embedder_of(tiny_bilm).embed(["the", "cat"])
    np.testing.assert_array_equal(embedder.embed(["the", "cat"]), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("settings", [{}, {"engine": "plain"}, {"state": "warm"}])
def test_models_of_another_dtype_are_refused(
    dtype: torch.dtype, settings: dict[str, str], tiny_bilm: BiLM
) -> None:
    with pytest.raises(UsageError, match="not float32"):
        embedder_of(copy.deepcopy(tiny_bilm).to(dtype), **settings)


SETTINGS_WITH_ARITHMETIC: list[dict[str, Any]] = [
    *({"state": state, "batch_size": 1} for state in ("zero", "warm", "carry", "document")),
    {"engine": "plain"},
    {"precision": "bf16"},
    {"layers": "average"},
    {"layers": "mix:1,2,3"},
    {"pool": "mean"},
]


@pytest.mark.parametrize("settings", SETTINGS_WITH_ARITHMETIC, ids=str)
def test_autocast_and_the_default_dtype_change_nothing(
    settings: dict[str, Any], tiny: Path
) -> None:
    sentences = [["the", "cat"], [], ["a"]]

    def arrays() -> list[FloatArray]:
        bilm = load(tiny)
        return [array for _, array in Embedder(bilm, device="cpu", **settings).stream(sentences)]

    expected = arrays()
    with torch.autocast("cpu"):
        with_autocast = arrays()
    torch.set_default_dtype(torch.float64)
    try:
        with_float64 = arrays()
    finally:
        torch.set_default_dtype(torch.float32)
    for again in (with_autocast, with_float64):
        for array, expected_array in zip(again, expected, strict=True):
            assert array.dtype == np.float32
            np.testing.assert_array_equal(array, expected_array)


def test_arguments_that_would_be_ignored(tiny_bilm: BiLM) -> None:
    with pytest.raises(TypeError, match=r"not BiLM: `Embedder\(load\("):
        Embedder("elmo-en")  # type: ignore[arg-type]
    for name in ("zero", "warm", "document"):
        with pytest.raises(TypeError, match='a state is used with state="carry" only'):
            embedder_of(tiny_bilm, state=name).embed_batch(
                [["a"]], State.zeros(tiny_bilm.options, 1)
            )


class SmallMemory:
    """An engine whose memory ends above a number of rows."""

    def __init__(self, engine: Engine, n_rows: int) -> None:
        self.options = engine.options
        self.pads = engine.pads
        self._engine = engine
        self._n_rows = n_rows
        self.tried: list[int] = []
        self.message = "CUDA out of memory. Tried to allocate 2.00 GiB"

    def embed_types(self, types: Sequence[str]) -> Tensor:
        return self._engine.embed_types(types)

    def forward(self, batch: Batch, *args: Any, **kwargs: Any) -> tuple[Tensor, State | None]:
        self.tried.append(len(batch.rows))
        if len(batch.rows) > self._n_rows:
            raise RuntimeError(self.message)
        return self._engine.forward(batch, *args, **kwargs)


@pytest.mark.parametrize("state", ["zero", "warm", "carry", "document"])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_batches_are_halved_where_memory_ends(
    state: str, n_rows: int, odd_bilm: BiLM, lines: list[list[str]]
) -> None:
    sentences = numbered([line[:4] for line in lines[:12]], document=2)
    embedder = embedder_of(odd_bilm, state=state, batch_size=8)
    expected, expected_final = embedder.embed_block(sentences, None)
    small = embedder.engine = SmallMemory(embedder.engine, n_rows)
    arrays, final = embedder.embed_block(sentences, None)
    close(arrays, expected)
    assert max(small.tried) > n_rows
    if final is not None and expected_final is not None:
        close([final.h, final.c], [expected_final.h, expected_final.c])  # type: ignore[list-item]


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_memory_may_end_where_layers_are_reduced(
    state: str, odd_bilm: BiLM, lines: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = embedder_of(odd_bilm, state=state, batch_size=16, layers="average")
    expected, _ = embedder.embed_block(numbered(lines[:30]), None)
    select = OutputReduction.select
    tried: list[int] = []

    def limited(output: OutputReduction, layers: Tensor) -> Tensor:
        tried.append(layers.shape[1])
        if layers.shape[1] > 40:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`")
        return select(output, layers)

    monkeypatch.setattr(OutputReduction, "select", limited)
    arrays, _ = embedder.embed_block(numbered(lines[:30]), None)
    assert max(tried) > 40
    close(arrays, expected)


@pytest.mark.parametrize(("engine", "rows"), [("fast", [9]), ("plain", [3, 6])])
def test_padding_counts_where_the_engine_pads(
    engine: str, rows: list[int], tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(DeviceTuning.of(torch.device("cpu")), tokens=60)
    monkeypatch.setattr(DeviceTuning, "of", lambda device: small)
    embedder = embedder_of(tiny_bilm, engine=engine)
    large = embedder.engine = SmallMemory(embedder.engine, 100)
    embedder.embed_batch([["a"] * 18, *[["b", "c"]] * 8])  # 20 tokens with boundaries, and 4 each
    assert sorted(large.tried) == rows


@pytest.mark.parametrize(
    ("message", "error"),
    [("CUDA out of memory.", DeviceError), ("mat1 and mat2 shapes do not match", RuntimeError)],
)
def test_a_sentence_that_does_not_fit_is_named(
    message: str, error: type[Exception], tiny_bilm: BiLM
) -> None:
    """Other errors of torch are not hidden."""
    embedder = embedder_of(tiny_bilm)
    embedder.engine = SmallMemory(embedder.engine, 0)
    embedder.engine.message = message
    with pytest.raises(error) as caught:
        embedder.embed_block([Sentence(("b", "c"), 1, source="corpus.txt", line=2)], None)
    assert type(caught.value) is error
    assert ("corpus.txt, line 2: " in str(caught.value)) == (error is DeviceError)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_threads_of_a_program_may_share_an_embedder(n_threads: int, tiny_bilm: BiLM) -> None:
    sentences = [[f"word{n * k % 91}" for k in range(1, 12)] for n in range(24)]
    expected = embedder_of(tiny_bilm).embed_batch(sentences)[0]
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        shared = embedder_of(tiny_bilm)
        with ThreadPoolExecutor(4) as pool:
            close(list(pool.map(shared.embed, sentences)), expected)
        close(shared.embed_batch(sentences)[0], expected)
    finally:
        torch.set_num_threads(before)
