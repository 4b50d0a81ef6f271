"""`elmo geometry`: measure how contextual and how isotropic the vectors of each layer are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import FILE, argument, command, refuse_url, together, value
from elmo_cli.cli.table import print_table
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.fields import MOST_SEED
from elmo_cli.messages import plural, quoted_line

if TYPE_CHECKING:
    from elmo_cli.analysis.geometry import (
        CkaMatrix,
        FileGeometry,
        Geometry,
        LayerGeometry,
        Measure,
        WordGeometry,
    )

_MEASURES = {  # field of `LayerGeometry` -> heading
    "self_similarity": "self-sim.",
    "sentence_similarity": "sentence",
    "mev_uncentered": "MEV",
    "mev_pca": "MEV PCA",
    "mev_truncated_svd": "MEV SVD",
}
_WORD_COLUMNS = (
    "file",
    "word",
    "layer",
    "sentences",
    "occurrences",
    "measured",
    "self_similarity",
    "mev_uncentered",
    "mev_pca",
    "mev_truncated_svd",
)


# fmt: off
_sample_options = together(
    value("Sample", "--samples N", "Number of random tokens.",
          type=click.IntRange(min=2), default=1000),
    value("Sample", "--seed N", "Random seed.", type=click.IntRange(0, MOST_SEED), default=0),
    value("Sample", "--min-contexts N", "Minimum number of different sentences that contain a "
          "measured word.", type=click.IntRange(min=2), default=5),
)
_words_option = value("Output", "--words FILE.tsv",
                      "Write a table with a row for each drawn word in each layer.",
                      "word_table", type=FILE, callback=refuse_url)
# fmt: on


@dataclass(frozen=True)
class GeometryOptions:
    """The values of all options of `elmo geometry`."""

    files: tuple[str, ...]
    samples: int
    seed: int
    min_contexts: int
    word_table: str | None
    overwrite: bool


@command
@argument("files", nargs=-1, required=True, metavar="FILE…", type=FILE)
@_sample_options
@_words_option
@options.overwrite_option
@options.general_options
def geometry(**values: Any) -> None:
    """Measure how contextual and how isotropic the vectors of each layer are.

    FILE is an embeddings file of any layout that stores its tokens. The measures are those of
    Ethayarajh (2019): the mean cosine of random tokens (anisotropy), of the occurrences of a word
    (self-similarity), and of the tokens of a sentence with their mean vector; the variance of the
    occurrences of a word that one direction explains (MEV), by three definitions; and the mean
    norm. A second table subtracts the same measures of random tokens. Linear CKA compares the
    layers of a file, and those of several files with equal tokens.

    All of them are computed from a sample: --samples random tokens and their sentences; at most
    1,000 words, case-sensitive, with at most 200 occurrences each; and for CKA at most 20,000
    tokens. Sentences with the same tokens count once. docs/guides/geometry.md explains the
    measures.

    \b
    Examples:
      elmo geometry corpus.hdf5
      elmo geometry trained.hdf5 untrained.hdf5 --json > geometry.json
      elmo geometry corpus.hdf5 --min-contexts 10 --words words.tsv
    """
    # Read when NumPy is first imported. On these small matrices, more threads triple the CPU time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from elmo_cli.analysis.geometry import measure_geometry
    from elmo_cli.analysis.geometry_sample import GeometrySettings
    from elmo_cli.isolate import run_isolated

    chosen = GeometryOptions(**values)
    _check_word_table(chosen)
    settings = GeometrySettings(
        samples=chosen.samples,
        seed=chosen.seed,
        min_contexts=chosen.min_contexts,
    )
    measure = partial(measure_geometry, chosen.files, settings)
    measured = run_isolated(measure, chosen.files, EmbeddingsFileError)
    warnings = list(_warnings(measured))
    notes = list(_notes(measured))
    console.warn(*warnings)
    facts = {**_facts(measured), "warnings": warnings, "notes": notes}
    console.print_result(facts, partial(_print, measured))
    console.note(*notes)
    if chosen.word_table is not None:  # last: the disk may be full
        console.write_lines(chosen.word_table, _word_lines(measured), overwrite=chosen.overwrite)


def _check_word_table(chosen: GeometryOptions) -> None:
    """Refuse, before any work, a table that cannot be written, and options without effect."""
    if chosen.word_table is None:
        options.refuse_options(["overwrite"], "without --words")
        return
    if chosen.word_table == "-":
        raise UsageError("standard output has the measures", "name a file", where="--words -")
    console.check_output(chosen.word_table, chosen.files, overwrite=chosen.overwrite)


def _word_lines(measured: Geometry) -> Iterator[str]:
    """Yield the lines of the table of words, with their ends."""
    yield quoted_line(*_WORD_COLUMNS)
    for file in measured.files:
        for word in file.words:
            yield quoted_line(*_word_cells(file.path, word))


def _word_cells(path: str, measured: WordGeometry) -> list[str]:
    word = measured.word
    variance = measured.explained_variance
    return [
        path,
        word.word,
        str(measured.layer),
        str(word.n_contexts),
        str(word.n_occurrences),
        str(len(word.positions)),
        _figure(measured.self_similarity, 6),
        _figure(variance.uncentered, 6),
        _figure(variance.pca, 6),
        _figure(variance.truncated_svd, 6),
    ]


def _figure(number: float | None, n_digits: int = 3) -> str:
    """Format a number for a table; nothing if it is unknown."""
    return "" if number is None else f"{number:.{n_digits}f}"


def _warnings(measured: Geometry) -> Iterator[str]:
    for file in measured.files:
        if file.n_without_tokens:
            skipped = plural(file.n_without_tokens, "sentence")
            yield f"{file.path}: skipped {skipped} whose tokens are not stored"


def _notes(measured: Geometry) -> Iterator[str]:
    """Yield what was drawn, and why a measure is missing or of little value."""
    for file in measured.files:
        yield f"{file.path}: {_drawn(file, measured.settings.min_contexts)}"
        if file.n_repeated:
            repeated = plural(file.n_repeated, "sentence")
            yield f"{file.path}: left out {repeated} with the same tokens as one before"
        for reason in _missing(file):
            yield f"{file.path}: {reason}"
    for matrix in measured.cka:
        file_numbers = sorted({layer.file_number for layer in matrix.layers})
        files = [measured.files[number] for number in file_numbers]
        dim = max(file.dim for file in files)
        if len(matrix.layers) > 1 and matrix.n_tokens < dim:
            paths = ", ".join(file.path for file in files)
            n_tokens = plural(matrix.n_tokens, "token")
            yield f"{paths}: CKA on {n_tokens} in {dim:,} dimensions is too high"
    if len(measured.cka) > 1:
        yield "files with different tokens have no CKA between them"


def _drawn(file: FileGeometry, min_contexts: int) -> str:
    """Return what was drawn from a file."""
    sample = file.sample
    n_occurrences = sum(len(word.positions) for word in sample.words)
    return (
        f"{plural(len(sample.random_tokens), 'random token')}; "
        f"{plural(len(sample.sentences), 'sentence')}; "
        f"{len(sample.words):,} of {plural(sample.n_eligible_words, 'word')} in at least "
        f"{min_contexts:,} sentences, with {plural(n_occurrences, 'occurrence')}; "
        f"{plural(len(sample.cka_tokens), 'token')} for CKA"
    )


def _missing(file: FileGeometry) -> Iterator[str]:
    """Yield the reasons for which measures of a file have no value."""
    if not file.sample.words:
        yield "no word occurs in enough sentences for self-similarity and MEV"
    if not len(file.sample.sentences):
        yield "no sentence has two tokens"
    for layer in file.layers:
        of_layer = [word for word in file.words if word.layer == layer.layer]
        without_variance = [word for word in of_layer if word.explained_variance.pca is None]
        if without_variance:
            count = f"{len(without_variance):,} of {plural(len(of_layer), 'word')}"
            yield (
                f"layer {layer.layer}: the vectors of {count} are the same in all contexts; "
                "they have no MEV PCA and MEV SVD"
            )
        if layer.anisotropy is None:
            yield f"layer {layer.layer}: fewer than two random tokens have a nonzero vector"


def _facts(measured: Geometry) -> dict[str, Any]:
    """Return the JSON object, without warnings and notes."""
    settings = measured.settings
    return {
        "samples": settings.samples,
        "seed": settings.seed,
        "min_contexts": settings.min_contexts,
        "max_words": settings.max_words,
        "max_occurrences": settings.max_occurrences,
        "max_cka_tokens": settings.max_cka_tokens,
        "files": [_file_facts(file) for file in measured.files],
        "cka": [_cka_facts(measured, matrix) for matrix in measured.cka],
    }


def _file_facts(file: FileGeometry) -> dict[str, Any]:
    sample = file.sample
    return {
        "file": file.path,
        "model": file.model,
        "state": file.state,
        "dim": file.dim,
        "sentences": file.n_sentences,
        "tokens": file.n_tokens,
        "sentences_without_tokens": file.n_without_tokens,
        "repeated_sentences": file.n_repeated,
        "random_tokens": len(sample.random_tokens),
        "measured_sentences": len(sample.sentences),
        "eligible_words": sample.n_eligible_words,
        "words": len(sample.words),
        "occurrences": sum(len(word.positions) for word in sample.words),
        "cka_tokens": len(sample.cka_tokens),
        "layers": [_layer_facts(layer) for layer in file.layers],
    }


def _layer_facts(layer: LayerGeometry) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": str(layer.layer),
        "norm": layer.norm,
        "anisotropy": layer.anisotropy,
    }
    for name in _MEASURES:
        measure: Measure = getattr(layer, name)
        facts[name] = {**asdict(measure), "adjusted": measure.adjusted}
    return facts


def _cka_facts(measured: Geometry, matrix: CkaMatrix) -> dict[str, Any]:
    layers = []
    for of_file in matrix.layers:
        path = measured.files[of_file.file_number].path
        layers.append({"file": path, "name": str(of_file.layer)})
    return {
        "layers": layers,
        "tokens": matrix.n_tokens,
        "values": matrix.values,
    }


def _print(measured: Geometry) -> None:
    """Print the measures of each file, then CKA. Several files are numbered from 1."""
    has_several = len(measured.files) > 1
    for number, file in enumerate(measured.files, 1):
        if has_several:
            console.say(f"{number}: {file.path}")
        _print_measures(file)
        console.say("")
    for matrix in measured.cka:
        if len(matrix.layers) > 1:
            _print_cka(matrix, with_numbers=has_several)


def _print_measures(file: FileGeometry) -> None:
    """Print the table of the measures, and that of the measures minus their baselines."""
    rows = []
    adjusted_rows = []
    for layer in file.layers:
        measures: list[Measure] = [getattr(layer, name) for name in _MEASURES]
        norm = _figure(layer.norm, 2)
        anisotropy = _figure(layer.anisotropy)
        raw = [_figure(measure.raw) for measure in measures]
        adjusted = [_figure(measure.adjusted) for measure in measures]
        rows.append([str(layer.layer), norm, anisotropy, *raw])
        adjusted_rows.append([str(layer.layer), *adjusted])
    print_table(["layer", "norm", "anisotropy", *_MEASURES.values()], rows)
    console.say("", "minus the same of random tokens")
    print_table(["layer", *_MEASURES.values()], adjusted_rows)


def _print_cka(matrix: CkaMatrix, *, with_numbers: bool) -> None:
    """Print the matrix.

    Args:
        with_numbers: put the number of its file, from 1, before the name of each layer.
    """
    names = []
    for of_file in matrix.layers:
        prefix = f"{of_file.file_number + 1}:" if with_numbers else ""
        names.append(f"{prefix}{of_file.layer}")
    rows: list[Sequence[str]] = []
    for name, values in zip(names, matrix.values, strict=True):
        rows.append([name, *map(_figure, values)])
    print_table(["CKA", *names], rows)
