"""`elmo inspect`: describe a file, list its problems and print Python code that reads it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import argument, command, flag, together, value
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.messages import plural

if TYPE_CHECKING:
    from elmo_cli.store.inspection import SentenceSample
    from elmo_cli.text.input import InputSettings

# fmt: off
_checks = together(
    value("Checks", "--recompute N",
          "Recompute N sentences with the model and compare the vectors.", type=options.AT_LEAST_1),
    value("Checks", "--text FILE", "Compare the tokens (or their number, if the file has no "
          "tokens) with this text; --recompute then takes the sentences from it. May be repeated.",
          multiple=True),
    flag("Checks", "--no-verify", "Print only the metadata, without reading all values."),
)
# fmt: on
_FOR_RECOMPUTE = ("model", "options", "weights", "device", "threads")
_SHOWN = 5  # maximum number of problems to print; --json contains more
_LISTED = "`elmo inspect --json` lists the problems"
_HINTS = {
    "embeddings": f"{_LISTED}; embed the text again",
    "weights": f"{_LISTED}; get the weights from their source again",
    "unfinished": "run the command that made it again with `--resume`",
}


@command
@argument("file", metavar="FILE")
@_checks
@options.model_options
@options.processor_options
@options.input_options
@options.blank_lines_option
@options.general_options
def inspect(**given: Any) -> None:
    """Describe an embeddings or weight file and verify it.

    FILE is an embeddings file of any layout, an unfinished one (FILE.part), or a biLM weight file.
    The whole file is read to verify its structure, counts, keys and shapes, and that all values are
    finite. Python code that reads the file is printed last. The exit code is 1 if the file is
    corrupt or unfinished. The model and device options require --recompute, and the input options
    require --text.

    \b
    Examples:
      elmo inspect corpus.hdf5
      elmo inspect corpus.hdf5 --recompute 20
      elmo inspect train.hdf5 --text train.conllu
      elmo inspect weights.hdf5
    """
    from elmo_cli.isolate import run_isolated
    from elmo_cli.text.input import check_inputs

    path, text = given["file"], options.input_settings(given)
    if not given["recompute"]:
        options.refuse_options(_FOR_RECOMPUTE, "without --recompute")
    if given["text"]:
        check_inputs(given["text"], text)
    else:
        options.refuse_options(options.INPUT_FIELDS, "without --text")
    # Read in a child process, because HDF5 may crash on a corrupt file.
    files = [path, *given["text"]]
    facts = run_isolated(lambda: _facts(path, text, given), files, EmbeddingsFileError)
    example = facts.pop("example")
    if given["recompute"]:
        _recompute(facts, given)

    def show() -> None:
        if not console.mode.quiet:
            console.say(path, *_rows(facts, is_verified=not given["no_verify"]))
            console.say(*(("", "read it:", "", *example) if example else ()))

    console.print_result(facts, show)
    if problems := facts["problems"]:
        n_more = facts["problem_count"] - 1
        more = f" (and {plural(n_more, 'more problem')})" if n_more else ""
        first = problems[0].removeprefix(f"{path}: ")
        raise EmbeddingsFileError(f"{path}: {first}{more}", _HINTS[facts["kind"]])


def _facts(path: str, text: InputSettings, given: dict[str, Any]) -> dict[str, Any]:
    """Return the facts, problems, sample to recompute, and Python code that reads the file."""
    from elmo_cli.store import inspection
    from elmo_cli.text.input import read_sentences

    facts = inspection.describe(path)
    if facts["kind"] != "embeddings" and (given["recompute"] or given["text"]):
        raise UsageError(
            f"{path}: contains no finished embeddings",
            "`--recompute` and `--text` compare embeddings",
        )
    found = [] if given["no_verify"] else [inspection.verify(path)]
    sentences = []
    if given["text"]:
        read = read_sentences(given["text"], text)
        sentences = list(read) if given["recompute"] else []
        found.append(inspection.compare_with_text(path, sentences or read))
    facts["problems"] = [problem for one in found for problem in one.listed]
    facts["problem_count"] = sum(one.count for one in found)
    if found and facts["kind"] == "embeddings" and facts["tokens"] is None:
        facts["tokens"] = found[0].tokens  # not recorded in files of other programs
    if given["recompute"]:
        facts["recomputed"] = inspection.take_sample(path, given["recompute"], sentences)
    example = inspection.python_example(path) if facts["kind"] == "embeddings" else []
    facts["example"] = [f"    {line}" for line in example]
    return facts


def _recompute(facts: dict[str, Any], given: dict[str, Any]) -> None:
    """Compare the sample with recomputed vectors and add the results to the facts."""
    from elmo_cli.embed.verify_sample import recompute_sample
    from elmo_cli.pretrained.load import load

    sample: SentenceSample = facts["recomputed"]
    if n := sample.passed_over:
        what = f"{sample.path}: skipped {plural(n, 'sentence')} whose tokens the file does not "
        console.warn(f"{what}record; give them with --text")
    options.use_threads(given["threads"])
    bilm = load(given["model"], options=given["options"], weights=given["weights"])
    found = recompute_sample(sample, bilm, device=given["device"])
    problems = [f"sentence {one.key}: {one.problem}" for one in found if one.problem]
    facts["problems"] += problems
    facts["problem_count"] += len(problems)
    names = ("key", "tokens", "difference")
    facts["recomputed"] = [
        {**{name: getattr(one, name) for name in names}, "agrees": not one.problem} for one in found
    ]


def _rows(facts: dict[str, Any], *, is_verified: bool) -> list[str]:
    """Format the facts as aligned lines."""
    from elmo_cli.messages import format_bytes

    size = format_bytes(facts["bytes"])
    if facts["kind"] == "embeddings":
        rows = _embeddings_rows(facts, size)
    elif facts["kind"] == "unfinished":
        sentences, tokens = plural(facts["sentences"], "sentence"), plural(facts["tokens"], "token")
        rows = {"unfinished": f"{sentences} and {tokens} committed", "size": size}
    else:
        rows = {"weights": facts["weights"], "values": f"{', '.join(facts['dtypes'])}, {size}"}
        rows |= {"parameters": f"{facts['parameters']:,}", "sha256": facts["sha256"]}
    if "recomputed" in facts:
        differences = [one["difference"] for one in facts["recomputed"]]
        rows["recomputed"] = plural(len(differences), "sentence")
        # None: the shapes differ; not finite: a value is not
        if known := [one for one in differences if one is not None and math.isfinite(one)]:
            rows["recomputed"] += f", differences up to {max(known):.2g}"
    if is_verified:
        n_more = facts["problem_count"] - _SHOWN
        shown = [*facts["problems"][:_SHOWN], *([f"and {n_more:,} more"] if n_more > 0 else [])]
        rows["checked"] = "; ".join(shown) or "nothing wrong"
    width = max(map(len, rows))
    return [f"  {name:<{width}}  {row}" for name, row in rows.items()]


def _embeddings_rows(facts: dict[str, Any], size: str) -> dict[str, str]:
    attributes, tokens = facts["attributes"], facts["tokens"]
    rows = {
        "layout": facts["layout"],
        "sentences": f"{facts['sentences']:,}",
        "tokens": "not recorded" if tokens is None else f"{tokens:,}",
        "layers": str(attributes.get("layers", facts["n_layers"] or "one")),
        "dim": str(facts["dim"]),
        "values": f"{facts['dtype']}, {size}",
        "first": ", ".join(f"{one['key']} {tuple(one['shape'])}" for one in facts["samples"]),
        "checksums": "stored" if facts["checksums"] else "none, as in files of other programs",
    }
    for name in ("model", "state", "precision", "pool", "shard", "elmo_version"):
        if attributes.get(name) not in (None, "none"):
            rows[name] = str(attributes[name])
    if sources := facts.get("sources"):
        rows["text"] = ", ".join(f"{name} from sentence {at}" for name, at in sources[:_SHOWN])
    return rows
