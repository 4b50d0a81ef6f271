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
from make_weights import MODELS, SHAPES, OptionsJson

from elmo_cli.errors import OptionsError
from elmo_cli.model.options import Options


def changed(part: str, name: str, value: Any) -> OptionsJson:
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
    ("lstm", "dim", 0, f"lstm.dim is 0, {WHOLE}"),
    ("lstm", "dim", 1 << 25, f"lstm.dim is 33554432, {WHOLE}"),
    ("lstm", "dim", 16.5, f"lstm.dim is 16.5, {WHOLE}"),
    ("lstm", "dim", True, f"lstm.dim is true, {WHOLE}"),
    ("lstm", "dim", math.nan, f"lstm.dim is NaN, {WHOLE}"),
    ("lstm", "projection_dim", [8], f"lstm.projection_dim is [8], {WHOLE}"),
    ("lstm", "n_layers", 10**7, "lstm.n_layers is 10000000, not a whole number from 1 to 1000"),
    ("lstm", "n_layers", 1001, "lstm.n_layers is 1001, not a whole number from 1 to 1000"),
    ("char_cnn", "n_highway", 1001, "n_highway is 1001, not a whole number from 0 to 1000"),
    ("char_cnn", "max_characters_per_token", 1001, "is 1001, not a whole number from 3 to 1000"),
    ("lstm", "cell_clip", -3, "lstm.cell_clip is -3, not null or a positive number"),
    ("lstm", "cell_clip", True, "lstm.cell_clip is true, not null or a positive number"),
    ("lstm", "proj_clip", math.inf, "lstm.proj_clip is Infinity, not null or a positive number"),
    ("lstm", "proj_clip", 10**400, "lstm.proj_clip is 1000"),
    ("lstm", "forget_bias", 0.5, "lstm.forget_bias is 0.5, not 0 or 1"),
    ("lstm", "forget_bias", False, "lstm.forget_bias is false, not 0 or 1"),
    ("lstm", "use_skip_connections", 1, "lstm.use_skip_connections is 1, not true or false"),
    ("char_cnn", "activation", "gelu", 'char_cnn.activation is "gelu", not relu or tanh'),
    ("char_cnn", "n_highway", -1, "char_cnn.n_highway is -1, not a whole number from 0 to 1000"),
    ("char_cnn", "embedding", ..., "char_cnn.embedding is missing or not a JSON object"),
    ("char_cnn", "embedding", 16, "char_cnn.embedding is missing or not a JSON object"),
    ("char_cnn", "embedding", {}, "char_cnn.embedding.dim is missing"),
    ("char_cnn", "n_characters", 263, "n_characters is 263, not a whole number from 261 to 262"),
    ("char_cnn", "max_characters_per_token", 2, "max_characters_per_token is 2, not a whole"),
    ("char_cnn", "filters", [], f"char_cnn.filters is [], {PAIRS}"),
    ("char_cnn", "filters", [[1, 0]], f"char_cnn.filters is [[1, 0]], {PAIRS}"),
    ("char_cnn", "filters", [[True, 4]], f"char_cnn.filters is [[true, 4]], {PAIRS}"),
    ("char_cnn", "filters", [[51, 4]], "not widths of at most max_characters_per_token (50)"),
    # a misspelled clip would mean that nothing is clipped
    ("lstm", "cell_clp", 3, 'unknown key "cell_clp" in lstm'),
    ("char_cnn", "embedding", {"dim": 4, "dims": 5}, 'unknown key "dims" in char_cnn.embedding'),
]


@pytest.mark.parametrize(("part", "name", "value", "problem"), REFUSED)
def test_impossible_value_is_refused_by_name(
    part: str, name: str, value: Any, problem: str
) -> None:
    """Otherwise a corrupt options.json becomes a traceback, or a model of another shape."""
    with pytest.raises(OptionsError) as caught:
        Options.from_dict(changed(part, name, value), where="some/options.json")
    assert caught.value.message.startswith("some/options.json: ")
    assert problem in caught.value.message
    assert caught.value.hint
    assert len(caught.value.message) < 200  # a huge value is not repeated in full


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"char_cnn": MODELS["tiny"]["char_cnn"]}, "lstm is missing or not a JSON object"),
        ([], "the content is missing or not a JSON object"),
        # bilm-tf can train one direction alone; read as both it would be another model
        (MODELS["tiny"] | {"bidirectional": False}, "bidirectional is false, not true"),
        (None, "no such options file"),  # golden messages and test_regular_files.py have others
    ],
)
def test_content_that_is_no_bilm(tmp_path: Path, content: Any, problem: str) -> None:
    path = tmp_path / "options.json"
    if content is not None:
        path.write_text(json.dumps(content))
    with pytest.raises(OptionsError) as caught:
        Options.from_file(path)
    assert caught.value.message == f"{path}: {problem}"


TINY = Options.from_dict(MODELS["tiny"])
# Part and name of a value, the value, and how it is read: bilm-tf clips nothing at null, 0, absent.
TAKEN = [
    ("char_cnn", "n_characters", 261, "max_characters", 50),
    ("char_cnn", "n_characters", 262, "max_characters", 50),
    ("char_cnn", "n_characters", None, "max_characters", 50),
    ("lstm", "cell_clip", None, "cell_clip", None),
    ("lstm", "cell_clip", ..., "cell_clip", None),
    ("lstm", "cell_clip", 0, "cell_clip", None),
    ("lstm", "proj_clip", None, "proj_clip", None),
    ("lstm", "proj_clip", ..., "proj_clip", None),
    ("lstm", "proj_clip", 0, "proj_clip", None),
    ("lstm", "proj_clip", 0.75, "proj_clip", 0.75),
    ("lstm", "forget_bias", None, "forget_bias", 1),
    ("lstm", "forget_bias", 0, "forget_bias", 0),
    ("char_cnn", "n_highway", None, "n_highway", 0),
    ("char_cnn", "n_highway", ..., "n_highway", 0),
    ("lstm", "use_skip_connections", None, "residual", False),
    ("lstm", "use_skip_connections", ..., "residual", False),
    ("lstm", "n_layers", None, "n_layers", 1),
    ("lstm", "n_layers", ..., "n_layers", 1),
    ("char_cnn", "max_characters_per_token", ..., "max_characters", 50),
    ("char_cnn", "filters", [[50, 4]], "filters", ((50, 4),)),
    # the largest numbers
    ("lstm", "dim", 1 << 24, "lstm_dim", 1 << 24),
    ("lstm", "n_layers", 1000, "n_layers", 1000),
    ("char_cnn", "n_highway", 1000, "n_highway", 1000),
    ("char_cnn", "max_characters_per_token", 1000, "max_characters", 1000),
]


@pytest.mark.parametrize(("part", "name", "value", "attribute", "read"), TAKEN)
def test_values_are_read_as_by_bilm_tf(
    part: str, name: str, value: Any, attribute: str, read: Any
) -> None:
    """As trained and as embedded are one model, and what is left out has bilm-tf's default."""
    options = Options.from_dict(changed(part, name, value))
    assert vars(options) == vars(TINY) | {attribute: read}


@pytest.mark.parametrize(("part", "name", "value", "attribute", "read"), TAKEN)
def test_what_a_file_does_not_state_is_known(
    part: str, name: str, value: Any, attribute: str, read: Any
) -> None:
    """Null states nothing, except that there is no clip."""
    content = changed(part, name, value)
    not_stated = Options.from_dict(content).not_stated_in(content)
    is_clip = name in ("cell_clip", "proj_clip")
    is_stated = value is not ... and (value is not None or is_clip)
    expected = {"lstm.forget_bias": 1.0}
    if is_stated:
        expected.pop(f"{part}.{name}", None)
    elif name != "forget_bias":
        expected[f"{part}.{name}"] = 262 if name == "n_characters" else read
    assert not_stated == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_to_dict_says_the_same_again(shape: str) -> None:
    """A trained model is read back as itself; keys of training make no difference."""
    options = Options.from_dict(SHAPES[shape])
    assert options.to_dict() == SHAPES[shape]
    more = {"bidirectional": True, "dropout": 0.1, "unroll_steps": "twenty"}
    assert Options.from_dict(SHAPES[shape] | more) == options


def test_sizes_that_follow() -> None:
    assert (TINY.n_filters, TINY.projection_dim, TINY.dim) == (60, 8, 16)
    shapes = {"tiny": (True, True), "no W_P_0": (True, False), "no CNN_proj": (False, True)}
    for shape, expected in shapes.items():
        options = Options.from_dict(SHAPES[shape])
        assert (options.has_cnn_projection, options.has_lstm_projection) == expected


def unicode_content(*, with_words: bool = True) -> OptionsJson:
    """The options of tiny for a model that reads Unicode characters."""
    content = changed("char_cnn", "n_characters", ...)
    content["char_cnn"]["characters"] = "characters.txt"
    content["family"] = "elmoformanylangs"
    if with_words:
        content["words"] = {"dim": 10, "file": "words.txt"}
    return content


def test_unicode_characters_are_stated_by_their_dictionaries() -> None:
    """Other programs require `n_characters`: without it, they fail instead of reading bytes."""
    content = unicode_content()
    options = Options.from_dict(content)
    assert (options.is_unicode, options.word_dim) == (True, 10)
    assert options.has_cnn_projection
    assert options.to_dict() == content
    without_words = Options.from_dict(unicode_content(with_words=False))
    assert (without_words.is_unicode, without_words.word_dim) == (True, 0)
    assert without_words.to_dict() == unicode_content(with_words=False)


@pytest.mark.parametrize(
    ("part", "name", "value", "problem"),
    [
        ("char_cnn", "characters", "../x.txt", 'characters is "../x.txt", not characters.txt'),
        ("char_cnn", "characters", ..., "words is {"),
        ("words", "dim", 0, "words.dim is 0"),
        ("words", "file", "w.txt", 'words.file is "w.txt", not words.txt'),
        ("words", "dims", 3, 'unknown key "dims" in words'),
    ],
)
def test_impossible_dictionaries_are_refused(
    part: str, name: str, value: Any, problem: str
) -> None:
    content = unicode_content()
    content[part][name] = value
    if value is ...:
        del content[part][name]
    with pytest.raises(OptionsError) as caught:
        Options.from_dict(content)
    assert problem in caught.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
VALUES = [(part, name) for part in MODELS["tiny"] for name in MODELS["tiny"][part]]


@given(st.sampled_from(VALUES), JSON)
def test_any_value_is_taken_or_refused(part_and_name: tuple[str, str], value: Any) -> None:
    """Otherwise some value would end in a traceback instead of a message."""
    part, name = part_and_name
    with suppress(OptionsError):
        options = Options.from_dict(changed(part, name, value))
        assert Options.from_dict(options.to_dict()) == options
