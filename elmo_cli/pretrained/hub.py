"""HubModel: a model of the Hugging Face hub, named hf:OWNER/NAME[@REVISION], in the cache.

The folder `$ELMO_HOME/hub/OWNER/NAME/REVISION` contains the files of the model and hub.json, which
states the commit that they are from, and the size and the SHA-256 of each:

    {"repository": "OWNER/NAME", "revision": "main", "commit": "…",
     "files": {"options.json": {"bytes": 587, "sha256": "…"}, …}}

Nothing here uses the network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.files import new_file
from elmo_cli.model.options import CHARACTERS_FILE, WORDS_FILE, Options
from elmo_cli.model_folder import (
    OPTIONS_FILE,
    SOFTMAX_FILE,
    STATE_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
)
from elmo_cli.pretrained.catalogue import RemoteFile, elmo_home, find_model, writing
from elmo_cli.pretrained.model_files import CARD_FILE, ModelFiles, find_files
from elmo_cli.pretrained.parts_file import PARTS_FILE
from elmo_cli.regular_files import INVALID_JSON, read_json

HUB_PREFIX = "hf:"
DEFAULT_REVISION = "main"
REQUIRED_FILES = (OPTIONS_FILE, WEIGHTS_FILE)
OPTIONAL_FILES = (
    SOFTMAX_FILE,
    VOCABULARY_FILE,
    STATE_FILE,
    CHARACTERS_FILE,
    WORDS_FILE,
    PARTS_FILE,
    CARD_FILE,
)
RECORD_FILE = "hub.json"
_NAME_HINT = "a model of a hub is named `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`"
# As in names of the hub. A name never begins with a dot, as unfinished folders of the cache do.
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_-])?"
_NAME = re.compile(rf"{HUB_PREFIX}({_PART})/({_PART})(?:@({_PART}))?")


@dataclass(frozen=True)
class HubModel:
    """A model of a hub, by its name.

    Attributes:
        revision: a branch, a tag or a commit.
    """

    owner: str
    name: str
    revision: str = DEFAULT_REVISION

    @classmethod
    def parse(cls, name: str) -> HubModel:
        """The model that a name means; a ModelError if it is not `hf:OWNER/NAME[@REVISION]`."""
        match = _NAME.fullmatch(name)
        if match is None or ".." in name:
            problem = f"`{name}` is not the name of a model of a hub"
            raise ModelError(problem, _NAME_HINT, parameters=("model",))
        owner, model_name, revision = match.groups()
        return cls(owner, model_name, revision or DEFAULT_REVISION)

    def __str__(self) -> str:
        revision = "" if self.revision == DEFAULT_REVISION else f"@{self.revision}"
        return f"{HUB_PREFIX}{self.repository}{revision}"

    @property
    def repository(self) -> str:
        """Its address on the hub: OWNER/NAME."""
        return f"{self.owner}/{self.name}"

    @property
    def repository_folder(self) -> Path:
        """The folder of the cache that has a folder for each revision."""
        return _hub_folder() / self.owner / self.name

    @property
    def folder(self) -> Path:
        """The folder that the model is downloaded to; it need not exist."""
        return self.repository_folder / self.revision


@dataclass(frozen=True)
class HubRecord:
    """What hub.json states of a downloaded model.

    Attributes:
        commit: None if the server did not state it.
        files: with their sizes and SHA-256.
    """

    commit: str | None
    files: tuple[RemoteFile, ...]

    @classmethod
    def read(cls, model: HubModel) -> HubRecord | None:
        """The record of a model; None if it is not on this machine, or a ModelError."""
        path = model.folder / RECORD_FILE
        hint = f"`elmo models pull {model}` downloads it again"
        try:
            return cls._of_content(read_json(path, ModelError, hint))
        except FileNotFoundError:
            return None
        except INVALID_JSON:
            raise ModelError("not a record of a downloaded model", hint, where=path) from None

    @classmethod
    def _of_content(cls, content: Any) -> HubRecord:
        files = []
        for name, facts in content["files"].items():
            if name not in (*REQUIRED_FILES, *OPTIONAL_FILES):
                raise ValueError(name)
            size = int(facts["bytes"])
            files.append(RemoteFile(name, (), bytes=size, sha256=str(facts["sha256"])))
        commit = content["commit"]
        return cls(None if commit is None else str(commit), tuple(files))

    def write(self, model: HubModel, folder: Path) -> None:
        """Write hub.json; or OutputError."""
        content = {
            "repository": model.repository,
            "revision": model.revision,
            "commit": self.commit,
            "files": {f.name: {"bytes": f.bytes, "sha256": f.sha256} for f in self.files},
        }
        path = folder / RECORD_FILE
        with writing(path), new_file(path, durable=True) as file:
            file.write(f"{json.dumps(content, indent=1)}\n".encode())

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size of each file."""
        return {file.name: file.bytes or 0 for file in self.files}

    @property
    def weights_sha256(self) -> str | None:
        """The SHA-256 of the weights."""
        return next((file.sha256 for file in self.files if file.name == WEIGHTS_FILE), None)


def is_hub_name(name: object) -> bool:
    """Whether a text is meant as the name of a model of a hub, and not as a path."""
    return isinstance(name, str) and name.startswith(HUB_PREFIX)


def is_model_name(name: str) -> bool:
    """Whether a text is the name of a model, and not a path."""
    return is_hub_name(name) or find_model(name) is not None


def hub_files(model: HubModel) -> ModelFiles:
    """The files of a model of a hub; ModelError if it is not on this machine or incomplete."""
    record = HubRecord.read(model)
    if record is None:
        problem = f"the model `{model}` is not on this machine"
        hint = f"`elmo models pull {model}`; `./{model}` is a path"
        raise ModelError(problem, hint, parameters=("model",))
    for file in record.files:
        path = model.folder / file.name
        problem = file.size_problem(path.stat().st_size) if path.is_file() else "is missing"
        if problem:
            hint = f"`elmo models pull {model}` downloads it again"
            raise ModelError(problem, hint, where=path)
    return replace(
        find_files(model.folder),
        name=str(model),
        origin="cached",
        published_sha256=record.weights_sha256,
    )


def pulled_models() -> Iterator[HubModel]:
    """The models of hubs that are on this machine, by name; none if the cache cannot be read."""
    with suppress(ElmoError, OSError):
        for path in sorted(_hub_folder().glob(f"*/*/*/{RECORD_FILE}")):
            owner, name, revision = path.parts[-4:-1]
            with suppress(ModelError):  # a folder that is not named like a model
                yield HubModel.parse(f"{HUB_PREFIX}{owner}/{name}@{revision}")


def hub_summary(model: HubModel) -> dict[str, Any]:
    """One row of the list of named models, as `load.summary`; None stands for unknown."""
    n_bytes = None
    dim = None
    with suppress(ElmoError):  # whatever uses the model reports it
        record = HubRecord.read(model)
        if record is not None:
            n_bytes = sum(record.sizes.get(name, 0) for name in REQUIRED_FILES)
        dim = Options.from_file(model.folder / OPTIONS_FILE).dim
    return {
        "name": str(model),
        "language": None,
        "bytes": n_bytes,
        "bytes_are_exact": True,
        "dim": dim,
        "where": "cached",
        "path": str(model.folder),
    }


def _hub_folder() -> Path:
    return elmo_home() / "hub"
