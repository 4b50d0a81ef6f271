"""EmbedJob: all settings of a run that writes one embeddings file.

Nothing here imports torch, so that `elmo embed` refuses what is wrong before it loads torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import UsageError
from elmo_cli.files import check_distinct, check_output_path
from elmo_cli.model.options import Options
from elmo_cli.pretrained.load import ModelSource, locate
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.store.file_formats import format_of_output
from elmo_cli.store.layers import LayerSelection
from elmo_cli.store.layouts import Layout, layout_of_spec
from elmo_cli.store.shard_number import ShardNumber
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.unfinished import check_new_output, is_finished, log_path, part_path
from elmo_cli.text.input import InputSettings, check_inputs, require_files, stem


@dataclass(frozen=True)
class EmbedJob:
    """A run that writes one embeddings file.

    Attributes:
        inputs: text files; "-" is standard input.
        output: the file; its suffix decides its format, see `format_of_output`.
        model, text, embedder, file: settings of the parts of the run. `embedder.dtype` is also that
            of the file. The layout decides about `embedder.drop_layer_axis`, and what the layers
            "all" of pooled vectors mean: bio-embeddings stores the sum of the layers.
        checks_text: whether warnings report signs that a text is not what it is read as. False for
            inputs that a program wrote, of which the user does not know the lines.
        shard: (i, n) for the i-th of n shards, from 1; None for the whole text.
        overwrite: replace an existing output.
        resume: continue an unfinished output, or start it.
    Raises:
        UsageError: settings that contradict each other.
    """

    inputs: tuple[str, ...]
    output: str
    model: ModelSource = field(default_factory=ModelSource)
    text: InputSettings = field(default_factory=InputSettings)
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    file: FileSpec = field(default_factory=FileSpec)
    checks_text: bool = True
    shard: ShardNumber | None = None
    overwrite: bool = False
    resume: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "file", replace(self.file, dtype=self.embedder.dtype))
        has_one_layer = "one layer" in self.layout.needs
        embedder = replace(self.embedder, drop_layer_axis=has_one_layer)
        if embedder.pool is not None and embedder.layers.strip() == "all":
            embedder = replace(embedder, layers=self.layout.pooled_layers)
        object.__setattr__(self, "embedder", embedder)
        if self.overwrite and self.resume:
            raise UsageError(
                "`overwrite=True` and `resume=True`: one starts over, the other continues",
                "leave out `overwrite` to keep what is done",
            )
        if self.shard is not None and self.embedder.state == "carry":
            raise UsageError(
                "`shard` and `state=carry`: each vector depends on all the text before it",
                "a run with `state=zero` or `state=document` can be divided into shards",
            )
        if self.shard is not None:
            require_files("`shard`", self.inputs)
        layers = embedder.layers.strip()
        is_plain = layers == "all" and embedder.pool is None and embedder.state == "zero"
        if self.layout.unit == "types" and not is_plain:
            raise UsageError(
                f"`layout={self.file.layout}` holds token vectors and nothing else",
                "leave out `layers`, `pool` and `state`",
            )
        is_list = "," in layers and not layers.startswith("mix:")
        if has_one_layer and (layers == "all" or is_list):
            raise UsageError(
                f"`layout={self.file.layout}` holds one layer per file, not "
                f"`layers={embedder.layers}`",
                "choose `layers=average`, `layers=sum`, `layers=top` or one number",
            )

    @property
    def layout(self) -> Layout:
        """The layout of the output."""
        return layout_of_spec(self.file)

    @property
    def skipped_list(self) -> str:
        """The file that lists the lines which `on_error="skip"` left out."""
        return f"{self.output}.skipped.tsv"

    def for_model(self, options: Options) -> EmbedJob:
        """The job with what the reader of the text must know of a model."""
        text = replace(
            self.text, max_characters=options.max_characters, is_unicode=options.is_unicode
        )
        return replace(self, text=text)

    def locate_model(self) -> ModelFiles:
        """The files of the model; an error if they are missing or it does not have the layers."""
        files = locate(self.model)
        n_layers = 1 + files.read_options().n_layers
        LayerSelection.parse(self.embedder.layers, range(n_layers), n_layers)
        return files

    def per_input(self) -> list[EmbedJob]:
        """A job for each input; its output in the folder `output` is named after the input."""
        jobs: dict[str, EmbedJob] = {}
        for input_path in self.inputs:
            if input_path == "-":
                problem = f"standard input has no name for a file in {self.output}"
                raise UsageError(problem, "name an output file")
            name = Path(input_path).name
            path = str(Path(self.output) / f"{stem(name) or name}.hdf5")
            if path in jobs:
                raise UsageError(
                    f"{jobs[path].inputs[0]} and {input_path} would both be written to {path}",
                    "embed them one by one, and name each output file",
                )
            jobs[path] = replace(self, inputs=(input_path,), output=path)
        return list(jobs.values())

    def check_paths(self) -> None:
        """Refuse inputs that cannot be read and an output that cannot be written to.

        Raises:
            InputError, UsageError: an input is missing or does not fit the settings of the text.
            OutputError: the output or its list of skipped lines exists or cannot be written to, or
                its suffix is one of a format that is not written.
            UsageError: the output is an input or a file of the model, or its format does not store
                the dtype.
            ElmoError: the program that the format needs is not installed.
        """
        check_inputs(self.inputs, self.text)
        for path in (self.output, self.skipped_list):
            check_distinct(path, self.inputs)
            check_distinct(path, vars(self.model).values(), what="a file of the model")
        format_of_output(self.output).check(self.file.dtype)
        check_new_output(self.output, overwrite=self.overwrite, resume=self.resume)
        is_started = is_finished(self.output) or log_path(part_path(self.output)).exists()
        is_own = self.overwrite or (self.resume and is_started)
        check_output_path(self.skipped_list, overwrite=is_own)
