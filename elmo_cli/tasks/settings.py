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

# Name of the task and of its module -> help text.
TASKS = {
    "classification": "labels of sentences: LABEL, tab, tokens; JSON lines; trees as in SST",
    "coref": "clusters of mentions of the same entity: columns as in CoNLL-2012; JSON lines",
    "entailment": "labels of sentence pairs: JSON lines as in SNLI or SICK",
    "ner": "labels of tokens: BIO, BIOES, BIOUL or plain labels in columns",
    "qa": "answers to questions in a text: SQuAD 1.1 JSON",
    "similarity": "scores of sentence pairs: JSON lines as in SICK",
    "srl": "semantic roles of given predicates: JSON lines; columns as in CoNLL-2012",
}


def probability(default: float) -> Any:
    """Declare a dataclass field for a dropout probability."""
    return bounded(default, "a number from 0 to below 1", lambda value: 0 <= value < 1)


S = TypeVar("S", bound="TaskSettings")


@dataclass(frozen=True)
class ElmoSettings:
    """How a task model uses the biLM layers (section 3.3 of the paper).

    Attributes:
        layers: "all" (a learned weighted sum of the layers), "last", "type" (the token layer) or
            "none" (no ELMo).
        where: where ELMo is concatenated: "input" (to the word vectors), "output" (to the biLSTM
            states) or "both", each with its own weights.
        l2: strength lambda of the L2 penalty on the layer weights.
        dropout: dropout probability after the weighted sum.
        projection: dimension of a linear projection of the sum; 0 for none, as in the paper.
        layer_norm: whether to normalise each layer before it is weighted.
    """

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
    """The settings that all tasks share; an invalid value raises a SettingError.

    Attributes:
        elmo: how the model uses the biLM layers.
        train_word_vectors: whether to train the word vectors, or keep them fixed.
        char_filters: number of filters of the character CNN; 0 for no character CNN.
        char_dim: dimension of a character embedding.
        char_width: width of a filter in characters (UTF-8 bytes).
        hidden: hidden size of each LSTM direction.
        layers: number of biLSTM layers.
        dropout: dropout probability; all tokens of a sequence share one mask.
        optimizer: "adam", or "adadelta" with rho 0.95.
        learning_rate: learning rate of the optimizer.
        lr_patience: number of epochs without a better dev score after which the learning rate is
            halved, again after each further such number; 0 for never.
        max_grad_norm: maximum gradient norm.
        batch_size: examples per step.
        epochs: maximum number of passes over the training data.
        patience: epochs without a better dev score before training stops, counted from the first
            score above 0.
        fraction: fraction of the training examples to train on.
        seed: random seed.
    """

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
