"""`elmo inspect`: describe a file or a model, list its problems and say how to use it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import FILE, INPUT_FILE, argument, command, flag, together, value
from elmo_cli.cli.inspect_model import print_model, print_rows
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.messages import format_bytes, plural

if TYPE_CHECKING:
    from elmo_cli.embed.verify_sample import RecomputedSentence
    from elmo_cli.store.sentence_sample import SentenceSample
    from elmo_cli.text.input import InputSettings
    from elmo_cli.text.residue_counts import ResidueCounts
    from elmo_cli.text.sentence import Sentence

# fmt: off
_checks = together(
    value("Checks", "--recompute N",
          "Recompute N sentences with the model and compare the vectors.", type=options.AT_LEAST_1),
    value("Checks", "--text FILE", "Compare the tokens (or their number, if the file has no "
          "tokens) with this text; --recompute then takes the sentences from it. May be repeated.",
          multiple=True, type=INPUT_FILE),
    flag("Checks", "--verify/--no-verify", "Read all values, or only the metadata.  [default: "
         "all values of a file, only the metadata of a model]", default=None),
)
# fmt: on
_FOR_RECOMPUTE = (
    *options.field_names(options.ModelOptions),
    *options.field_names(options.ProcessorOptions),
)
_FOR_TEXT = (*options.INPUT_FIELDS, "blank")
_NOT_FOR_MODELS = ("recompute", "text", *(name for name in _FOR_RECOMPUTE if name != "options"))
_SHOWN = 5  # maximum number of problems to print; --json contains more
_MOST_LETTERS = 20  # that are no residues
_LISTED = "`elmo inspect --json` lists the problems"
_HINTS = {
    "embeddings": f"{_LISTED}; embed the text again",
    "weights": f"{_LISTED}; get the weights from their source again",
    "unfinished": "`elmo embed … --resume` with the options of its run completes it",
}


@dataclass(frozen=True)
class InspectOptions(options.InputOptions, options.ModelOptions, options.ProcessorOptions):
    """The values of all options of `elmo inspect`."""

    file: str
    recompute: int | None
    text: tuple[str, ...]
    verify: bool | None
    blank: str

    @property
    def verifies_file(self) -> bool:
        """Whether all values of a file are to be read."""
        return self.verify is not False


@command
@argument("file", metavar="PATH", type=FILE)
@_checks
@options.model_options
@options.processor_options
@options.input_options
@options.blank_lines_option
@options.general_options
def inspect(**values: Any) -> None:
    """Describe an embeddings file, a weight file or a model and verify it.

    PATH is an embeddings file of any layout, an unfinished one (FILE.part), a biLM weight file, or
    a model of any family: a folder, an archive, a checkpoint or a name from `elmo models list`. A
    file is read as a whole to verify its structure, counts, keys and shapes, and that all values
    are finite. Python code that reads the file, or commands that use the model, are printed last.
    The exit code is 1 if the file is corrupt or unfinished. The model and device options require
    --recompute, and the input options require --text.

    \b
    Examples:
      elmo inspect corpus.hdf5
      elmo inspect corpus.hdf5 --recompute 20
      elmo inspect train.hdf5 --text train.conllu
      elmo inspect weights.hdf5
      elmo inspect checkpoint/
      elmo inspect checkpoint/ --verify
    """
    from elmo_cli.isolate import run_isolated
    from elmo_cli.pretrained.model_inspection import names_a_model
    from elmo_cli.text.input import check_inputs

    chosen = InspectOptions(**values)
    if names_a_model(chosen.file):
        options.refuse_options(_NOT_FOR_MODELS, "for a model")
        print_model(chosen.file, chosen.options, verify=bool(chosen.verify))
        return
    settings = replace(chosen.input_settings(), blank=chosen.blank)
    if chosen.recompute is None:
        options.refuse_options(_FOR_RECOMPUTE, "without --recompute")
    if chosen.text:
        check_inputs(chosen.text, settings)
    else:
        options.refuse_options(_FOR_TEXT, "without --text")
    # Read in a child process, because HDF5 may crash on a corrupt file.
    read = partial(_read, chosen, settings)
    inspected = run_isolated(read, [chosen.file, *chosen.text], EmbeddingsFileError)
    recomputed = None
    if inspected.sample is not None:
        recomputed = _recompute(inspected.sample, chosen)
    facts = _facts(inspected, recomputed)
    console.print_result(facts, partial(_show, chosen, facts, inspected.example))
    if facts["problems"]:
        n_more = facts["problem_count"] - 1
        more = f" (and {plural(n_more, 'more problem')})" if n_more else ""
        raise EmbeddingsFileError(
            f"{facts['problems'][0]}{more}", _HINTS[facts["kind"]], where=chosen.file
        )


@dataclass(frozen=True)
class _Inspection:
    """What is read from a file.

    Attributes:
        facts: of `inspection.describe`.
        problems, n_problems: the first of them, and the number of all.
        residues: those of the sequences in a text that is FASTA, see `ResidueCounts`.
        sample: sentences to recompute; None without --recompute.
        example: lines of Python code that read the file, if it contains embeddings.
    """

    facts: dict[str, Any]
    problems: list[str]
    n_problems: int
    residues: ResidueCounts
    sample: SentenceSample | None
    example: list[str]


def _read(chosen: InspectOptions, settings: InputSettings) -> _Inspection:
    """Read what the options ask for."""
    from elmo_cli.store import inspection, sentence_sample
    from elmo_cli.text.input import InputReport, read_sentences, with_recorded_rows

    facts = inspection.describe(chosen.file)
    has_embeddings = facts["kind"] == "embeddings"
    if not has_embeddings and (chosen.recompute or chosen.text):
        raise UsageError(
            "contains no finished embeddings",
            "`--recompute` and `--text` compare embeddings",
            where=chosen.file,
        )
    checks = []
    if chosen.verifies_file:
        verified = inspection.verify(chosen.file)
        checks.append(verified)
        if has_embeddings and facts["tokens"] is None:
            facts["tokens"] = verified.tokens  # not recorded in files of other programs
    sentences: list[Sentence] = []
    report = InputReport()
    if chosen.text:
        recorded = with_recorded_rows(settings, chosen.text, facts["attributes"])
        text: Iterable[Sentence] = read_sentences(chosen.text, recorded, report)
        if chosen.recompute:
            sentences = list(text)
            text = sentences
        checks.append(inspection.compare_with_text(chosen.file, text))
    sample = None
    if chosen.recompute:
        sample = sentence_sample.take_sample(chosen.file, chosen.recompute, sentences)
    return _Inspection(
        facts=facts,
        problems=[problem for check in checks for problem in check.listed],
        n_problems=sum(check.count for check in checks),
        residues=report.residues,
        sample=sample,
        example=inspection.python_example(chosen.file) if has_embeddings else [],
    )


def _recompute(sample: SentenceSample, chosen: InspectOptions) -> list[RecomputedSentence]:
    """Compare the sample with vectors that the model computes."""
    from elmo_cli.embed.verify_sample import recompute_sample
    from elmo_cli.pretrained.load import load

    if sample.passed_over:
        console.warn(
            f"{sample.path}: skipped {plural(sample.passed_over, 'sentence')} whose tokens the "
            "file does not record; give them with --text"
        )
    options.use_threads(chosen.threads)
    bilm = load(chosen.model, options=chosen.options, weights=chosen.weights)
    return recompute_sample(sample, bilm, device=chosen.device)


def _facts(inspected: _Inspection, recomputed: list[RecomputedSentence] | None) -> dict[str, Any]:
    """Return the JSON object of a file."""
    problems = list(inspected.problems)
    n_problems = inspected.n_problems
    for sentence in recomputed or ():
        if sentence.problem:
            problems.append(f"sentence {sentence.key}: {sentence.problem}")
            n_problems += 1
    facts = {**inspected.facts, "problems": problems, "problem_count": n_problems}
    if inspected.residues.sequences:
        facts["other_residues"] = dict(inspected.residues.others.most_common())
    if recomputed is not None:
        facts["recomputed"] = [
            {
                "key": sentence.key,
                "tokens": sentence.tokens,
                "difference": sentence.difference,
                "agrees": not sentence.problem,
            }
            for sentence in recomputed
        ]
    return facts


def _show(chosen: InspectOptions, facts: dict[str, Any], example: list[str]) -> None:
    """Print the facts as aligned lines, then the example."""
    rows = _rows(facts)
    if "other_residues" in facts:
        rows["residues"] = _residues_row(facts["other_residues"])
    if "recomputed" in facts:
        rows["recomputed"] = _recomputed_row(facts["recomputed"])
    if chosen.verifies_file:
        rows["checked"] = _checked_row(facts)
    print_rows(chosen.file, rows, "read it:", example)


def _rows(facts: dict[str, Any]) -> dict[str, str]:
    """Return the facts of a file for people, by name."""
    if facts["kind"] == "embeddings":
        return _embeddings_rows(facts)
    size = format_bytes(facts["bytes"])
    if facts["kind"] == "unfinished":
        sentences = plural(facts["sentences"], "sentence")
        tokens = plural(facts["tokens"], "token")
        return {"unfinished": f"{sentences} and {tokens} committed", "size": size}
    return {
        "weights": facts["weights"],
        "values": f"{', '.join(facts['dtypes'])}, {size}",
        "parameters": f"{facts['parameters']:,}",
        "sha256": facts["sha256"],
    }


def _embeddings_rows(facts: dict[str, Any]) -> dict[str, str]:
    attributes = facts["attributes"]
    tokens = facts["tokens"]
    first = [f"{sample['key']} {tuple(sample['shape'])}" for sample in facts["samples"]]
    rows = {
        "layout": facts["layout"],
        "sentences": f"{facts['sentences']:,}",
        "tokens": "not recorded" if tokens is None else f"{tokens:,}",
        "layers": _layers_row(facts),
        "dim": str(facts["dim"]),
        "values": f"{facts['dtype']}, {format_bytes(facts['bytes'])}",
        "first": ", ".join(first),
        "checksums": "stored" if facts["checksums"] else "none, as in files of other programs",
    }
    for name in (
        "model",
        "state",
        "precision",
        "pool",
        "sentence_map",
        "rows",
        "shard",
        "elmo_version",
    ):
        if attributes.get(name) not in (None, "none"):
            rows[name] = str(attributes[name])
    sources = facts["sources"]
    if sources:
        texts = [_source_in_words(*source) for source in sources[:_SHOWN]]
        if len(sources) > _SHOWN:
            texts.append(f"and {len(sources) - _SHOWN:,} more")
        rows["text"] = ", ".join(texts)
    return rows


def _layers_row(facts: dict[str, Any]) -> str:
    """The layers, such as "all 3", "top" or "0,2"; their number in files of other programs."""
    if not facts["sentences"]:
        return "none"
    n_layers = str(facts["n_layers"] or "one")
    selection = str(facts["attributes"].get("layers", n_layers))
    return f"all {n_layers}" if selection == "all" else selection


def _source_in_words(name: object, first_sentence: object) -> str:
    return f"{name} (from sentence {first_sentence})" if first_sentence else str(name)


def _residues_row(others: Mapping[str, int]) -> str:
    """The letters of sequences that are neither amino acids nor X, U, B, Z or O."""
    if not others:
        return "all are amino acids or X, U, B, Z, O"
    counts = [f"{letter} {count:,}" for letter, count in others.items()]
    return f"neither amino acids nor X, U, B, Z, O: {', '.join(counts[:_MOST_LETTERS])}"


def _recomputed_row(sentences: list[dict[str, Any]]) -> str:
    row = plural(len(sentences), "sentence")
    differences = [sentence["difference"] for sentence in sentences]
    # None: the shapes differ; not finite: a value is not
    known = [number for number in differences if number is not None and math.isfinite(number)]
    if known:
        row += f", differences up to {max(known):.2g}"
    return row


def _checked_row(facts: dict[str, Any]) -> str:
    if not facts["problems"]:
        return "nothing wrong"
    shown = facts["problems"][:_SHOWN]
    n_more = facts["problem_count"] - len(shown)
    if n_more > 0:
        shown.append(f"and {n_more:,} more")
    return "; ".join(shown)
