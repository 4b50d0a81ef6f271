"""Cells: the training runs for the tables and figures of the paper, one per score."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

GLOVE = "glove/glove.6B.50d.subset.npz"
SEEDS = (0, 1, 2)
FRACTIONS = (0.04, 0.1, 0.25, 0.5, 1.0)  # of the training data, in figure 1

# Name of a column -> the settings of `elmo train` that differ from the defaults of the task.
WITHOUT, WITH = "no ELMo", "ELMo"
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


@dataclass(frozen=True)
class TaskFiles:
    """A task with its data files.

    Attributes:
        task: name of the task in `elmo train TASK`.
        train, dev, test: data files, relative to the data folder.
        score: name of the reported score.
        settings: settings that all cells of the task share.
        fraction: fraction of the training file that counts as the full training data.
    """

    task: str
    train: str
    dev: str
    test: str
    score: str
    settings: dict[str, str] = field(default_factory=dict)
    fraction: float = 1.0


FILES = {
    "NER": TaskFiles(
        "ner", *(f"ner-wnut17/{split}.conll" for split in ("train", "dev", "test")), "f1"
    ),
    "SST-5": TaskFiles(
        *("classification", "sst5/train.txt.xz", "sst5/dev.txt.xz", "sst5/test.txt.xz"),
        "accuracy",
    ),
    "SICK": TaskFiles(
        *("entailment", "sick/train.jsonl.xz", "sick/dev.jsonl.xz", "sick/test.jsonl.xz"),
        "accuracy",
    ),
    "SRL": TaskFiles(
        *("srl", "srl-ewt/train.jsonl.xz", "srl-ewt/dev.jsonl.xz", "srl-ewt/test.jsonl.xz"),
        "f1",
        fraction=0.25,
    ),
    "Coref": TaskFiles(
        *("coref", "coref-litbank/train.conll.xz", "coref-litbank/dev.conll.xz"),
        *("coref-litbank/test.conll.xz", "f1"),
    ),
    "QA": TaskFiles("qa", "qa-xquad/train.json", "qa-xquad/dev.json", "qa-xquad/test.json", "f1"),
}

# Table -> its tasks and variants, in the order of the paper.
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "table1": (("QA", "SICK", "SRL", "Coref", "NER", "SST-5"), (WITHOUT, WITH)),
    "table2": (
        ("QA", "SICK", "SRL"),
        (WITHOUT, "last layer", "all layers, λ = 1", "all layers, λ = 0.001"),
    ),
    "table3": (("QA", "SICK", "SRL"), ("input", "input and output", "output")),
    "table7": (
        ("QA", "SICK", "SRL"),
        ("word vectors", "type layer", "ELMo alone", "ELMo and word vectors"),
    ),
}
FIGURE_1 = (("SRL", "SICK"), (WITHOUT, WITH))


@dataclass(frozen=True)
class Cell:
    """A training run.

    Attributes:
        task: a key of `FILES`.
        variant: a key of `VARIANTS`.
        seed: random seed.
        fraction: fraction of the training data of the task.
    """

    task: str
    variant: str
    seed: int
    fraction: float = 1.0

    @property
    def settings(self) -> dict[str, str]:
        """The settings of `elmo train` that differ from the defaults of the task."""
        return {**FILES[self.task].settings, **VARIANTS[self.variant]}

    @property
    def name(self) -> str:
        """The name of its output files; cells with equal settings share one run."""
        words = [f"{key}={value}" for key, value in sorted(self.settings.items())]
        glove = "no-glove" if self.variant in NO_GLOVE else "glove"
        return "_".join([self.task, *words, glove, f"{self.fraction:g}", f"seed{self.seed}"])

    def command(self, data: Path, work: Path) -> list[str]:
        """Return the arguments of `elmo` that train this cell."""
        files = FILES[self.task]
        words = ["train", files.task, "--train", data / files.train, "--dev", data / files.dev]
        words += ["--embeddings", work / "vectors" / self.task, "-o", work / "runs" / self.name]
        if self.variant not in NO_GLOVE:
            words += ["--word-vectors", data / GLOVE]
        for key, value in self.settings.items():
            words += ["--set", f"{key}={value}"]
        words += ["--fraction", f"{self.fraction * files.fraction:g}", "--seed", self.seed]
        return list(map(str, words))


def cells_of(part: str) -> list[Cell]:
    """Return the cells of a table, or of "figure1"."""
    if part == "figure1":
        tasks, variants = FIGURE_1
        return [
            Cell(task, variant, seed, fraction)
            for task in tasks
            for fraction in FRACTIONS
            for variant in variants
            for seed in SEEDS
        ]
    tasks, variants = TABLES[part]
    return [Cell(task, variant, seed) for task in tasks for variant in variants for seed in SEEDS]
