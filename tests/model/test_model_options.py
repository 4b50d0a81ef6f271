"""Options: every value that no biLM can have is refused by its name, every other one is taken."""

from __future__ import annotations

import copy
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_weights import MODELS, SHAPES

from elmo_cli.errors import OptionsError
from elmo_cli.model.options import Options

Json = dict[str, Any]


def changed(part: str, name: str, value: Any) -> Json:
    """The options of tiny with one value changed; `...` takes it out."""
    content = copy.deepcopy(MODELS["tiny"])
    if value is ...:
        del content[part][name]
    else:
        content[part][name] = value
    return content


WHOLE = "not a whole number from 1 to 16777216"
PAIRS = "not a list of [width, count] pairs"
# One row per check; `test_any_value_is_taken_or_refused` tries the rest.
REFUSED = [
    ("lstm", "dim", ..., "lstm.dim is missing"),
    ("lstm", "dim", None, "lstm.dim is missing"),
    ("lstm", "dim", 0, f"lstm.dim is 0, {WHOLE}"),
    ("lstm", "dim", 1 << 25, f"lstm.dim is 33554432, {WHOLE}"),
    ("lstm", "dim", 16.5, f"lstm.dim is 16.5, {WHOLE}"),
    ("lstm", "dim", True, f"lstm.dim is true, {WHOLE}"),
    ("lstm", "dim", math.nan, f"lstm.dim is NaN, {WHOLE}"),
    ("lstm", "projection_dim", [8], f"lstm.projection_dim is [8], {WHOLE}"),
    ("lstm", "n_layers", 10**7, "lstm.n_layers is 10000000, not a whole number from 1 to 1000"),
    ("lstm", "cell_clip", -3, "lstm.cell_clip is -3, not null or a positive number"),
    ("lstm", "cell_clip", "3", 'lstm.cell_clip is "3", not null or a positive number'),
    ("lstm", "cell_clip", True, "lstm.cell_clip is true, not null or a positive number"),
    ("lstm", "proj_clip", math.inf, "lstm.proj_clip is Infinity, not null or a positive number"),
    ("lstm", "proj_clip", 10**400, "lstm.proj_clip is 1000"),
    ("lstm", "use_skip_connections", 1, "lstm.use_skip_connections is 1, not true or false"),
    ("char_cnn", "activation", ..., "char_cnn.activation is missing"),
    ("char_cnn", "activation", "gelu", 'char_cnn.activation is "gelu", not relu or tanh'),
    ("char_cnn", "n_highway", -1, "char_cnn.n_highway is -1, not a whole number from 0 to 1000"),
    ("char_cnn", "embedding", ..., "char_cnn.embedding is missing"),
    ("char_cnn", "embedding", 16, "char_cnn.embedding is 16, not a JSON object"),
    ("char_cnn", "embedding", {}, "char_cnn.embedding.dim is missing"),
    ("char_cnn", "n_characters", 263, "n_characters is 263, not a whole number from 261 to 262"),
    ("char_cnn", "max_characters_per_token", 2, "max_characters_per_token is 2, not a whole"),
    ("char_cnn", "filters", [], f"char_cnn.filters is [], {PAIRS}"),
    ("char_cnn", "filters", [[1, 4, 4]], f"char_cnn.filters is [[1, 4, 4]], {PAIRS}"),
    ("char_cnn", "filters", [[1, 0]], f"char_cnn.filters is [[1, 0]], {PAIRS}"),
    ("char_cnn", "filters", [[True, 4]], f"char_cnn.filters is [[true, 4]], {PAIRS}"),
    ("char_cnn", "filters", [[51, 4]], "not widths of at most max_characters_per_token (50)"),
    # a misspelled clip would mean that nothing is clipped
    ("lstm", "cell_clp", 3, 'unknown key "cell_clp" in lstm'),
    ("char_cnn", "filter", 3, 'unknown key "filter" in char_cnn'),
    ("char_cnn", "embedding", {"dim": 4, "dims": 5}, 'unknown key "dims" in char_cnn.embedding'),
]


@pytest.mark.parametrize(("part", "name", "value", "said"), REFUSED)
def test_impossible_value_is_refused_by_name(part: str, name: str, value: Any, said: str) -> None:
    """Without it a damaged options.json becomes a traceback, or a model of another shape."""
    with pytest.raises(OptionsError) as caught:
        Options.from_dict(changed(part, name, value), where="some/options.json")
    assert caught.value.message.startswith("some/options.json: ")
    assert said in caught.value.message
    assert caught.value.hint
    assert len(caught.value.message) < 200  # a huge value is not repeated in full


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"char_cnn": MODELS["tiny"]["char_cnn"]}, "options: lstm is missing"),
        ([], "options: the content is [], not a JSON object"),
        (None, "options: the content is null, not a JSON object"),
        # bilm-tf can train one direction alone; read as both it would be another model
        (MODELS["tiny"] | {"bidirectional": False}, "options: bidirectional is false, not true"),
    ],
)
def test_content_that_is_no_bilm(content: Any, said: str) -> None:
    with pytest.raises(OptionsError) as caught:
        Options.from_dict(content)
    assert caught.value.message == said


@pytest.mark.parametrize("n_characters", [261, 262, 261.0, None])
def test_as_trained_and_as_embedded_are_one_model(n_characters: Any) -> None:
    """Without it users would have to edit n_characters, as bilm-tf makes them do."""
    assert Options.from_dict(changed("char_cnn", "n_characters", n_characters)) == (
        Options.from_dict(MODELS["tiny"])
    )


@pytest.mark.parametrize("clip", ["cell_clip", "proj_clip"])
@pytest.mark.parametrize(("value", "read"), [(None, None), (..., None), (0, None), (0.75, 0.75)])
def test_clips(clip: str, value: Any, read: float | None) -> None:
    """Without it a clip of 0 would make every vector 0 (null, absent, 0: bilm-tf clips nothing)."""
    assert getattr(Options.from_dict(changed("lstm", clip, value)), clip) == read


@pytest.mark.parametrize("value", [None, ...])
def test_what_may_be_left_out(value: Any) -> None:
    """Without it options that bilm-tf loads would be refused, or read as another model."""
    assert Options.from_dict(changed("char_cnn", "n_highway", value)).n_highway == 0
    assert Options.from_dict(changed("lstm", "use_skip_connections", value)).residual is False
    assert Options.from_dict(changed("lstm", "n_layers", value)).n_layers == 1
    places = Options.from_dict(changed("char_cnn", "max_characters_per_token", value))
    assert places.max_characters == 50


def test_keys_of_training_are_left_unread() -> None:
    """Without it the options of a checkpoint could not be used to embed."""
    more = MODELS["tiny"] | {"bidirectional": True, "dropout": 0.1, "unroll_steps": "twenty"}
    assert Options.from_dict(more) == Options.from_dict(MODELS["tiny"])


@pytest.mark.parametrize("shape", SHAPES)
def test_to_dict_says_the_same_again(shape: str) -> None:
    """Without it a trained model would be read back as another one."""
    options = Options.from_dict(SHAPES[shape])
    assert Options.from_dict(json.loads(json.dumps(options.to_dict()))) == options
    assert options.to_dict() == SHAPES[shape]


def test_sizes_that_follow() -> None:
    """Without it the stored dimension could be that of one direction."""
    options = Options.from_dict(MODELS["tiny"])
    assert (options.n_filters, options.projection_dim, options.dim) == (60, 8, 16)
    assert (options.has_cnn_projection, options.has_lstm_projection) == (True, True)
    for shape, expected in (("no W_P_0", (True, False)), ("no CNN_proj", (False, True))):
        options = Options.from_dict(SHAPES[shape])
        assert (options.has_cnn_projection, options.has_lstm_projection) == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such options file"),
        (b"{'lstm': 1}", "not JSON"),  # more in tests/test_regular_files.py
        (b"{}", "is missing"),
    ],
)
def test_file_that_is_no_options(tmp_path: Path, content: bytes | None, said: str) -> None:
    """Without it a foreign file in the place of options.json would be a traceback."""
    path = tmp_path / "options.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OptionsError, match=said) as caught:
        Options.from_file(path)
    assert caught.value.message.startswith(f"{path}: ")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
PLACES = [(part, name) for part in MODELS["tiny"] for name in MODELS["tiny"][part]]


@given(st.sampled_from(PLACES), JSON)
def test_any_value_is_taken_or_refused(place: tuple[str, str], value: Any) -> None:
    """Without it some value would end in a traceback instead of a message."""
    with suppress(OptionsError):
        options = Options.from_dict(changed(*place, value))
        assert Options.from_dict(options.to_dict()) == options
