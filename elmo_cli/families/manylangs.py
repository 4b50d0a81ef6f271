"""Models of ELMoForManyLangs: a configuration, two dictionaries and two files of PyTorch.

A folder has config.json, char.dic, word.dic, token_embedder.pkl and encoder.pkl. config.json names
the configuration of the training run. The published models do not contain it: theirs is
`PUBLISHED_CONFIGURATION`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmo_cli.errors import ModelError, OptionsError
from elmo_cli.families.dictionaries import read_dictionaries
from elmo_cli.families.family import Family
from elmo_cli.families.manylangs_tensors import MISMATCH_HINT, ManylangsModel
from elmo_cli.families.model_paths import ModelPaths, reading
from elmo_cli.families.state_dict import read_state_dict
from elmo_cli.model.options import CHARACTERS_FILE, WORDS_FILE, Options
from elmo_cli.regular_files import read_json, sha256_of_file
from elmo_cli.text.unicode_characters import BEGIN_MARK, Dictionary

CONFIG = "config.json"
CHARACTERS = "char.dic"
WORDS = "word.dic"
TOKEN_EMBEDDER = "token_embedder.pkl"
ENCODER = "encoder.pkl"
_REQUIRED = (CONFIG, TOKEN_EMBEDDER, ENCODER)
_SIGNS = (CHARACTERS, WORDS, TOKEN_EMBEDDER, ENCODER)
_MIN_SIGNS = 2  # another program may use one of these names

# The original package contains two files of these names, both with this configuration.
PUBLISHED_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
PUBLISHED_CONFIGURATION = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}
_MIN_CHARACTERS = len(BEGIN_MARK) + 2  # or the original would cut its own boundaries
_CONFIGURATION_HINT = "give the configuration file that the model was trained with"
_TRAIN_HINT = "use another model; `elmo pretrain` trains one on your own text"


class Manylangs(Family):
    """Models of ELMoForManyLangs with characters, with or without words, and a biLM as encoder."""

    key = "elmoformanylangs"
    name = "an ELMoForManyLangs model"
    usual_files = f"{CONFIG}, {CHARACTERS}, {WORDS}, {TOKEN_EMBEDDER} and {ENCODER}"
    members = (  # meta.json describes models of all families in the NLPL repository
        r"(char|word)\.dic|(encoder|token_embedder)\.pkl|(?!meta\.json)[^./][^/]*\.json"
    )

    def find(self, path: Path, options: Path | None = None) -> ModelPaths | None:
        """Find the files of a folder, or of one of the files in it.

        Args:
            options: the configuration, instead of the one that config.json names.
        """
        folder = path.parent if path.name in _SIGNS else path
        if sum((folder / name).is_file() for name in _SIGNS) < _MIN_SIGNS:
            return None
        missing = [name for name in _REQUIRED if not (folder / name).is_file()]
        if missing:
            problem = f"{self.name} without {', '.join(missing)}"
            raise ModelError(problem, "get all files of the model again", where=folder)
        notes = []
        configuration = options
        if configuration is None:
            configuration = find_configuration(folder)
        if configuration is None:
            notes.append("the configuration is that of the published models")
        others = [folder / name for name in (CONFIG, CHARACTERS, WORDS, TOKEN_EMBEDDER)]
        return ModelPaths(
            name=folder.resolve().name,
            weights=folder / ENCODER,
            options=configuration,
            others=tuple(other for other in others if other.is_file()),
            notes=tuple(notes),
        )

    @contextmanager
    def open(self, paths: ModelPaths, *, verify: bool = True) -> Iterator[ManylangsModel]:
        """Open the files; zip files of PyTorch are verified in any case."""
        options = self.read_options(paths)
        yield ManylangsModel(
            options=options,
            dictionaries=_read_dictionaries(paths, options),
            token_embedder=read_state_dict(paths.weights.with_name(TOKEN_EMBEDDER)),
            encoder=read_state_dict(paths.weights),
            digest=self.digest(paths),
        )

    def read_options(self, paths: ModelPaths) -> Options:
        """Read the configuration, without the sizes of the dictionaries."""
        if paths.options is None:
            return _options_of(PUBLISHED_CONFIGURATION, where=str(paths.weights.parent))
        try:
            content = read_json(paths.options, OptionsError, _CONFIGURATION_HINT)
        except FileNotFoundError:
            raise OptionsError("no such file", _CONFIGURATION_HINT, where=paths.options) from None
        return _options_of(content, where=str(paths.options))

    def digest(self, paths: ModelPaths) -> str:
        """A SHA-256 of the hashes of both dictionaries and both files of PyTorch."""
        lines = []
        for name in (CHARACTERS, WORDS, TOKEN_EMBEDDER, ENCODER):
            path = paths.weights.with_name(name)
            with reading(path):
                sha256 = sha256_of_file(path) if path.is_file() else ""
            lines.append(f"{name} {sha256}\n")
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def check(self, paths: ModelPaths) -> None:
        """Read the configuration and the dictionaries; the tensors need torch."""
        _read_dictionaries(paths, self.read_options(paths))


def _read_dictionaries(paths: ModelPaths, options: Options) -> dict[str, Dictionary]:
    return read_dictionaries(
        options,
        characters=paths.weights.with_name(CHARACTERS),
        words=paths.weights.with_name(WORDS),
    )


def find_configuration(folder: Path) -> Path | None:
    """The file that config.json names, or the one of its name in the folder; None for the
    published one.

    Raises:
        ModelError: config.json is not valid, or the file is missing.

    Source: ELMoForManyLangs `elmoformanylangs/elmo.py` `Embedder.get_model`.
    """
    path = folder / CONFIG
    content = read_json(path, ModelError, MISMATCH_HINT)
    named = content.get("config_path") if isinstance(content, Mapping) else None
    if not isinstance(named, str):
        raise ModelError("names no config_path", "get the file again", where=path)
    name = os.path.basename(named)
    for candidate in (folder / named, folder / name):
        if candidate.is_file():
            return candidate
    if name in PUBLISHED_NAMES:
        return None
    problem = f"its config_path {named!r} is missing"
    raise ModelError(problem, f"copy that file to {folder}", where=path)


def _options_of(content: Any, where: str) -> Options:
    """The sizes in a configuration; ModelError for a model of another architecture, OptionsError
    for values that no model can have."""
    encoder = _section(content, "encoder", where)
    embedder = _section(content, "token_embedder", where)
    _refuse_other_networks(encoder, embedder, where)
    # An options.json has defaults for these values; a configuration has none.
    required = {
        "encoder.n_layers": encoder.get("n_layers"),
        "token_embedder.n_highway": embedder.get("n_highway"),
        "token_embedder.max_characters_per_token": embedder.get("max_characters_per_token"),
    }
    for path, value in required.items():
        if value is None:
            raise OptionsError(f"{path} is missing", _CONFIGURATION_HINT, where=where)
    char_cnn = {
        "activation": embedder.get("activation"),
        "filters": embedder.get("filters"),
        "n_highway": embedder.get("n_highway"),
        "embedding": {"dim": embedder.get("char_dim")},
        "characters": CHARACTERS_FILE,
        "max_characters_per_token": embedder.get("max_characters_per_token"),
    }
    lstm = {
        "use_skip_connections": True,
        "projection_dim": encoder.get("projection_dim"),
        "dim": encoder.get("dim"),
        "n_layers": encoder.get("n_layers"),
        "cell_clip": encoder.get("cell_clip"),
        "proj_clip": encoder.get("proj_clip"),
        "forget_bias": 0,  # the stored bias contains it
    }
    options: dict[str, Any] = {"lstm": lstm, "char_cnn": char_cnn}
    if embedder.get("word_dim"):
        options["words"] = {"dim": embedder["word_dim"], "file": WORDS_FILE}
    try:
        read = Options.from_dict(options)
    except OptionsError as error:
        problem = f"as the options of a biLM, {error.problem}"
        raise OptionsError(problem, _CONFIGURATION_HINT, where=where) from None
    if read.max_characters < _MIN_CHARACTERS:
        problem = f"max_characters_per_token is {read.max_characters}, below {_MIN_CHARACTERS}"
        raise OptionsError(problem, _CONFIGURATION_HINT, where=where)
    return replace(read, has_lstm_projection=True)  # also between equal sizes


def _section(content: Any, name: str, where: str) -> Mapping[str, Any]:
    section = content.get(name) if isinstance(content, Mapping) else None
    if not isinstance(section, Mapping):
        problem = f"{name} is missing or not a JSON object"
        raise OptionsError(problem, _CONFIGURATION_HINT, where=where)
    return section


def _refuse_other_networks(
    encoder: Mapping[str, Any], embedder: Mapping[str, Any], where: str
) -> None:
    """Raise a ModelError unless a model is a biLM over characters."""
    encoder_name = str(encoder.get("name")).lower()
    embedder_name = str(embedder.get("name")).lower()
    problem = ""
    if encoder_name == "lstm":
        problem = "its encoder is `lstm`: one output layer that depends on the padding of a batch"
    elif encoder_name != "elmo":
        problem = f"its encoder is {encoder.get('name')!r}, not `elmo`"
    elif not embedder.get("char_dim"):
        problem = "it reads words only, and no characters: most tokens would have the same vector"
    elif embedder_name == "lstm":
        problem = "its token encoder is `lstm`, which never ran with characters in the original"
    elif embedder_name != "cnn":
        problem = f"its token encoder is {embedder.get('name')!r}, not `cnn`"
    if problem:
        raise ModelError(f"an ELMoForManyLangs model, but {problem}", _TRAIN_HINT, where=where)
