"""elmo embed."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.options import (
    LAYER_SPEC,
    FiniteRange,
    GroupedCommand,
    argument,
    blank_lines_option,
    dtype_option,
    flag,
    input_options,
    json_option,
    model_options,
    named,
    named_texts,
    overwrite_option,
    precision_option,
    printed,
    processor_options,
    quiet_option,
    value,
)


@click.command(
    cls=GroupedCommand,
    short_help="Compute embeddings of the sentences in text files.",
    no_args_is_help=True,
)
@argument("files", nargs=-1, metavar="FILE…", callback=named_texts)
@value(
    "Output",
    "-o, --output PATH",
    "Output: an HDF5 file for all inputs, a folder (trailing /) with one file per input, or - for "
    "standard output; with --ray a folder or URL for shards.",
    callback=named,
)
@value(
    "Output",
    "--layers SPEC",
    f"Layers to store: {LAYER_SPEC} for a weighted sum.",
    default="all",
)
@dtype_option("float32")
@value(
    "Output",
    "--layout NAME",
    "Layout of the file, chosen by the program that reads it: allennlp, bilm, bilm-types, "
    "e2e-coref, lsgn, dygie, manylangs or flat.",
    callback=named,
    default="allennlp",
)
@flag(
    "Output",
    "--use-sentence-keys",
    "Use the sentences as keys instead of line numbers (layout allennlp), as in AllenNLP.",
)
@flag(
    "Output",
    "--forget-sentences",
    "Do not store the mapping from sentences to keys, as in AllenNLP.",
)
@value(
    "Output",
    "--pool METHOD",
    "Store one vector per sentence: the mean or max over its tokens.",
    type=click.Choice(["mean", "max"]),
)
@value(
    "Output",
    "--output-format FORMAT",
    "Format of standard output (-o -): jsonl, npz or text.  [default: jsonl]",
    "stream",
    callback=named,
)
@overwrite_option
@flag("Output", "--resume", "Continue an interrupted run, or start it.")
@value(
    "Output",
    "--shard I/N",
    "Compute only part I of N; `elmo merge` joins the parts.",
    callback=named,
)
@flag(
    "Output",
    "-n, --dry-run",
    "Print the expected sizes and write nothing.",
    callback=printed,
)
@model_options
@value(
    "Model",
    "--state NAME",
    "Initial LSTM state of a sentence: zero, warm (stored with the model), carry (from the "
    "previous batch) or document (from the previous sentence).",
    type=click.Choice(["zero", "warm", "carry", "document"]),
    default="zero",
)
@value(
    "Model",
    "--batch-size N",
    "Sentences computed together; with --state carry it affects the vectors.  [default: 512, or "
    "64 with carry]",
    type=click.IntRange(min=1),
)
@value(
    "Compute",
    "--engine NAME",
    "Implementation: fast, or plain for the readable reference.",
    type=click.Choice(["fast", "plain"]),
    default="fast",
)
@precision_option(
    "float32",
    "bf16",
    "int8",
    description="Precision of matrix products: float32, bf16 or int8; the latter two are faster "
    "and less accurate.",
)
@processor_options
@input_options
@blank_lines_option
@value(
    "Input",
    "--max-sentence-length N",
    "Refuse sentences of more than N tokens.",
    "max_tokens",
    type=int,
    default=100_000,
)
@flag(
    "Cluster",
    "--ray",
    "Distribute the run over a Ray cluster; -o names a folder of shards.",
)
@value(
    "Cluster",
    "--ray-address ADDRESS",
    "Address of the Ray cluster.  [default: $RAY_ADDRESS, or a local cluster]",
    callback=named,
)
@value(
    "Cluster",
    "--workers N",
    "Number of worker processes.  [default: 1]",
    type=click.IntRange(min=1),
)
@value(
    "Cluster",
    "--gpus-per-worker FLOAT",
    "GPUs per worker; 0.5 lets two workers share one.  [default: 0]",
    type=FiniteRange(min=0),
)
@quiet_option
@json_option
def embed(**settings: Any) -> None:
    """Compute embeddings of the sentences in text files and write them to an HDF5 file.

    FILE is a text file, plain or compressed (.gz, .xz); - is standard input. Keys are zero-based
    line numbers; blank lines count. An interrupted run continues with --resume and ends with the
    same file as an uninterrupted one.

    \b
    Examples:
      elmo embed corpus.txt -o corpus.hdf5
      elmo embed raw.txt --tokenize -o raw.hdf5 --layers top --dtype float16
      elmo embed train.conllu dev.conllu -o embeddings/
      elmo embed coref.jsonlines --layout e2e-coref -o elmo_cache.hdf5
      elmo embed corpus.txt -o corpus.hdf5 --resume
      elmo embed corpus/*.txt.xz -o shards/ --ray --workers 8 --threads 2
      head -3 corpus.txt | elmo embed - -o - --output-format text --layers top
    """
    from elmo_cli.cli.options import input_settings
    from elmo_cli.text.input import check_inputs

    if settings["files"]:  # before h5py and numpy are imported, which takes half of a refusal
        check_inputs(settings["files"], input_settings(settings))
    if settings.pop("ray"):
        from elmo_cli.cli.cluster import ray_command

        ray_command(settings)
    else:
        from elmo_cli.cli.embed_job import embed_command

        embed_command(settings)
