"""`elmo embed`: the options, the jobs that they describe, and what is refused without torch."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import console, options
from elmo_cli.cli.allennlp_call import EmbedCommand
from elmo_cli.cli.click_options import (
    FILE,
    LAYERS,
    LAYOUT,
    FiniteRange,
    check_local,
    flag,
    together,
    value,
)
from elmo_cli.cli.file_options import sentence_map_option
from elmo_cli.embed.settings import POOLS, SENTENCE_MAPS, STATES
from elmo_cli.engine.names import ENGINES, PRECISIONS
from elmo_cli.errors import OutputError, UsageError
from elmo_cli.messages import url_without_secrets
from elmo_cli.text.input_settings import ROWS, InputSettings

if TYPE_CHECKING:
    from elmo_cli.embed.job import EmbedJob
    from elmo_cli.pretrained.model_files import ModelFiles

# Parameters that have no effect without --ray, with it, and for standard output.
_ONLY_ON_RAY = ("ray_address", "workers", "gpus_per_worker")
_NOT_ON_RAY = ("stream", "dry_run", "shard", "overwrite", "resume")
_ONLY_FOR_FILES = (
    "dry_run",
    "as_json",
    "overwrite",
    "resume",
    "shard",
    "layout",
    "use_sentence_keys",
    "forget_sentences",
    "sentence_map",
)
# fmt: off
_output_options = together(
    value("Output", "-o, --output PATH", "Output: a file for all inputs, Parquet if its suffix is "
          ".parquet and otherwise HDF5; a folder (trailing /) with one file per input; or - for "
          "standard output; with --ray a folder or URL for shards.", required=True, type=FILE),
    value("Output", "--layers SPEC", f"Layers to store: {options.LAYER_SPEC} for a weighted sum.",
          type=LAYERS, default="all"),
    options.dtype_option("float32"),
    value("Output", "--layout NAME", "Layout of the file, which depends on the program that will "
          "read it: allennlp, bilm, bilm-types, e2e-coref, lsgn, dygie, manylangs, seqvec, "
          "bio-embeddings or flat.",
          type=LAYOUT, default="allennlp"),
    flag("Output", "--use-sentence-keys",
         "Use the sentences as keys instead of line numbers (layout allennlp), as in AllenNLP."),
    flag("Output", "--forget-sentences",
         "Do not store the mapping from sentences to keys, as in AllenNLP."),
    sentence_map_option(SENTENCE_MAPS[0]),
    value("Output", "--pool METHOD",
          "Store one vector per sentence: the mean or max over its tokens.",
          type=click.Choice(POOLS)),
    value("Output", "--output-format FORMAT",
          "Format of standard output (-o -): jsonl, npz or text.", "stream",
          type=click.Choice(["jsonl", "npz", "text"]), default="jsonl"),
    options.overwrite_option,
    flag("Output", "--resume", "Continue an interrupted run, or start a new one."),
    value("Output", "--shard I/N", "Compute only shard I of N; `elmo merge` joins the shards."),
    flag("Output", "-n, --dry-run", "Print the expected sizes and write nothing."),
)
_computing_options = together(
    options.model_options,
    value("Model", "--state NAME", "Initial LSTM state of a sentence: zero, warm (stored with the "
          "model), carry (from the previous batch) or document (from the previous sentence).",
          type=click.Choice(STATES), default="zero"),
    value("Model", "--batch-size N", "Number of sentences computed together; with --state carry it "
          "affects the vectors.  [default: 512, or 64 with carry]", type=options.AT_LEAST_1),
    value("Compute", "--engine NAME",
          "Implementation: fast, or plain (the reference implementation).",
          type=click.Choice(ENGINES), default="fast"),
    value("Compute", "--precision NAME", "Precision of matrix products: float32, bf16 or int8; the "
          "latter two are faster and less accurate.",
          type=click.Choice(PRECISIONS), default="float32"),
    options.processor_options,
)
_length_option = value(
    "Input", "--max-sentence-length N", "Refuse sentences with more than N tokens.", "max_tokens",
    type=int, default=100_000,
)
_rows_option = value(
    "Input", "--rows ROWS", "Rows of conllu input: its words, the tokens of the text (ranges such "
    "as 3-4 instead of their words), or all (also empty nodes such as 5.1).",
    type=click.Choice(ROWS), default=ROWS[0],
)
_cluster_options = together(
    flag("Cluster", "--ray", "Distribute the run over a Ray cluster; -o names a folder of shards."),
    value("Cluster", "--ray-address ADDRESS",
          "Address of the Ray cluster.  [default: $RAY_ADDRESS, or a local cluster]"),
    value("Cluster", "--workers N", "Number of worker processes.",
          type=options.AT_LEAST_1, default=1),
    value("Cluster", "--gpus-per-worker FLOAT",
          "GPUs per worker; 0.5 lets two workers share one.", type=FiniteRange(min=0), default=0.0),
)
# fmt: on


@dataclass(frozen=True)
class EmbedOptions(options.TextOptions, options.ModelOptions, options.ProcessorOptions):
    """The values of all options of `elmo embed`; each field is an option of the same name."""

    files: tuple[str, ...]
    rows: str
    output: str
    layers: str
    dtype: str
    layout: str
    use_sentence_keys: bool
    forget_sentences: bool
    sentence_map: str
    pool: str | None
    stream: str
    overwrite: bool
    resume: bool
    shard: str | None
    dry_run: bool
    state: str
    batch_size: int | None
    engine: str
    precision: str
    ray: bool
    ray_address: str | None
    workers: int
    gpus_per_worker: float

    @property
    def is_stdout(self) -> bool:
        return self.output == "-"

    def input_settings(self, *, max_characters: int = 50) -> InputSettings:
        """How the text is to be read, for a model that reads `max_characters` of a token."""
        settings = super().input_settings(max_characters=max_characters)
        return replace(settings, rows=self.rows)


@click.command(cls=EmbedCommand, no_args_is_help=True)
@options.texts_argument("files", required=True, metavar="FILE…")
@_output_options
@_computing_options
@options.input_options
@options.blank_lines_option
@_rows_option
@_length_option
@_cluster_options
@options.general_options
def embed(**values: Any) -> None:
    """Compute embeddings of the sentences in text files and write them to an HDF5 or Parquet file.

    FILE is a text file, plain or compressed (.gz, .xz); - is standard input. Keys are zero-based
    line numbers; blank lines count. After an interruption, --resume continues the run and produces
    the same file as an uninterrupted run.

    \b
    Examples:
      elmo embed corpus.txt -o corpus.hdf5
      elmo embed raw.txt --tokenize -o raw.hdf5 --layers top --dtype float16
      elmo embed train.conllu dev.conllu -o embeddings/
      elmo embed coref.jsonlines --layout e2e-coref -o elmo_cache.hdf5
      elmo embed proteins.fasta --layout seqvec --layers sum -o proteins.h5
      elmo embed corpus.txt -o corpus.hdf5 --resume
      elmo embed corpus/*.txt.xz -o shards/ --ray --workers 8 --threads 2
      head -3 corpus.txt | elmo embed - -o - --output-format text --layers top
    """
    from elmo_cli.text.input import check_inputs

    start_s = time.monotonic()
    chosen = EmbedOptions(**values)
    # Checked before numpy and h5py are imported, which takes half of the time of an error.
    check_inputs(chosen.files, chosen.input_settings())
    _refuse_without_effect(chosen)
    job = _job(chosen)
    if chosen.ray:
        ray_job = _job_for_ray(job)
        from elmo_cli.cli.embed_jobs import write_shards

        write_shards(
            ray_job,
            address=chosen.ray_address,
            workers=chosen.workers,
            threads=chosen.threads or 1,
            gpus=chosen.gpus_per_worker,
        )
    else:
        _run(job, chosen, start_s)


def _refuse_without_effect(chosen: EmbedOptions) -> None:
    """Refuse options that have no effect together with others."""
    if chosen.ray:
        options.refuse_options(_NOT_ON_RAY, "for --ray")
        return
    options.refuse_options(_ONLY_ON_RAY, "without --ray")
    if not chosen.is_stdout:
        options.refuse_options(["stream"], "for a file, whose suffix decides its format")
        return
    options.refuse_options(_ONLY_FOR_FILES, "for standard output")
    if chosen.dtype == "int8":
        raise UsageError(
            "only files with layout flat can store int8",
            "use `--dtype float16`, or `-o FILE --layout flat`",
            where="--dtype int8",
        )


def _job(chosen: EmbedOptions) -> EmbedJob:
    from elmo_cli.embed.job import EmbedJob
    from elmo_cli.embed.settings import EmbedderSettings
    from elmo_cli.store.shard_number import ShardNumber
    from elmo_cli.store.spec import FileSpec

    embedder = EmbedderSettings(
        state=chosen.state,
        layers=chosen.layers,
        dtype=chosen.dtype,
        pool=chosen.pool,
        batch_size=chosen.batch_size,
        engine=chosen.engine,
        precision=chosen.precision,
        device=chosen.device,
    )
    file = FileSpec(
        layout=chosen.layout,
        keys="sentence" if chosen.use_sentence_keys else "number",
        forget_sentences=chosen.forget_sentences,
        sentence_map=chosen.sentence_map,
    )
    return EmbedJob(
        inputs=chosen.files,
        output=chosen.output,
        model=chosen.model_source(),
        text=chosen.input_settings(),
        embedder=embedder,
        file=file,
        shard=None if chosen.shard is None else ShardNumber.parse(chosen.shard),
        overwrite=chosen.overwrite,
        resume=chosen.resume,
    )


def _run(job: EmbedJob, chosen: EmbedOptions, start_s: float) -> None:
    """Check the paths and the model before torch is imported, then run or plan the jobs."""
    from elmo_cli.files import check_distinct
    from elmo_cli.text.input import require_files

    if chosen.is_stdout:
        check_distinct("-", job.inputs)
        jobs = [job]
    else:
        jobs = _checked_jobs(job)
    if chosen.dry_run:
        require_files("--dry-run", job.inputs)
    files = job.locate_model()
    console.note(*files.notes)
    if not (chosen.is_stdout or chosen.dry_run):
        if chosen.resume and _report_finished(jobs, files):
            return
        _check_folder(job.output)
    with console.loading(f"the model {job.model.title(files.name)}"):
        from elmo_cli.cli import embed_jobs

        embedder = embed_jobs.load_embedder(job, files, chosen.threads)
    if chosen.is_stdout:
        embed_jobs.write_stdout(job, embedder, chosen.stream)
    elif chosen.dry_run:
        embed_jobs.print_plans(jobs, embedder, time.monotonic() - start_s)
    else:
        embed_jobs.write_files(jobs, embedder)


def _report_finished(jobs: list[EmbedJob], files: ModelFiles) -> bool:
    """Print the results if all jobs are complete, without loading the model; return whether."""
    from elmo_cli.cli.embed_summary import note_summary, print_summaries
    from elmo_cli.embed.finished_run import summary_if_finished
    from elmo_cli.store.unfinished import is_finished

    if not all(is_finished(job.output) for job in jobs):
        return False
    summaries = []
    for job in jobs:
        summary = summary_if_finished(job, files)
        if summary is None:
            return False
        summaries.append(summary)
    for job, summary in zip(jobs, summaries, strict=True):
        console.warn(*summary.report.warnings)
        note_summary(job, summary, None)
    print_summaries(jobs, summaries)
    return True


def _checked_jobs(job: EmbedJob) -> list[EmbedJob]:
    """Return one job per output file, after checking the paths and first sentence of each job."""
    from elmo_cli.embed.blocks import check_first_sentence
    from elmo_cli.files import check_distinct, is_folder
    from elmo_cli.store.file_formats import format_of_output

    check_local(job.output)
    if not is_folder(job.output):
        to_stdout = f"`-o - --output-format FORMAT > {job.output}` writes jsonl, npz or text"
        check_distinct(job.output, job.inputs)
        format_of_output(job.output, alternatives=[to_stdout])
        job.check_paths()
        check_first_sentence(job)
        return [job]
    jobs = job.per_input()
    _check_unfinished_folder(job, jobs)
    for file_job in jobs:
        if os.path.isdir(job.output):
            check_distinct(file_job.output, job.inputs)
            file_job.check_paths()
        check_first_sentence(file_job)
    return jobs


def _check_unfinished_folder(job: EmbedJob, jobs: list[EmbedJob]) -> None:
    """Refuse a folder with some complete outputs, unless `--resume` or `--overwrite` is given."""
    from elmo_cli.filetypes import HDF5, identify_file
    from elmo_cli.store.unfinished import is_finished

    finished = [file_job.output for file_job in jobs if is_finished(file_job.output)]
    if not all(identify_file(output) is HDF5 for output in finished):
        return  # `EmbedJob.check_paths` refuses a file that no run can have written
    n_finished = len(finished)
    if 0 < n_finished < len(jobs) and not job.resume and not job.overwrite:
        raise OutputError(
            f"has {n_finished:,} of {len(jobs):,} files",
            "`resume=True` computes the others, `overwrite=True` starts over",
            where=job.output,
        )


def _check_folder(output: str) -> None:
    """Create the folder of an output that ends with a separator; refuse one that accepts no files,
    unless the output is finished."""
    from tempfile import TemporaryFile

    from elmo_cli.files import is_folder, output_errors, resolve
    from elmo_cli.store.unfinished import is_finished

    with output_errors(output):
        if is_folder(output):
            os.makedirs(output, exist_ok=True)
        elif not is_finished(output):
            TemporaryFile(dir=resolve(output).parent).close()


def _job_for_ray(job: EmbedJob) -> EmbedJob:
    """Return a job with the limits of its model, and refuse one that cannot run on a cluster.

    Ray is imported after these checks.
    """
    from elmo_cli.cluster.shard_folder import open_shard_folder
    from elmo_cli.files import is_folder, is_url
    from elmo_cli.pretrained.catalogue import find_model, installed_dir
    from elmo_cli.text.input import require_files

    if not is_folder(job.output):
        example = "s3://BUCKET/shards/" if is_url(job.output) else "shards/"
        raise UsageError(
            f"{url_without_secrets(job.output)} must be a folder of shards",
            f"`-o {example}` names one",
            where="--ray",
        )
    if job.embedder.state == "carry":
        raise UsageError(
            "each vector depends on all the text before it",
            "`--state zero` or `--state document` can be divided into shards",
            where="--ray with --state carry",
        )
    require_files("--ray", job.inputs)
    open_shard_folder(job.output)
    name = job.model.name_or_path
    published = find_model(str(name)) if name else None
    is_only_with_workers = published is not None and installed_dir(published) is None
    if is_only_with_workers:
        return job  # the limits of published models are the defaults
    return job.for_model(job.locate_model().read_options())
