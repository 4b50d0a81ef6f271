"""TaskSettings: the settings that all tasks share, and the table of tasks."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from typing import Any, TypeVar, get_args, get_type_hints

from elmo_cli.errors import SettingError
from elmo_cli.lm.settings import MOST_SEED, at_least, bounded, check_fields, one_of, positive

SCORES_FILE = "scores.json"  # in the folder of a trained model
# Name of the task and of its module -> help text.
TASKS = {
    "classification": "labels of sentences: LABEL, tab, tokens; JSON lines; trees as in SST",
    "coref": "clusters of mentions of the same entity: columns as in CoNLL-2012; JSON lines",
    "entailment": "labels of sentence pairs: JSON lines as in SNLI or SICK",
    "ner": "labels of tokens: BIO, BIOES, BIOUL or plain labels in columns",
    "qa": "answers to questions in a text: SQuAD 1.1 JSON",
    "similarity": "scores of sentence pairs: JSON lines as in SICK",
    "srl": "semantic roles of given predicates: JSON lines",
}


def probability(default: float) -> Any:
    """Declare a dataclass field for a dropout probability."""
    return bounded(default, "a number from 0 to below 1", lambda value: 0 <= value < 1)


S = TypeVar("S", bound="TaskSettings")


@dataclass(frozen=True)
class ElmoSettings:
    """How a task model uses the biLM layers (section 3.3 of the paper); see docs/train.md."""

    layers: str = one_of("all", "last", "type", "none")
    where: str = one_of("input", "output", "both")
    l2: float = bounded(0.001, "a number from 0", lambda value: value >= 0)
    dropout: float = probability(0.5)
    projection: int = at_least(0, 128)
    layer_norm: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class TaskSettings:
    """The settings that all tasks share; see docs/train.md. SettingError for an invalid value."""

    elmo: ElmoSettings = field(default_factory=ElmoSettings)
    train_word_vectors: bool = True
    char_filters: int = at_least(0, 64)
    char_dim: int = at_least(1, 16)
    char_width: int = at_least(1, 3)
    hidden: int = at_least(1, 100)
    layers: int = at_least(1, 1)
    dropout: float = probability(0.5)
    optimizer: str = one_of("adam", "adadelta")
    learning_rate: float = positive(0.001)
    # Scores on a small dev set are noisy, which should neither slow down nor end a run.
    lr_patience: int = at_least(0, 4)
    max_grad_norm: float = positive(5.0)
    batch_size: int = at_least(1, 32)
    epochs: int = at_least(1, 30)
    patience: int = at_least(1, 8)
    fraction: float = bounded(1.0, "a number above 0 and at most 1", lambda value: 0 < value <= 1)
    seed: int = bounded(0, f"a number from 0 to {MOST_SEED}", lambda value: 0 <= value <= MOST_SEED)

    def __post_init__(self) -> None:
        check_fields(self)


def with_settings(settings: S, changes: Mapping[str, Any]) -> S:
    """Return a copy of the settings with some of them changed.

    Args:
        changes: name -> value, or its text; names of `ElmoSettings` have the prefix "elmo.".
    Raises:
        SettingError: a name is unknown or a value is invalid.
    """
    own: dict[str, Any] = {}
    elmo: dict[str, Any] = {}
    known = as_flat(settings)
    for name, value in changes.items():
        if name not in known:
            raise SettingError(name, "no such setting", suggest(name, known))
        is_own, short = not name.startswith("elmo."), name.removeprefix("elmo.")
        owner, changed = (settings, own) if is_own else (settings.elmo, elmo)
        changed[short] = _parsed(type(owner), short, value)
    return replace(settings, elmo=replace(settings.elmo, **elmo), **own)


def as_flat(settings: TaskSettings) -> dict[str, Any]:
    """Return all settings by name, in the form that `with_settings` takes."""
    own = asdict(settings)
    return {**{f"elmo.{name}": value for name, value in own.pop("elmo").items()}, **own}


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown name: a similar one, or all of them."""
    near = get_close_matches(name, known, 1)
    return f"did you mean `{near[0]}`?" if near else f"choose one of {', '.join(known)}"


def _parsed(owner: type, name: str, value: Any) -> Any:
    """Parse the text of a number or a truth value; what is neither stays, and is refused later."""
    hint = get_type_hints(owner)[name]
    if isinstance(value, str) and str not in (hint, *get_args(hint)):
        with suppress(ValueError, SyntaxError):
            return literal_eval(value.capitalize())  # "true" as True
    return value
