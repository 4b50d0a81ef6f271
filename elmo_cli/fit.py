"""FitPoint: how much of some data fits a model, a vocabulary or other data, with its limits."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from elmo_cli.errors import InputError
from elmo_cli.messages import shortened


@dataclass(frozen=True)
class FitRule:
    """What is counted, and which fractions cause a warning or an error.

    Attributes:
        name: what is counted, as at the beginning of a line: "tokens in the vocabulary".
        key: the name in JSON.
        hint: what to do if too little fits, or too much.
        warn_below, warn_above: a fraction below the one or above the other causes a warning.
        least_counted: no warning for fewer things, whose fraction says little.
        is_required: whether it is an error if none fits, because nothing can be learned or scored.
    """

    name: str
    key: str
    hint: str
    warn_below: float = 0.0
    warn_above: float = 1.0
    is_required: bool = False
    least_counted: int = 1


@dataclass(frozen=True)
class FitPoint:
    """How many of the things that a rule counts fit.

    Attributes:
        n_fitting, n_all: the things that fit, and all things that were counted.
        example: the first that does not fit, for messages; "" if there is none.
        is_beginning: whether the data may contain more things, after those that were counted.
    """

    rule: FitRule
    n_fitting: int
    n_all: int
    example: str = ""
    is_beginning: bool = False

    @classmethod
    def count(cls, rule: FitRule, things: Iterable[tuple[str, bool]]) -> FitPoint:
        """Count some things, each of which is its text and whether it fits."""
        n_fitting = 0
        n_all = 0
        example = ""
        for text, is_fitting in things:
            n_all += 1
            if is_fitting:
                n_fitting += 1
            elif not example:
                example = text
        return cls(rule, n_fitting, n_all, example)

    @classmethod
    def count_repeated(cls, rule: FitRule, labels: Iterable[str]) -> FitPoint:
        """Count the different labels; those that occur more than once fit."""
        n_by_label = Counter(labels)
        return cls.count(rule, ((shortened(label), n > 1) for label, n in n_by_label.items()))

    @property
    def fraction(self) -> float:
        """0 to 1; 1 if there is nothing to count."""
        return self.n_fitting / self.n_all if self.n_all else 1.0

    @property
    def line(self) -> str:
        """The point as a line for people: "tokens in the vocabulary: 980 of 1,000 (98.0%)"."""
        first = "the first " if self.is_beginning else ""
        counts = f"{self.n_fitting:,} of {first}{self.n_all:,} ({self.fraction:.1%})"
        return f"{self.rule.name}: {counts}"

    @property
    def warning(self) -> str:
        """A warning if the fraction is outside the limits; "" otherwise."""
        if self.n_all < self.rule.least_counted:
            return ""
        if self.rule.warn_below <= self.fraction <= self.rule.warn_above:
            return ""
        example = f", not {self.example!r}" if self.example else ""
        return f"{self.line}{example}; {self.rule.hint}"

    def check(self, where: str | os.PathLike[str]) -> None:
        """Raise an InputError if something is required to fit and nothing does.

        Args:
            where: the file, for the message.
        """
        if self.rule.is_required and self.n_fitting == 0:
            example = f", such as {self.example!r}" if self.example else ""
            problem = f"{self.rule.name}: none of {self.n_all:,}{example}"
            raise InputError(problem, self.rule.hint, where=where)

    def to_dict(self) -> dict[str, Any]:
        """The point as an object of JSON."""
        return {"fitting": self.n_fitting, "of": self.n_all, "example": self.example}


def fit_facts(points: Iterable[FitPoint]) -> dict[str, Any]:
    """The points as the member "fit" of the JSON of a command, by their keys."""
    return {point.rule.key: point.to_dict() for point in points}


# -- rules for texts ------------------------------------------------------------------------------

# Of 10,000 tokens of other texts, the vocabulary of the bundled model (25,006 types of English,
# case-sensitive) contains these fractions: English of eight genres 92 to 99 %, in lower case 90 to
# 97 %, not tokenized 76 to 86 %, biomedical 90 %, tweets 79 %, in capitals 38 to 48 %; German 27 to
# 45 %; eleven more languages in Latin script 20 to 40 %; program code 46 %.
_FEW_IN_VOCABULARY = 0.6
_OTHER_WORDS = (
    "is the vocabulary in the language of the text, spelled alike, one type per line, and does raw "
    "text need `tokenize=True`?"
)
# Equal sentences also occur in unrelated texts, such as short answers in conversations.
_MANY_REPEATED = 0.1


def _in_vocabulary(text: str, key: str) -> FitRule:
    """The rule for a text that is predicted: <UNK> alone teaches and scores nothing."""
    return FitRule(
        name=f"tokens of the {text} in the vocabulary",
        key=key,
        hint=_OTHER_WORDS,
        warn_below=_FEW_IN_VOCABULARY,
        is_required=True,
    )


TEXT_IN_VOCABULARY = _in_vocabulary("text", "text_in_vocabulary")
TRAIN_IN_VOCABULARY = _in_vocabulary("training text", "train_in_vocabulary")
HELDOUT_IN_VOCABULARY = _in_vocabulary("held-out text", "heldout_in_vocabulary")
VALIDATION_IN_VOCABULARY = _in_vocabulary("validation text", "validation_in_vocabulary")
TEST_IN_VOCABULARY = _in_vocabulary("test text", "test_in_vocabulary")
HELDOUT_IN_TRAIN = FitRule(
    name="held-out sentences that are in the training text too",
    key="heldout_in_train",
    hint="figures on them say little about new text",
    warn_above=_MANY_REPEATED,
)
# A biLM reads characters and embeds any token; its vocabulary only shows what it was trained on.
FIRST_TOKENS_IN_VOCABULARY = FitRule(
    name="tokens in the model's vocabulary",
    key="first_tokens_in_vocabulary",
    hint="was the model trained on the language of the text, and is the text tokenized?",
    warn_below=_FEW_IN_VOCABULARY,
    least_counted=20,  # a text of two sentences
)
# A text in the language of a model has hardly any character that its dictionary lacks.
FIRST_CHARACTERS_KNOWN = FitRule(
    name="characters known to the model",
    key="first_characters_known",
    hint="is the text in the language and the script that the model was trained on?",
    warn_below=0.5,
    least_counted=20,
)

# -- rules for tasks ------------------------------------------------------------------------------

TOKENS_WITH_WORD_VECTOR = FitRule(
    name="tokens with a word vector",
    key="tokens_with_word_vector",
    hint="are the word vectors of the language of the data, and do they spell words as it does?",
    warn_below=0.5,  # GloVe has vectors for over 90 % of the tokens of edited English
)
KNOWN_LABELS = FitRule(
    name="labels known to the model",
    key="known_labels",
    hint="labels that are not in train count as errors; are they spelled as in train?",
    warn_below=1.0,  # a label that train lacks is rare, or a mistake
    is_required=True,
)
# Of the columns of UD English-EWT (test and train), UPOS and XPOS have 100 % of such labels, deprel
# 94 %, FEATS 80 %; LEMMA 43 to 53 %, FORM 38 %. Sentences and numbers of rows occur once.
REPEATED_LABELS = FitRule(
    name="labels of train that occur more than once",
    key="repeated_labels",
    hint="are the labels in another column or field? A model learns little from one example",
    warn_below=0.6,
    least_counted=20,
)
ANSWERS_AT_TOKENS = FitRule(
    name="answers that begin and end at tokens",
    key="answers_at_tokens",
    hint="the model predicts whole tokens, so it never finds the others exactly",
    warn_below=0.95,  # of SQuAD 1.1, over 99 % do
)
EXAMPLES_TO_SCORE = FitRule(
    name="examples with something to score",
    key="examples_to_score",
    hint="give data with spans, arguments, clusters or different scores, as the task requires",
    is_required=True,
)


def repeated_in(split: str, things: str = "examples") -> FitRule:
    """The rule for the examples or sentences of dev or test that are also in train.

    Short sentences are repeated by chance, but in published data fewer than 5 % of all are.
    """
    return FitRule(
        name=f"{things} of {split} that are also in train",
        key=f"{split}_in_train",
        hint="scores on them say little about new text",
        warn_above=0.1,
    )
