"""elmo embed."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.options import (
    FiniteRange,
    GroupedCommand,
    argument,
    device_options,
    input_options,
    json_option,
    model_options,
    named,
    named_texts,
    option,
    precision_option,
    printed,
    quiet_option,
)


@click.command(
    cls=GroupedCommand,
    short_help="Compute embeddings of the sentences in text files.",
    no_args_is_help=True,
)
@argument("files", nargs=-1, metavar="FILE…", callback=named_texts)
@option(
    "Output",
    "-o",
    "--output",
    metavar="FILE|DIR/|URL/|-",
    callback=named,
    help="The HDF5 file, which all inputs go into, one after the other; with a / at the end, a "
    "folder for one file per input; with --engine ray a folder of shards, also in an object store; "
    "- for standard output.",
)
@option(
    "Output",
    "--layers",
    default="all",
    show_default=True,
    metavar="CHOICE",
    help="all, top, average, numbers such as 0,2, or mix:w0,w1,w2[,gamma], gamma times the sum of "
    "each weight, as it stands, times its layer. Arrays of all and of numbers are (layer, token, "
    "dim), also of a single number; of the others (token, dim).",
)
@option(
    "Output",
    "--dtype",
    type=click.Choice(["float32", "float16", "int8"]),
    default="float32",
    show_default=True,
    help="Type of the stored values; int8, with a scale a vector, goes with --layout flat.",
)
@option(
    "Output",
    "--layout",
    metavar="NAME",
    default="allennlp",
    show_default=True,
    callback=named,
    help="How the file is keyed and shaped, as the program that reads it expects: allennlp, bilm, "
    "bilm-types, e2e-coref, lsgn, dygie, manylangs or flat.",
)
@option(
    "Output",
    "--keys",
    type=click.Choice(["number", "sentence"]),
    default="number",
    show_default=True,
    help="Keys of the allennlp layout.",
)
@option("Output", "--forget-sentences", is_flag=True, help="Leave out the map of the sentences.")
@option("Output", "--pool", type=click.Choice(["mean", "max"]), help="One vector a sentence.")
@option(
    "Output",
    "--format",
    "stream",
    metavar="jsonl|npy|text",
    callback=named,
    help="Form of standard output (`-o -`).  [default: jsonl]",
)
@option("Output", "-f", "--overwrite", is_flag=True, help="Replace an output that is there.")
@option("Output", "--resume", is_flag=True, help="Go on with an unfinished output, or start it.")
@option(
    "Output",
    "--shard",
    metavar="I/N",
    callback=named,
    help="Only the I-th of N parts, each of whole blocks of about 1,000 sentences; `elmo merge` "
    "joins them.",
)
@option(
    "Output",
    "-n",
    "--dry-run",
    is_flag=True,
    callback=printed,
    help="Say what would be done, with sizes.",
)
@model_options
@option(
    "Model",
    "--state",
    type=click.Choice(["zero", "warm", "carry", "document"]),
    default="zero",
    show_default=True,
    help="What a sentence starts from: zeros; the model's warm state; what the batch before left, "
    "as the originals did; what the sentence before it in its document left.",
)
@option(
    "Model",
    "--batch-size",
    type=click.IntRange(min=1),
    help="Sentences computed together; with --state carry it decides about the vectors.  "
    "[default: 512, on a processor fewer for more than 2,048 cells; 64 with --state carry]",
)
@device_options("fast", "plain", "ray")
@precision_option(
    "float32",
    "bf16",
    "int8",
    what="Of the products: int8 is quicker on a processor, bf16 on a GPU and on processors that "
    "have it; both cost some accuracy.",
)
@input_options
@option(
    "Cluster",
    "--address",
    metavar="ADDRESS",
    callback=named,
    help="Of a Ray cluster.  [default: $RAY_ADDRESS, or one on this machine]",
)
@option(
    "Cluster", "--workers", type=click.IntRange(min=1), help="Each holds a model.  [default: 1]"
)
@option(
    "Cluster",
    "--gpus-per-worker",
    type=FiniteRange(min=0),
    help="Graphics processors of each; 0.5 lets two share one.  [default: 0]",
)
@quiet_option
@json_option
def embed(**settings: Any) -> None:
    """Compute embeddings of the sentences in text files, into one HDF5 file.

    FILE is a text file, plain or .gz or .xz; - is standard input. A run that was stopped goes on
    with --resume, and ends in the very file that an undisturbed run gives.

    \b
    Examples:
      elmo embed corpus.txt -o corpus.hdf5
      elmo embed raw.txt --tokenize -o raw.hdf5 --layers top --dtype float16
      elmo embed train.conllu dev.conllu -o embeddings/
      elmo embed coref.jsonlines --layout e2e-coref -o elmo_cache.hdf5
      elmo embed corpus.txt -o corpus.hdf5 --resume
      elmo embed corpus/*.txt.xz -o shards/ --engine ray --workers 8 --threads 2
      head -3 corpus.txt | elmo embed - -o - --format text --layers top

    --json prints one object, with DIR/ and several inputs a list of them: output, sentences,
    tokens, duplicates (equal sentences, where manylangs holds one), computed_tokens, bytes,
    blank_lines, truncated_tokens, skipped, warnings; with --dry-run output, sentences, tokens,
    computed_tokens (still to be done), exact (whether these counts are, or from a sample), bytes
    (always about); with --engine ray output, shards, missing, sentences, tokens, computed_tokens,
    seconds, workers, skipped, warnings.
    """
    from elmo_cli.cli.embedding import embed_command

    embed_command(settings)
