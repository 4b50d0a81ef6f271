"""StructuralData: the trees of CoNLL-U files, joined with the vectors of their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from elmo_cli.analysis.labelled_vectors import (
    JoinedSentence,
    LabelledVectors,
    LabelSettings,
    SentenceLabels,
    read_labels,
)
from elmo_cli.analysis.probe_data import FilePair, ProbeData, join_splits
from elmo_cli.analysis.trees import BrokenTreeError, parse_heads
from elmo_cli.arrays import BoolArray, Int64Array
from elmo_cli.errors import InputError, UsageError
from elmo_cli.label_rules import is_no_label
from elmo_cli.store.layouts import Key
from elmo_cli.store.reader import open_embeddings
from elmo_cli.text.input import require_files

# XPOS that the authors' program leaves out: the tags of punctuation in the Penn Treebank.
PUNCTUATION_XPOS = frozenset(["''", ",", ".", ":", "``", "-LRB-", "-RRB-"])
PUNCTUATION_UPOS = "PUNCT"


@dataclass(frozen=True)
class TreeSplit:
    """The sentences of a split whose tree is valid.

    Attributes:
        labelled: these sentences with the vectors of their words; a label is a cell of HEAD.
        heads: of each sentence, (word,): from 1, 0 for the root.
        problems: of each sentence whose tree is broken, its line and what is wrong.
    """

    labelled: LabelledVectors
    heads: tuple[Int64Array, ...]
    problems: tuple[str, ...]

    @property
    def n_left_out(self) -> int:
        """The number of sentences whose tree is broken."""
        return len(self.problems)


@dataclass(frozen=True)
class StructuralData:
    """Trees and vectors of train, dev and test.

    Attributes:
        is_kept: of each sentence of test, (word,): whether a word is not punctuation.
        probe_data: the files that were read; its splits have broken trees as well.
    """

    splits: Mapping[str, TreeSplit]
    is_kept: tuple[BoolArray, ...]
    probe_data: ProbeData
    warnings: tuple[str, ...]


def read_structural_data(
    train: FilePair,
    test: FilePair,
    dev: FilePair | None = None,
    *,
    labels: LabelSettings | None = None,
    layers: Sequence[int] = (),
) -> StructuralData:
    """Read the trees of all splits, join them with the vectors and check both.

    Sentences whose tree is broken are left out and counted.

    Args:
        train, test, dev, layers: those of `read_probe_data`.
        labels: how the CoNLL-U files are read; its `column` is ignored.
    Raises:
        EmbeddingsFileError: as `read_probe_data`.
        InputError: as `read_probe_data`, or a split has no valid tree.
        UsageError: as `read_probe_data`, a file is not CoNLL-U or is a pipe, or the vectors are not
            those of words.
    """
    settings = replace(labels or LabelSettings(), column=None)
    pairs = [pair for pair in (train, dev, test) if pair is not None]
    _check_conllu([labels_file for _, labels_file in pairs], settings)
    settings = replace(settings, column="head")
    try:
        data = join_splits(train, test, dev, labels=settings, layers=layers)
        return _read_all_trees(data, settings)
    except InputError as error:
        if error.parameters == ("column",):  # its hint would name a setting that is ignored here
            raise _incomplete_row(error.where) from None
        raise


def _incomplete_row(where: str) -> InputError:
    problem = "a row lacks a column of CoNLL-U, up to HEAD (7)"
    hint = "a row has ten columns, separated by tabs, with `_` where there is nothing"
    return InputError(problem, hint, where=where)


def _read_all_trees(data: ProbeData, settings: LabelSettings) -> StructuralData:
    """Read the trees of all splits, whose labels are their heads, and leave out the broken ones."""
    if data.unit != "tokens":
        problem = f"has vectors of {data.unit}, and a tree is one of words"
        train_file = data.splits["train"].vectors_file
        raise UsageError(problem, "embed the text without pooling", where=train_file)
    splits = {}
    warnings = list(data.warnings)
    for name, split in data.splits.items():
        trees = _read_trees(split, settings)
        if not trees.heads:
            raise _no_valid_tree(name, split.labels_file, trees.problems)
        if trees.problems:
            n_left_out = f"{trees.n_left_out:,} of {len(split.sentences):,}"
            warnings.append(
                f"{split.labels_file}: sentences without a valid tree are left out: {n_left_out}, "
                f"the first in {trees.problems[0]}"
            )
        splits[name] = trees
    return StructuralData(
        splits=splits,
        is_kept=_without_punctuation(splits["test"].labelled, settings),
        probe_data=data,
        warnings=tuple(warnings),
    )


def _no_valid_tree(name: str, labels_file: str, problems: Sequence[str]) -> InputError:
    first_problem = f": {problems[0]}" if problems else ""
    return InputError(
        f"{name} has no sentence with a valid tree{first_problem}",
        "column HEAD (7) has the number of the head of each word, 0 for the root; train, "
        "dev and test need at least one sentence each",
        where=labels_file,
    )


def _check_conllu(labels_files: Sequence[str], settings: LabelSettings) -> None:
    """Refuse files without a column HEAD, and pipes, because columns are read one by one."""
    for labels_file in labels_files:
        if settings.format_of(labels_file) != "conllu":
            raise UsageError(
                "trees are read from CoNLL-U",
                "give a treebank in CoNLL-U, with `format=conllu` if its suffix is not .conllu",
                where=labels_file,
            )
    require_files("`structural`", labels_files)


def _read_trees(split: LabelledVectors, settings: LabelSettings) -> TreeSplit:
    """Return the sentences with a valid tree, and the problems of the others."""
    with open_embeddings(split.vectors_file) as embeddings:
        rows = embeddings.attributes.get("rows", "words")
    ids = {} if rows == "words" else _column(split, settings, "id")
    if rows == "tokens":
        _refuse_ranges(split, ids)
    heads = []
    valid_numbers = []
    problems = []
    for number, sentence in enumerate(split.sentences):
        try:
            if ids:
                _check_rows(sentence, ids[sentence.key])
            cells = [cell for cell in sentence.labels if not is_no_label(cell)]
            if not ids and len(cells) < len(sentence.labels):
                raise BrokenTreeError("a word has no head")
            heads.append(parse_heads(cells))
            valid_numbers.append(number)
        except BrokenTreeError as error:
            problems.append(f"line {sentence.line}: {error}")
    return TreeSplit(
        labelled=split.select(valid_numbers),
        heads=tuple(heads),
        problems=tuple(problems),
    )


def _refuse_ranges(split: LabelledVectors, ids: Mapping[Key, SentenceLabels]) -> None:
    """Raise a UsageError for vectors of ranges whose words have no vectors."""
    for sentence in split.sentences:
        for row_id in ids[sentence.key]:
            if not row_id.isdecimal():
                raise UsageError(
                    f"has a vector of `{row_id}`, not of its words, and a tree is one of words",
                    "`elmo embed --rows words` writes vectors of words",
                    where=split.vectors_file,
                )


def _check_rows(sentence: JoinedSentence, ids: SentenceLabels) -> None:
    """Raise a BrokenTreeError if a word has no head, or if another row has one."""
    for row_id, head in zip(ids, sentence.labels, strict=True):
        if row_id.isdecimal() == is_no_label(head):
            problem = "has no head" if row_id.isdecimal() else "has a head"
            raise BrokenTreeError(f"{row_id} {problem}")


def _column(
    split: LabelledVectors, settings: LabelSettings, name: str
) -> dict[Key, SentenceLabels]:
    """Read another column of the label file: the cells of each sentence, by its key."""
    with open_embeddings(split.vectors_file) as embeddings:
        column_settings = replace(settings, column=name)
        sentences = read_labels(split.labels_file, column_settings, None, embeddings.attributes)
        return {embeddings.key_of(sentence): cells for sentence, cells in sentences}


def _without_punctuation(split: LabelledVectors, settings: LabelSettings) -> tuple[BoolArray, ...]:
    """Return for each sentence which words are not punctuation, by UPOS or XPOS, (word,)."""
    upos = _column(split, settings, "upos")
    xpos = _column(split, settings, "xpos")
    is_kept = []
    for sentence in split.sentences:
        kept_words = []
        rows = zip(sentence.labels, upos[sentence.key], xpos[sentence.key], strict=True)
        for head, row_upos, row_xpos in rows:
            if not is_no_label(head):
                is_punctuation = row_upos == PUNCTUATION_UPOS or row_xpos in PUNCTUATION_XPOS
                kept_words.append(not is_punctuation)
        is_kept.append(np.array(kept_words, np.bool_))
    return tuple(is_kept)
