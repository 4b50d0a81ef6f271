"""The published models, and the cache in $ELMO_HOME that they are downloaded to.

models/NAME/             options.json and weights.hdf5, downloaded or put there by hand
hub/OWNER/NAME/REVISION/ files of a model of the Hugging Face hub
archives/STEM-HASH/      model files extracted from an archive with this SHA-256

None stands for facts that nobody has published. Sources: allennlp.org/elmo and the threads
allenai/bilm-tf #105, #198, #207 and allenai/allennlp-website #149.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from elmo_cli.errors import ModelError, OutputError
from elmo_cli.file_locks import holding_lock
from elmo_cli.files import os_errors_as
from elmo_cli.model_folder import HDF5_SUFFIXES, OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.regular_files import sha256_of_file

BUNDLED = "elmo-en"
_PACKAGE = Path(__file__).resolve().parents[1]
_MAX_WEIGHTS_BYTES = 1 << 33  # of a file whose size is not published
_MAX_VOCABULARY_BYTES = 1 << 28
_MAX_TEXT_BYTES = 1 << 20  # of other files that are no HDF5
_HINT = "set ELMO_HOME to a folder that you can write to and that has enough space"

# One bucket under two names; some networks block one of them.
_HOSTS = (
    "https://allennlp.s3.amazonaws.com/models/elmo",
    "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo",
)
_MIRROR = "https://huggingface.co/lysandre/elmo-2x4096_512_2048cnn_2xhighway/resolve/main"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a published model."""

    name: str  # in the cache
    addresses: tuple[str, ...]  # in order of preference
    bytes: int | None = None
    sha256: str | None = None

    @property
    def max_bytes(self) -> int:
        """The largest size that is accepted."""
        if self.bytes is not None:
            return self.bytes
        if self.name.endswith(HDF5_SUFFIXES):
            return _MAX_WEIGHTS_BYTES
        return _MAX_VOCABULARY_BYTES if self.name.endswith(".txt") else _MAX_TEXT_BYTES

    def size_problem(self, n_bytes: int) -> str:
        """What is wrong with a size, "" for nothing."""
        if self.bytes is not None and n_bytes != self.bytes:
            return f"has {n_bytes} bytes, expected {self.bytes}"
        if n_bytes > self.max_bytes:
            return f"has {n_bytes} bytes, expected at most {self.max_bytes}"
        return ""

    def problem(self, path: Path) -> str:
        """What is wrong with a file, as far as size and hash are known; "" for nothing."""
        size_problem = self.size_problem(path.stat().st_size)
        if size_problem:
            return size_problem
        if self.sha256 is not None:
            found = sha256_of_file(path)
            if found != self.sha256:
                return f"has the SHA-256 {found}, expected {self.sha256}"
        return ""


@dataclass(frozen=True, slots=True)
class Model:
    """A model with a name."""

    name: str
    corpus: str = "1 Billion Word Benchmark: news of 2011, 800 million tokens"
    language: str = "English"
    citation: str = (
        "Peters et al. 2018, Deep contextualized word representations, NAACL "
        "(https://aclanthology.org/N18-1202)"
    )
    licence: str = "not stated"
    aliases: tuple[str, ...] = ()
    files: tuple[RemoteFile, ...] = ()  # options and weights, to be pulled; none if bundled
    n_parameters: int | None = None
    dim: int | None = None
    note: str = ""

    @property
    def expected_bytes(self) -> int:
        """Size of its weights, by the number of parameters if it is not published; 0 if unknown."""
        published = sum(file.bytes or 0 for file in self.files)
        if published:
            return published
        return 4 * (self.n_parameters or 0)  # float32


def find_model(name: str) -> Model | None:
    """Find a model by its name or alias, in any case; a path is never a name."""
    return _BY_NAME.get(name.lower())


def no_such_model(name: str, hint: str) -> ModelError:
    """The error for an unknown name; HINT is used if no known name is similar."""
    similar = difflib.get_close_matches(name.lower(), _BY_NAME, n=1)
    if similar:
        model = _BY_NAME[similar[0]]
        hint = f"did you mean `{model.name}`? `elmo models list` shows all names"
    return ModelError(f"no model named `{name}`", hint, parameters=("model",))


def _files(
    stem: str, *mirrors: str, suffix: str = "", bytes: int | None = None, sha256: str | None = None
) -> tuple[RemoteFile, RemoteFile]:
    """STEM_options.json and STEM_weightsSUFFIX.hdf5 on all hosts, or named as usual on mirrors."""

    def addresses(end: str, usual_name: str) -> tuple[str, ...]:
        on_hosts = [f"{host}/{stem}_{end}" for host in _HOSTS]
        on_mirrors = [f"{mirror}/{usual_name}" for mirror in mirrors]
        return (*on_hosts, *on_mirrors)

    options = RemoteFile(
        name=OPTIONS_FILE,
        addresses=addresses("options.json", OPTIONS_FILE),
    )
    weights = RemoteFile(
        name=WEIGHTS_FILE,
        addresses=addresses(f"weights{suffix}.hdf5", WEIGHTS_FILE),
        bytes=bytes,
        sha256=sha256,
    )
    return options, weights


_F1 = "published F1 with it: semantic roles {}, constituency parsing {}"
_SMALL = "2x1024_128_2048cnn_1xhighway"
_MEDIUM = "2x2048_256_2048cnn_1xhighway"
_LARGE = "2x4096_512_2048cnn_2xhighway"

CATALOGUE: tuple[Model, ...] = (
    Model(
        name=BUNDLED,
        corpus="openly licensed English of eight genres; see its model card",
        licence="CC BY-SA 4.0",
        aliases=("bundled",),
        n_parameters=10_609_536,
        dim=1024,
        note="installed with elmo; its model card README.md says what it is good and bad at",
    ),
    Model(
        name="small",
        files=_files(
            f"{_SMALL}/elmo_{_SMALL}",
            bytes=54_402_456,
            sha256="747ba97abce8a5f446558369e10bb0f7931437a46867476fdd156f5d7f576229",
        ),
        n_parameters=13_593_296,
        dim=256,
        note=_F1.format("83.62", "93.12"),
    ),
    Model(
        name="medium",
        files=_files(f"{_MEDIUM}/elmo_{_MEDIUM}"),
        n_parameters=28_027_728,
        dim=512,
        note=_F1.format("84.04", "93.60"),
    ),
    Model(
        name="original",
        files=_files(
            f"{_LARGE}/elmo_{_LARGE}",
            _MIRROR,
            bytes=374_434_792,
            sha256="a6b92b9ccbb13fe489faacd2221c795d4bebe84b75f8aded9d85ea464fa5c994",
        ),
        n_parameters=93_600_848,
        dim=1024,
        note=f"{_F1.format('84.63', '93.85')}; softmax layer: {_HOSTS[1]}/{_LARGE}/elmo_{_LARGE}_"
        f"softmax_weights.hdf5; vocabulary: {_HOSTS[0]}/vocab-2016-09-10.txt",
    ),
    Model(
        name="original-5.5b",
        corpus="Wikipedia (1.9 billion tokens) and WMT news of 2008-2012 (3.6 billion)",
        aliases=("5.5b", "original_5.5b"),
        files=_files(f"{_LARGE}_5.5B/elmo_{_LARGE}_5.5B"),
        n_parameters=93_600_848,
        dim=1024,
        note=_F1.format("84.93", "94.01"),
    ),
    Model(
        name="pubmed",
        corpus="PubMed",
        files=_files(f"contributed/pubmed/elmo_{_LARGE}", suffix="_PubMed_only"),
        n_parameters=93_600_848,
        dim=1024,
        note="its files were reported missing in 2025 (https://github.com/allenai/scicite/issues/19)",
    ),
    Model(
        name="portuguese",
        language="Portuguese",
        corpus="Portuguese Wikipedia",
        citation="https://github.com/allenai/allennlp/issues/2025",
        aliases=("pt",),
        files=_files("contributed/pt/elmo_pt"),
        note="contributed by pvcastro and team",
    ),
)


def _models_by_name() -> dict[str, Model]:
    models = {}
    for model in CATALOGUE:
        for name in (model.name, *model.aliases):
            models[name.lower()] = model
    return models


_BY_NAME = _models_by_name()


def elmo_home() -> Path:
    """$ELMO_HOME, else $XDG_CACHE_HOME/elmo, else ~/.cache/elmo; or OutputError."""
    home = os.environ.get("ELMO_HOME")
    xdg_cache = os.environ.get("XDG_CACHE_HOME", "")
    try:
        if home:
            return Path(home).expanduser().absolute()
        if os.path.isabs(xdg_cache):  # the XDG specification: a relative path is to be ignored
            return Path(xdg_cache) / "elmo"
        return Path.home() / ".cache" / "elmo"
    except RuntimeError:
        raise OutputError("no home directory is known", _HINT, where="$ELMO_HOME") from None


def model_dir(model: Model) -> Path:
    """The folder that a published model is downloaded to; it need not exist."""
    return elmo_home() / "models" / model.name


def bundled_dir() -> Path | None:
    """The folder of the bundled model: in the package, or next to it in a clone."""
    for folder in (_PACKAGE / "bundled" / BUNDLED, _PACKAGE.parent / "weights" / BUNDLED):
        if (folder / WEIGHTS_FILE).is_file():
            return folder
    return None


def installed_dir(model: Model) -> Path | None:
    """The folder that contains all files of a named model, None if it is not on this machine."""
    if not model.files:
        return bundled_dir()
    folder = model_dir(model)
    is_complete = all((folder / file.name).is_file() for file in model.files)
    return folder if is_complete else None


def writing(path: Path) -> AbstractContextManager[None]:
    """Turn an OSError into an OutputError about PATH in the cache."""
    return os_errors_as(OutputError, path, "cannot be written", _HINT)


def lock_path(folder: Path) -> Path:
    """The lock file of a folder of the cache."""
    return folder / ".lock"


@contextmanager
def locked(folder: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Create a folder of the cache and lock it, where the file system has locks; or OutputError.

    ON_WAIT is called once if another process has the lock.
    """
    with ExitStack() as stack:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(holding_lock(lock_path(folder), on_wait))
        yield
