"""What `elmo inspect` does between its options and the library."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from elmo_cli.cli import console
from elmo_cli.cli.console import check_stdout, plural
from elmo_cli.cli.options import INPUT_FIELDS, input_settings
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.files import format_bytes
from elmo_cli.isolate import run_isolated
from elmo_cli.store.describe import describe, python_example
from elmo_cli.store.verify import compare_with_text, verify
from elmo_cli.text.input import InputSettings, check_inputs
from elmo_cli.text.sentence import Sentence

if TYPE_CHECKING:
    from elmo_cli.embed.verify_sample import RecomputedSentence
    from elmo_cli.store.sample import Sample

_FOR_RECOMPUTE = ("model", "options", "weights", "device", "threads")
_SHOWN = 5  # problems that are printed; --json has more of them


def inspect_command(ctx: click.Context, settings: dict[str, Any]) -> None:
    """Run `elmo inspect` with the values of its options.

    Args:
        ctx: tells which of them the command line gives.
    Raises:
        EmbeddingsFileError: something is wrong with the file.
        UsageError: an option that would be passed over.
    """
    if not settings["quiet"]:
        check_stdout()
    _check_options(ctx, settings)
    path = settings["file"]
    text = input_settings(settings)
    # The file may come from anywhere, and HDF5 may crash on it.
    if settings["text"]:
        check_inputs(settings["text"], text)
    files = [path, *settings["text"]]
    facts = run_isolated(lambda: _looked_at(path, settings, text), files, EmbeddingsFileError)
    problems = facts["problems"]
    if settings["recompute"]:
        if n_passed := facts["recomputed"].passed_over:
            console.note(
                f"warning: {path}: passed over {plural(n_passed, 'sentence')} of which the file "
                "does not record the tokens; --text gives them",
                quiet=settings["quiet"],
            )
        found = _recomputed(facts["recomputed"], settings)
        unlike = [f"sentence {one.key}: {one.problem}" for one in found if one.problem]
        problems += unlike
        facts["problem_count"] += len(unlike)
        facts["recomputed"] = [
            {
                "key": one.key,
                "tokens": one.tokens,
                "difference": one.difference,
                "agrees": not one.problem,
            }
            for one in found
        ]
    lines = facts.pop("lines")
    if settings["as_json"]:
        console.print_json(facts, default=str)
    elif not settings["quiet"]:
        _print(path, facts, lines, checked=not settings["no_verify"])
    if problems:
        n_more = facts["problem_count"] - 1
        more = f", and {n_more:,} more" if n_more else ""
        first = problems[0].removeprefix(f"{path}: ")
        raise EmbeddingsFileError(f"{path}: {first}{more}", _mend(facts))


def _check_options(ctx: click.Context, settings: dict[str, Any]) -> None:
    """Refuse options that would be passed over; of the environment they are for all commands."""
    for parameter in ctx.command.params:
        name, option = str(parameter.name), max(parameter.opts, key=len)
        if ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        if name in _FOR_RECOMPUTE and not settings["recompute"]:
            raise UsageError(
                f"{option}: has no meaning without --recompute",
                "`--recompute N` recomputes sentences with the model",
            )
        if name in INPUT_FIELDS and not settings["text"]:
            raise UsageError(
                f"{option}: has no meaning without --text",
                "`--text FILE` names the text to compare with",
            )


def _looked_at(path: str, settings: dict[str, Any], text: InputSettings) -> dict[str, Any]:
    """Facts, problems, and the lines that read the file."""
    facts = describe(path)
    if facts["kind"] != "embeddings" and (settings["recompute"] or settings["text"]):
        raise UsageError(
            f"{path}: contains no finished embeddings",
            "`--recompute` and `--text` compare embeddings",
        )
    found = [] if settings["no_verify"] else [verify(path)]
    if settings["text"] and not settings["recompute"]:
        found.append(compare_with_text(path, _read(settings["text"], text)))
    facts["problems"] = [problem for one in found for problem in one.listed]
    facts["problem_count"] = sum(one.count for one in found)
    if found and facts["kind"] == "embeddings" and facts["tokens"] is None:
        facts["tokens"] = found[0].tokens  # which no attribute of another program's file tells
    if settings["recompute"]:
        facts["recomputed"] = _sample(settings, text)
    silent = settings["quiet"] or settings["as_json"] or facts["kind"] == "unfinished"
    facts["lines"] = "" if silent else python_example(path)
    return facts


def _mend(facts: dict[str, Any]) -> str:
    if facts["kind"] == "unfinished":
        return "run the command that made it again with `--resume`"
    n_listed = len(facts["problems"])
    which = "every problem" if n_listed == facts["problem_count"] else f"{n_listed} of them"
    if facts["kind"] == "weights":
        again = "take the weights from their source again"
    else:
        again = "embed the text anew"
    return f"`elmo inspect --json` lists {which}; {again}"


def _read(paths: Sequence[str], text: InputSettings) -> Iterator[Sentence]:
    from elmo_cli.text.input import read_sentences

    return read_sentences(paths, text)


def _sample(settings: dict[str, Any], text: InputSettings) -> Sample:
    from elmo_cli.store.sample import take_sample

    given = list(_read(settings["text"], text)) if settings["text"] else None
    return take_sample(settings["file"], settings["recompute"], given)


def _recomputed(sample: Sample, settings: dict[str, Any]) -> list[RecomputedSentence]:
    from elmo_cli.embed.verify_sample import recompute_sample
    from elmo_cli.engine.runtime import set_num_threads
    from elmo_cli.pretrained.load import load

    set_num_threads(settings["threads"])
    bilm = load(settings["model"], options=settings["options"], weights=settings["weights"])
    return recompute_sample(sample, bilm, device=settings["device"])


def _print(path: str, facts: dict[str, Any], lines: str, *, checked: bool) -> None:
    rows_of: dict[str, Callable[[dict[str, Any]], dict[str, str]]] = {
        "embeddings": partial(_embeddings_rows, checked=checked),
        "unfinished": _unfinished_rows,
        "weights": _weights_rows,
    }
    rows = rows_of[facts["kind"]](facts)
    if "recomputed" in facts:
        rows["recomputed"] = plural(len(facts["recomputed"]), "sentence")
        found = [one["difference"] for one in facts["recomputed"]]
        if None not in found:
            rows["recomputed"] += f", differences up to {max(found, default=0.0):.2g}"
    if checked:
        problems = facts["problems"]
        n_more = facts["problem_count"] - len(problems[:_SHOWN])
        shown = [*problems[:_SHOWN], *([f"and {n_more:,} more"] if n_more else [])]
        rows["checked"] = "; ".join(shown) or "nothing wrong"
        if facts["kind"] == "embeddings":
            rows["checksums"] = _checksums(facts)
    width = max(map(len, rows))
    console.say(path)
    for name, value in rows.items():
        console.say(f"  {name:<{width}}  {value}")
    if lines:
        console.say("\nread it:\n")
        for line in lines.splitlines():
            console.say(f"    {line}".rstrip())


def _checksums(facts: dict[str, Any]) -> str:
    if not facts["checksums"]:
        return "none, as in files of other programs"
    return "verified" if not facts["problem_count"] else "not all match, or could be compared"


def _embeddings_rows(facts: dict[str, Any], *, checked: bool) -> dict[str, str]:
    untold = "not told" if checked else "not plural"
    attributes = facts["attributes"]
    rows = {
        "layout": facts["layout"],
        "sentences": f"{facts['sentences']:,}",
        "tokens": untold if facts["tokens"] is None else _counted(facts["tokens"]),
        "layers": str(attributes.get("layers", facts["n_layers"] or "one")),
        "dim": str(facts["dim"]),
        "values": f"{facts['dtype']}, {format_bytes(facts['bytes'])}",
        "first": ", ".join(f"{one['key']} {tuple(one['shape'])}" for one in facts["samples"]),
    }
    for name in ("model", "state", "precision", "pool", "shard", "elmo_version"):
        if attributes.get(name) not in (None, "none"):
            rows[name] = str(attributes[name])
    if facts.get("sources"):
        rows["text"] = _sources(facts["sources"])
    return rows


def _counted(value: object) -> str:
    """A count as people write it; a file of another program may hold anything in its place."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def _sources(sources: Any) -> str:
    """The texts of a file and where each begins, or what another program holds in their place."""
    pairs = sources if isinstance(sources, list) else []
    if not pairs or not all(isinstance(one, list) and len(one) == 2 for one in pairs):
        return str(sources)
    return ", ".join(f"{name} from sentence {first}" for name, first in pairs[:_SHOWN])


def _unfinished_rows(facts: dict[str, Any]) -> dict[str, str]:
    return {
        "unfinished": f"{plural(facts['sentences'], 'sentence')}, "
        f"{plural(facts['tokens'], 'token')} are committed",
        "size": format_bytes(facts["bytes"]),
    }


def _weights_rows(facts: dict[str, Any]) -> dict[str, str]:
    rows = {
        "weights": facts["weights"],
        "values": f"{', '.join(facts['dtypes'])}, {format_bytes(facts['bytes'])}",
        "parameters": f"{facts['parameters']:,}",
        "sha256": facts["sha256"],
    }
    if facts["options"]:
        rows["options"] = json.dumps(facts["options"])
    return rows
