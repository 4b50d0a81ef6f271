"""load_model: the biLM of an options file and a weight file, each a path or a published URL."""

from __future__ import annotations

from pathlib import Path

from elmo_cli.errors import ModelError, UsageError
from elmo_cli.files import StrPath, is_url
from elmo_cli.model.bilm import BiLM
from elmo_cli.pretrained.catalogue import CATALOGUE
from elmo_cli.pretrained.load import ModelSource, installed_files, load_files, locate

_LARGE = "2x4096_512_2048cnn_2xhighway"
_ADDRESS = f"https://allennlp.s3.amazonaws.com/models/elmo/{_LARGE}/elmo_{_LARGE}"
# The defaults of AllenNLP; those of `ElmoEmbedder` here are None, which is the bundled model.
DEFAULT_OPTIONS_FILE = f"{_ADDRESS}_options.json"
DEFAULT_WEIGHT_FILE = f"{_ADDRESS}_weights.hdf5"


def load_model(options_file: StrPath | None, weight_file: StrPath | None) -> BiLM:
    """Load a biLM that reads bytes; the network is not used.

    Args:
        options_file: a path, or the URL of a published model, on any of its hosts; None if the
            options are next to the weights.
        weight_file: the same; None for the bundled model.
    Raises:
        ModelError: a model that is not on this machine, or whose URL is not in the catalogue.
        UsageError: options without weights, or a model that reads Unicode characters.
        OptionsError, WeightFileError: the files are corrupt or do not belong together.
    """
    if weight_file is None and options_file is not None:
        hint = "give both files, or neither for the bundled model"
        raise UsageError("an options file without a weight file", hint, where=str(options_file))
    options = None if options_file is None else _local_path(options_file)
    weights = None if weight_file is None else _local_path(weight_file)
    if options is None:
        bilm = load_files(locate(ModelSource(weights)))
    else:
        bilm = load_files(locate(ModelSource(options=options, weights=weights)))
    if bilm.options.is_unicode:
        hint = "`Embedder(load(PATH))` reads every family of models"
        raise UsageError(
            "reads Unicode characters, not bytes", hint, where=f"the model {bilm.name}"
        )
    return bilm


def _local_path(file: StrPath) -> Path:
    """The path of a file; of a URL, that of the file in the cache."""
    if not isinstance(file, str) or not is_url(file):
        return Path(file)
    _, _, address = file.partition("://")
    for model in CATALOGUE:
        for remote in model.files:
            if any(address == known.partition("://")[2] for known in remote.addresses):
                folder = installed_files(model).weights.parent
                return folder / remote.name
    hint = "download the file, and give its path; `elmo models list` shows published models"
    raise ModelError("not the URL of a published model", hint, where=file)
