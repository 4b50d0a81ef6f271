"""Cells: the training runs for the tables and figures of the paper, one per score."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

GLOVE = "glove/glove.6B.50d.subset.npz"
SEEDS = (0, 1, 2)
FRACTIONS = (0.04, 0.1, 0.25, 0.5, 1.0)  # of the training data, in figure 1
# Epochs on all training data in tables 2, 3 and 7 and figure 1, for 100 to 150 CPU seconds a cell;
# smaller training data allow more epochs.
EPOCHS = {"QA": 7, "SICK": 9, "SRL": 4}
_MAX_EPOCHS = 30

# Name of a column -> the settings of `elmo train` that differ from those of the task.
WITHOUT = "no ELMo"
WITH = "ELMo"
VARIANTS: dict[str, dict[str, str]] = {
    WITHOUT: {"elmo.layers": "none"},
    WITH: {},
    "last layer": {"elmo.layers": "last"},
    "all layers, λ = 1": {"elmo.l2": "1"},
    "all layers, λ = 0.001": {"elmo.l2": "0.001"},
    "input": {"elmo.where": "input"},
    "input and output": {"elmo.where": "both"},
    "output": {"elmo.where": "output"},
    "word vectors": {"elmo.layers": "none", "char_filters": "0"},
    "type layer": {"elmo.layers": "type", "char_filters": "0"},
    "ELMo alone": {"char_filters": "0"},
    "ELMo and word vectors": {"char_filters": "0"},
}
NO_GLOVE = {"type layer", "ELMo alone"}
NO_ELMO = {WITHOUT, "word vectors"}

Settings = dict[str, str]


@dataclass(frozen=True)
class TaskFiles:
    """A task with its data files and settings.

    Attributes:
        task: name of the task in `elmo train TASK`.
        train, dev, test: data files, relative to the data folder.
        score: name of the reported score.
        tries: the settings that were compared on dev, with and without ELMo, as changes of the
            defaults of the task.
        chosen, chosen_without: indices of the best of them, with and without ELMo.
        fraction: fraction of the training file that counts as the full training data.
    """

    task: str
    train: str
    dev: str
    test: str
    score: str
    tries: tuple[Settings, ...] = ({},)
    chosen: int = 0
    chosen_without: int = 0
    fraction: float = 1.0


def _task(task: str, folder: str, name: str, score: str, **choices: Any) -> TaskFiles:
    """The files of a folder, with the split in their name; `choices` are further fields."""
    return TaskFiles(
        task=task,
        train=f"{folder}/{name.format('train')}",
        dev=f"{folder}/{name.format('dev')}",
        test=f"{folder}/{name.format('test')}",
        score=score,
        **choices,
    )


_PATIENT = {"lr_patience": "4", "patience": "8"}
_IMPATIENT = {"lr_patience": "2", "patience": "4"}
_LONG = {"lr_patience": "8", "patience": "16", "epochs": "60"}
_FAST = {**_PATIENT, "learning_rate": "0.002"}
# fmt: off
FILES = {
    "NER": _task(
        "ner", "ner-wnut17", "{}.conll", "f1", chosen=1, chosen_without=2,
        tries=(_IMPATIENT, _PATIENT, _FAST, {**_PATIENT, "elmo.dropout": "0.2"}),
    ),
    "NER, 10 %": _task(
        "ner", "ner-wnut17", "{}.conll", "f1", chosen_without=5, fraction=0.1,
        tries=({**_PATIENT, "batch_size": "8"},
               {**_FAST, "batch_size": "8"},
               {**_FAST, "batch_size": "4"},
               {**_FAST, "batch_size": "8", "dropout": "0.3"},
               {**_LONG, "batch_size": "8"},
               {**_LONG, "batch_size": "8", "learning_rate": "0.002"}),
    ),
    "NER, BC5CDR": _task(
        "ner", "ner-bio", "{}.conll.xz", "f1", chosen=1, chosen_without=1,
        tries=({**_FAST, "epochs": "12"},
               {**_FAST, "epochs": "24"},
               {**_FAST, "elmo.where": "both", "epochs": "24"}),
    ),
    "POS": _task(
        "ner", "pos", "en_ewt-ud-{}.conllu.xz", "accuracy", chosen=2, chosen_without=1,
        tries=({**_FAST, "epochs": "6"},
               {**_FAST, "elmo.dropout": "0.2", "epochs": "10"},
               {**_FAST, "elmo.dropout": "0.2", "elmo.where": "both", "epochs": "10"}),
    ),
    "SST-5": _task(
        "classification", "sst5", "{}.txt.xz", "accuracy",
        tries=({**_PATIENT, "epochs": "9"}, {**_PATIENT, "model": "bcn", "epochs": "7"}),
    ),
    "SICK": _task(
        "entailment", "sick", "{}.jsonl.xz", "accuracy", chosen=4, chosen_without=5,
        tries=(_PATIENT,
               {**_PATIENT, "dropout": "0.35"},
               {**_IMPATIENT, "dropout": "0.5", "epochs": "20"},
               {**_PATIENT, "dropout": "0.5", "epochs": "20"},
               {**_PATIENT, "elmo.dropout": "0.2"},
               {**_PATIENT, "elmo.dropout": "0.2", "epochs": "24"},
               {**_PATIENT, "elmo.dropout": "0.1", "dropout": "0.1", "epochs": "24"}),
    ),
    "SRL": _task("srl", "srl-ewt", "{}.jsonl.xz", "f1", fraction=0.25,
                 tries=({**_PATIENT, "epochs": "6"},)),
    "Coref": _task("coref", "coref-litbank", "{}.conll.xz", "f1",
                   tries=(_PATIENT, _FAST), chosen_without=1),
    "QA": _task("qa", "qa-xquad", "{}.json", "f1", tries=(_PATIENT,)),
}
# fmt: on

# Table -> its tasks and variants, in the order of the paper.
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "table1": (
        ("QA", "SICK", "SRL", "Coref", "NER", "SST-5", "NER, 10 %", "NER, BC5CDR", "POS"),
        (WITHOUT, WITH),
    ),
    "table2": (
        ("QA", "SICK", "SRL"),
        (WITHOUT, "last layer", "all layers, λ = 1", "all layers, λ = 0.001"),
    ),
    "table3": (("QA", "SICK", "SRL"), ("input", "input and output", "output")),
    "table7": (
        ("QA", "SICK", "SRL"),
        ("word vectors", "type layer", "ELMo alone", "ELMo and word vectors"),
    ),
    "published": (("QA", "SICK", "NER", "SST-5"), (WITHOUT, WITH)),
}
FIGURE_1 = (("SRL", "SICK"), (WITHOUT, WITH))
PARTS = ("tries", *TABLES, "figure1")


@dataclass(frozen=True)
class Cell:
    """A training run.

    Attributes:
        task: a key of `FILES`.
        variant: a key of `VARIANTS`.
        settings: the settings of `elmo train` that differ from the defaults of the task;
            "preset" is the name of a preset that replaces the defaults.
        seed: random seed.
        fraction: fraction of the training data of the task.
        is_try: whether the cell compares settings on dev only and does not read the test file.
    """

    task: str
    variant: str
    settings: Settings
    seed: int
    fraction: float = 1.0
    is_try: bool = False

    @property
    def name(self) -> str:
        """The name of its result; cells with equal settings share one run."""
        words = [f"{key}={value}" for key, value in sorted(self.settings.items())]
        glove = "no-glove" if self.variant in NO_GLOVE else "glove"
        return "_".join([self.task, *words, glove, f"{self.fraction:g}", f"seed{self.seed}"])

    def command(self, data: Path, work: Path) -> list[str]:
        """Return the arguments of `elmo` that train this cell."""
        files = FILES[self.task]
        words = ["train", files.task, "--train", data / files.train, "--dev", data / files.dev]
        words += ["--embeddings", self.embeddings(work), "-o", work / "runs" / self.name]
        if self.variant not in NO_GLOVE:
            words += ["--word-vectors", data / GLOVE]
        for key, value in self.settings.items():
            if key == "preset":
                words += ["--preset", value]
            else:
                words += ["--set", f"{key}={value}"]
        words += ["--fraction", f"{self.fraction * files.fraction:g}", "--seed", self.seed]
        return [str(word) for word in words]

    def embeddings(self, work: Path) -> Path:
        """Return the folder of the embeddings of its data files."""
        return work / "vectors" / Path(FILES[self.task].train).parent


def cells_of(part: str) -> list[Cell]:
    """Return the cells of a part, those of the first seed first."""
    if part == "tries":
        return [
            try_of(task, variant, number)
            for task, files in FILES.items()
            for number in range(len(files.tries))
            for variant in (WITHOUT, WITH)
        ]
    if part == "figure1":
        tasks, variants = FIGURE_1
        fractions = FRACTIONS
    else:
        tasks, variants = TABLES[part]
        fractions = (1.0,)
    return [
        cell_of(part, task, variant, seed, fraction)
        for seed in SEEDS
        for task in tasks
        for fraction in fractions
        for variant in variants
    ]


def try_of(task: str, variant: str, number: int) -> Cell:
    """Return the cell that tries `TaskFiles.tries[number]`."""
    settings = {**FILES[task].tries[number], **VARIANTS[variant]}
    return Cell(task=task, variant=variant, settings=settings, seed=SEEDS[0], is_try=True)


def cell_of(part: str, task: str, variant: str, seed: int, fraction: float = 1.0) -> Cell:
    """Return the cell of a table, or of "figure1"."""
    files = FILES[task]
    number = files.chosen_without if variant in NO_ELMO else files.chosen
    chosen = files.tries[number]
    limit: Settings = {}
    if part == "published":
        chosen = {"preset": "paper"}
    elif part != "table1":  # too few epochs to stop early
        epochs = str(min(_MAX_EPOCHS, round(EPOCHS[task] / fraction)))
        limit = {"epochs": epochs, "patience": epochs}
    settings = {**chosen, **VARIANTS[variant], **limit}
    return Cell(task=task, variant=variant, settings=settings, seed=seed, fraction=fraction)
