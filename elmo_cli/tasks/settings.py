"""TaskSettings: the settings that all tasks share, and the table of tasks."""

from __future__ import annotations

import math
from ast import literal_eval
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from elmo_cli.errors import SettingError
from elmo_cli.fields import MOST_SEED, at_least, bounded, check_fields, one_of, positive

# Bounds far above all published sizes: a task model may come from anywhere.
MOST_SIZE = 16_384
MOST_LAYERS = 100
MOST_CHAR_DIM = 1_024
MOST_CHAR_WIDTH = 20  # a model reads 20 characters of a token
# Name of the task and of its module -> help text.
TASKS = {
    "classification": "labels of sentences: LABEL, tab, tokens; JSON lines; trees as in SST",
    "coref": "clusters of mentions of the same entity: columns as in CoNLL-2012; JSON lines",
    "entailment": "labels of sentence pairs: JSON lines as in SNLI or SICK",
    "ner": "any labels of tokens, such as named entities (BIO, BIOES or BIOUL) or parts of speech: "
    "columns; JSON lines",
    "qa": "answers to questions in a text: SQuAD 1.1 JSON; JSON lines",
    "similarity": "scores of sentence pairs: JSON lines as in SICK",
    "srl": "semantic roles of given predicates: JSON lines; columns as in CoNLL-2012",
}
# What else these tasks, or parts of them, are called -> name of the task. A command does not accept
# these names; its hint names the task that the user is looking for.
_OTHER_NAMES = {
    "chunking": "ner",
    "chunks": "ner",
    "entities": "ner",
    "morphology": "ner",
    "nli": "entailment",
    "pos": "ner",
    "question-answering": "qa",
    "sentiment": "classification",
    "squad": "qa",
    "sst": "classification",
    "sts": "similarity",
    "tag": "ner",
    "tagger": "ner",
    "tagging": "ner",
    "text-classification": "classification",
    "token-classification": "ner",
    "upos": "ner",
    "xpos": "ner",
}

PRESETS = ("paper",)  # names of groups of settings; not every task has all of them
PREDICTION_FORMATS = ("conll", "json", "jsonl")  # of which a task has some


def probability(default: float) -> Any:
    """Declare a dataclass field for a dropout probability."""
    return bounded(default, "a number from 0 to below 1", lambda value: 0 <= value < 1)


def size(default: int, *, least: int = 1, most: int = MOST_SIZE) -> Any:
    """Declare a dataclass field for a dimension, or another number that memory grows with."""
    allowed = f"a number from {least:,} to {most:,}"
    return bounded(default, allowed, lambda value: least <= value <= most)


@dataclass(frozen=True)
class TaskSettings:
    """The settings that all tasks share; SettingError for an invalid value.

    docs/guides/train.md lists them. On the command line and in files, a dot follows "elmo", as in
    "elmo.layers".
    """

    elmo_layers: str = one_of("all", "last", "type", "none")
    elmo_where: str = one_of("input", "output", "both")
    elmo_l2: float = bounded(0.001, "a number from 0", lambda value: 0 <= value < math.inf)
    elmo_dropout: float = probability(0.5)
    elmo_projection: int = size(128, least=0)
    elmo_layer_norm: bool = False
    train_word_vectors: bool = True
    char_filters: int = size(64, least=0)
    char_dim: int = size(16, most=MOST_CHAR_DIM)
    char_width: int = size(3, most=MOST_CHAR_WIDTH)
    hidden: int = size(100)
    layers: int = size(1, most=MOST_LAYERS)
    dropout: float = probability(0.5)
    optimizer: str = one_of("adam", "adadelta")
    learning_rate: float = positive(0.001)
    # Scores on a small dev set are noisy, which should neither slow down nor end a run.
    lr_patience: int = at_least(0, 4)
    max_grad_norm: float = positive(5.0)
    batch_size: int = size(32)
    epochs: int = at_least(1, 30)
    patience: int = at_least(1, 8)
    fraction: float = bounded(1.0, "a number above 0 and at most 1", lambda value: 0 < value <= 1)
    seed: int = bounded(0, f"a number from 0 to {MOST_SEED}", lambda value: 0 <= value <= MOST_SEED)

    def __post_init__(self) -> None:
        check_fields(self)


def with_settings(settings: TaskSettings, changes: Mapping[str, Any]) -> TaskSettings:
    """Return a copy of the settings with some of them changed.

    Args:
        changes: name -> value, or its text, with names as in `as_flat`.
    Raises:
        SettingError: a name is unknown or a value is invalid.
    """
    known = as_flat(settings)
    changed: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in known:
            raise SettingError(name, "no such setting", suggest(name, known))
        changed[_field_name(name)] = _parsed(value, known[name])
    try:
        return replace(settings, **changed)
    except SettingError as error:
        raise SettingError(_setting_name(error.name), error.problem, error.hint) from None


def as_flat(settings: TaskSettings) -> dict[str, Any]:
    """Return all settings by name, in the form that `with_settings` takes."""
    return {_setting_name(field): value for field, value in vars(settings).items()}


def _setting_name(field: str) -> str:
    return field.replace("elmo_", "elmo.")


def _field_name(setting: str) -> str:
    return setting.replace(".", "_")


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown name: a similar one, or all of them."""
    similar = get_close_matches(name, known, 1)
    if similar:
        return f"did you mean `{similar[0]}`?"
    return f"choose one of {', '.join(known)}"


def suggest_task(name: str) -> str:
    """Return the hint for an unknown task: the task that has another name, or as `suggest`."""
    task = _OTHER_NAMES.get(name.lower().replace("_", "-"))
    if task is None:
        return suggest(name, TASKS)
    return f"the task `{task}` predicts {TASKS[task]}"


def _parsed(value: Any, default: Any) -> Any:
    """Parse the text of a number or a truth value; what is neither stays, and is refused later."""
    if isinstance(value, str) and isinstance(default, (int, float)):
        # All that `literal_eval` raises.
        with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return literal_eval(value.capitalize())  # "true" as True
    return value
