"""From a name, a folder, an archive or a pair of files to a biLM, or to a description of it.

A string without a separator is first looked up in the catalogue: `original` is the published model,
`./original` a folder. `hf:OWNER/NAME` is a model of a hub. A `Path` is always a path. Nothing here
uses the network.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import ModelError, UsageError
from elmo_cli.families.model_paths import reading
from elmo_cli.files import StrPath
from elmo_cli.model_folder import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.pretrained.archive import archive_stem, extract_model, is_archive
from elmo_cli.pretrained.catalogue import (
    BUNDLED,
    Model,
    find_model,
    installed_dir,
    model_dir,
    no_such_model,
)
from elmo_cli.pretrained.hub import HubModel, HubRecord, hub_files, is_hub_name, is_model_name
from elmo_cli.pretrained.model_files import (
    ModelFiles,
    check_parts,
    find_files,
    is_prefix,
    sha256_of,
)

if TYPE_CHECKING:
    from elmo_cli.model.bilm import BiLM


@dataclass(frozen=True)
class ModelSource:
    """What a user named as the model; `locate` finds its files.

    Attributes:
        name_or_path: a name of `elmo models list`, among them `hf:OWNER/NAME`, a folder, a weight
            file with its options next to it, a zip file, or what the names of the files of a
            checkpoint begin with; None for the bundled model. A `Path` is not a name.
        options: an options.json: that of `weights`, or of a path to a model of another family than
            weights in HDF5.
        weights: an HDF5 file of weights, without `name_or_path`.
    """

    name_or_path: StrPath | None = None
    options: StrPath | None = None
    weights: StrPath | None = None

    @property
    def given(self) -> tuple[StrPath, ...]:
        """All that the user named."""
        named = (self.name_or_path, self.options, self.weights)
        return tuple(path for path in named if path is not None)

    def title(self, name: str) -> str:
        """What messages call the model: its name, but a pair of files by the path of its weights.

        The name of a pair is that of its folder, which may say nothing about the model.
        """
        return name if self.weights is None else os.fspath(self.weights)


def load(
    name_or_path: StrPath | None = None,
    *,
    options: StrPath | None = None,
    weights: StrPath | None = None,
) -> BiLM:
    """Load a biLM in float32 on the CPU, ready for inference, with the warm state it may have; the
    arguments are those of `ModelSource`.

    Raises:
        ModelError: the model is unknown, not on this machine, or of another family, or its warm
            state is that of another model.
        OptionsError, WeightFileError: its files are corrupt or do not belong together.
        UsageError: a name and a pair of files, or half a pair.
        OutputError: an archive cannot be extracted into $ELMO_HOME.
    """
    return load_files(locate(ModelSource(name_or_path, options, weights)))


def load_files(files: ModelFiles) -> BiLM:
    """Load the biLM of files that `locate` has found; errors as of `load`."""
    from elmo_cli.weightfile.read import make_bilm, read_state

    with ThreadPoolExecutor(1) as thread:  # the hash is computed while the weights are read
        sha256 = thread.submit(lambda: files.sha256)
        with files.open() as model:
            bilm = make_bilm(model.options, model.parameters(), model.token_ids)
    bilm.name = files.name
    bilm.family = files.family.key
    bilm.sha256 = sha256.result()
    bilm.files = tuple(str(path) for path in files.paths)
    bilm.vocabulary_file = "" if files.vocabulary is None else str(files.vocabulary)
    bilm.warm_state_warning = check_parts(files, {"state": files.warm_state})
    if files.warm_state is not None:
        bilm.warm_state = read_state(files.warm_state, bilm.options)
    return bilm


def locate(source: ModelSource | StrPath | None = None) -> ModelFiles:
    """Find the files of a model and refuse bad ones, without reading weights or importing torch.

    Takes a `ModelSource` or its `name_or_path`; errors as of `load`.
    """
    files = find(source)
    files.read_options()
    if files.origin != "bundled":
        files.family.check(files)
    return files


def installed_files(model: Model) -> ModelFiles:
    """The files of a named model; ModelError if it is not on this machine or has other sizes."""
    folder = installed_dir(model)
    if folder is None:
        raise _not_installed(model)
    for file in model.files:
        path = folder / file.name
        problem = file.size_problem(path.stat().st_size)
        if problem:
            hint = f"`elmo models pull {model.name}` downloads it again"
            raise ModelError(problem, hint, where=path)
    files = replace(find_files(folder), name=model.name)
    if not model.files:
        return replace(files, origin="bundled")
    _, weights = model.files
    return replace(files, origin="cached", published_sha256=weights.sha256)


def _not_installed(model: Model) -> ModelError:
    hint = "install elmo-cli from its wheel"
    if model.files:
        pull = f"`elmo models pull {model.name}`"
        put = f"put its files into {model_dir(model)}"
        hint = f"{pull}, or {put}; `./{model.name}` is a path"
    return ModelError(
        f"the model `{model.name}` is not on this machine", hint, parameters=("model",)
    )


def find(source: ModelSource | StrPath | None) -> ModelFiles:
    """Find the files of a model by their names and first bytes, without opening them.

    Raises:
        ModelError, UsageError, OutputError: as `load`.
    """
    if not isinstance(source, ModelSource):
        source = ModelSource(source)
    for path in source.given:
        if not isinstance(path, (str, os.PathLike)):
            kind = type(path).__name__  # type: ignore[unreachable]
            raise TypeError(f"a model is given by its name or path, not by a value of type {kind}")
    name = source.name_or_path
    if source.weights is not None:
        if source.options is None or name is not None:
            raise _not_one_model(source)
        return find_files(Path(source.weights), Path(source.options))
    if source.options is not None:
        if name is None or _is_name(name):
            raise _not_one_model(source)
        files = _at_path(name, Path(source.options))
        if not files.family.takes_options:
            raise _not_one_model(source)
        return files
    if name is None:
        return _named(BUNDLED)
    return _named(name) if isinstance(name, str) else _at_path(name)


def _is_name(name: StrPath) -> bool:
    """Whether this is the name of a model, and not a path."""
    return isinstance(name, str) and is_model_name(name)


def _not_one_model(source: ModelSource) -> UsageError:
    hint = "give a name or a path, or both `options` and `weights`"
    return UsageError("expected one model", hint, where=", ".join(map(str, source.given)))


def _named(name: str) -> ModelFiles:
    if is_hub_name(name):
        return hub_files(HubModel.parse(name))
    model = find_model(name)
    if model is not None:
        return installed_files(model)
    path = os.path.expanduser(name)
    if os.sep in name or os.path.exists(path) or is_prefix(Path(path)):
        return _at_path(name)
    hint = "`elmo models list` shows all names; a path to a folder or a zip file works too"
    raise no_such_model(name, hint)


def _at_path(name: StrPath, options: Path | None = None) -> ModelFiles:
    path = Path(name if os.path.exists(name) else os.path.expanduser(name))
    with reading(path):
        if not path.exists() and not is_prefix(path):
            hint = "check the path; `elmo models list` shows the models that have a name"
            raise ModelError("no such file or folder", hint, where=path)
        if path.is_file() and is_archive(path):
            return replace(find_files(extract_model(path), options), name=archive_stem(path))
        return find_files(path, options)


def summary(model: Model) -> dict[str, Any]:
    """One row of the list of named models; None stands for unknown.

    `where` is "bundled", "cached" or "not downloaded". `bytes` is computed from the shapes of the
    tensors if `bytes_are_exact` is false.
    """
    folder = installed_dir(model)
    if folder is None:
        where = "not downloaded"
        is_exact = any(file.bytes for file in model.files)
        n_bytes = model.expected_bytes
    else:
        where = "cached" if model.files else "bundled"
        is_exact = True
        paths = (folder / OPTIONS_FILE, folder / WEIGHTS_FILE)
        n_bytes = sum(path.stat().st_size for path in paths)
    return {
        "name": model.name,
        "language": model.language,
        "bytes": n_bytes or None,
        "bytes_are_exact": is_exact,
        "dim": model.dim,
        "where": where,
        "path": str(model_dir(model) if folder is None else folder),
    }


def describe_model(name: str) -> dict[str, Any]:
    """Describe a model that `load` takes; or its ElmoError.

    Returns:
        for a named model `summary` and what the catalogue states; for others name, family, bytes,
        dim, where ("path"), path, parameters, files, layers (of vectors, with the token layer),
        options (as in options.json), sha256 (as `model_sha256` in an embeddings file) and whether
        there are softmax, vocabulary and warm_state; commit for a model of a hub.
    """
    model = find_model(name)
    if model is not None:
        facts = {**asdict(model), **summary(model)}
        facts["parameters"] = facts.pop("n_parameters")
        return facts
    files = locate(name)
    bilm = load_files(files)
    facts = {
        "name": files.name,
        "family": files.family.key,
        "bytes": sum(path.stat().st_size for path in files.required),
        "bytes_are_exact": True,
        "dim": bilm.options.dim,
        "where": files.origin,
        "path": str(files.weights.parent),
        "parameters": sum(values.numel() for values in bilm.parameters()),
        "files": [
            {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in files.paths
        ],
        "layers": 1 + bilm.options.n_layers,
        "options": bilm.options.to_dict(),
        "sha256": bilm.sha256,
        "softmax": files.softmax is not None or files.softmax_shape() is not None,
        "vocabulary": files.vocabulary is not None,
        "warm_state": files.warm_state is not None,
    }
    if is_hub_name(name):
        record = HubRecord.read(HubModel.parse(name))
        facts["commit"] = None if record is None else record.commit
    return facts
