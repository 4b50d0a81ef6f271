"""The published models: where their files are, how large, of which hash, under which terms.

Facts that nobody has published are None here, never a guess. Sources: allennlp.org/elmo and the
threads of allenai/bilm-tf (#105, #198, #207) and allenai/allennlp-website (#149).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace

from elmo_cli.errors import ModelError

BUNDLED = "elmo-en"
OPTIONS_FILE = "options.json"
WEIGHTS_FILE = "weights.hdf5"

# One bucket under two names; some networks block one of them.
_HOSTS = (
    "https://allennlp.s3.amazonaws.com/models/elmo",
    "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo",
)
_SECOND_OF_ORIGINAL = (
    "https://huggingface.co/lysandre/elmo-2x4096_512_2048cnn_2xhighway/resolve/main"
)
_PETERS = (
    "Peters et al. 2018, Deep contextualized word representations, NAACL "
    "(https://aclanthology.org/N18-1202)"
)
_NEWS = "1 Billion Word Benchmark: news of 2011, 800 million tokens"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a published model.

    Attributes:
        name: its name in the cache, "options.json" or "weights.hdf5".
        addresses: where it is published, tried in this order.
        bytes: its exact size, None where it was never stated.
        about: the size to expect, from the shapes of the tensors; 0 where these are unknown too.
        sha256: None where it was never stated.
    """

    name: str
    addresses: tuple[str, ...]
    bytes: int | None = None
    about: int = 0
    sha256: str | None = None

    @property
    def expected_bytes(self) -> int:
        """What a progress bar counts to; 0 if unknown."""
        return self.bytes or self.about

    def difference(self, n_bytes: int, sha256: Callable[[], str]) -> str:
        """How a file differs from the published one, "" if it does not as far as that is known.

        Args:
            sha256: tells that of the file in hex; called only if need be.
        """
        if self.bytes is not None and n_bytes != self.bytes:
            return f"has {n_bytes} bytes, the catalogue says {self.bytes}"
        if self.sha256 is not None and (found := sha256()) != self.sha256:
            return f"has sha256 {found}, the catalogue says {self.sha256}"
        return ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the options of a published model must say."""

    lstm_dim: int
    projection_dim: int
    n_layers: int
    n_highway: int

    @property
    def dim(self) -> int:
        """Size of a stored vector."""
        return 2 * self.projection_dim


@dataclass(frozen=True, slots=True)
class Beside:
    """Something published with a model that `pull` leaves where it is; address "" for none."""

    what: str
    address: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """A model with a name.

    Attributes:
        files: what `elmo models pull` fetches; empty for the bundled model.
        n_parameters: None where unknown.
        sizes: None where no published source states them.
    """

    name: str
    title: str
    language: str
    corpus: str
    citation: str
    licence: str = "not stated"
    aliases: tuple[str, ...] = ()
    files: tuple[RemoteFile, ...] = ()
    beside: tuple[Beside, ...] = ()
    n_parameters: int | None = None
    sizes: Sizes | None = None
    note: str = ""

    @property
    def is_bundled(self) -> bool:
        """Whether it is installed with the package."""
        return not self.files

    @property
    def expected_bytes(self) -> int:
        """Size of all its files, 0 where it can't be told."""
        weights = [file.expected_bytes for file in self.files if file.name == WEIGHTS_FILE]
        return sum(file.expected_bytes for file in self.files) if all(weights) else 0


def find(name: str) -> Model:
    """The model of a name or alias, in any case.

    Raises:
        ModelError: there is none; the hint suggests the nearest name.
    """
    model = look_up(name)
    if model is None:
        raise no_such_model(name, "`elmo models list` shows all names")
    return model


def look_up(name: str) -> Model | None:
    """As `find`, but None if there is no such model."""
    return _BY_NAME.get(name.lower())


def no_such_model(name: str, hint: str) -> ModelError:
    """The error for a name that nothing answers to; `hint` where there is no name like it."""
    near = difflib.get_close_matches(name.lower(), _BY_NAME, n=1)
    if near:
        hint = f"did you mean `{_BY_NAME[near[0]].name}`? `elmo models list` shows all names"
    return ModelError(f"no model named `{name}`", hint)


def _files(options: str, weights: str, **facts: int | str) -> tuple[RemoteFile, RemoteFile]:
    return (
        RemoteFile(OPTIONS_FILE, tuple(f"{host}/{options}" for host in _HOSTS)),
        RemoteFile(
            WEIGHTS_FILE,
            tuple(f"{host}/{weights}" for host in _HOSTS),
            **facts,  # type: ignore[arg-type]
        ),
    )


def _english(folder: str, **facts: int | str) -> tuple[RemoteFile, RemoteFile]:
    stem = f"{folder}/elmo_{folder}"
    return _files(f"{stem}_options.json", f"{stem}_weights.hdf5", **facts)


def _with_second_place(files: tuple[RemoteFile, ...], place: str) -> tuple[RemoteFile, ...]:
    return tuple(replace(f, addresses=(*f.addresses, f"{place}/{f.name}")) for f in files)


def _checkpoint(place: str) -> Beside:
    note = "also .meta and .data-00000-of-00001; has the softmax"
    return Beside("TensorFlow checkpoint", f"{_HOSTS[1]}/{place}", note)


def _scores(srl: str, parsing: str) -> str:
    return f"published F1 with it: semantic roles {srl}, constituency parsing {parsing}"


_VOCABULARY = Beside("vocabulary", f"{_HOSTS[0]}/vocab-2016-09-10.txt", "793,471 types")
_NO_SOFTMAX = Beside("softmax weights", "", "never published")
_NO_CHECKPOINT = Beside("TensorFlow checkpoint", "", "never published")
_LARGE = Sizes(lstm_dim=4096, projection_dim=512, n_layers=2, n_highway=2)
_LARGE_BYTES = 374_403_392  # of its tensors
_SMALL_FOLDER = "2x1024_128_2048cnn_1xhighway"
_MEDIUM_FOLDER = "2x2048_256_2048cnn_1xhighway"
_LARGE_FOLDER = "2x4096_512_2048cnn_2xhighway"

CATALOGUE: tuple[Model, ...] = (
    Model(
        name=BUNDLED,
        title="the model that is installed with elmo",
        language="English",
        corpus="openly licensed English of eight genres; see its card",
        citation=_PETERS,
        licence="CC BY-SA 4.0",
        aliases=("bundled",),
        note="needs no download; its card README.md says what it was trained on and how well",
    ),
    Model(
        name="small",
        title="ELMo small",
        language="English",
        corpus=_NEWS,
        citation=_PETERS,
        files=_english(
            _SMALL_FOLDER,
            bytes=54_402_456,
            sha256="747ba97abce8a5f446558369e10bb0f7931437a46867476fdd156f5d7f576229",
        ),
        beside=(
            _VOCABULARY,
            _checkpoint(f"{_SMALL_FOLDER}/tf_checkpoint/model.ckpt-1501260.index"),
        ),
        n_parameters=13_593_296,
        sizes=Sizes(lstm_dim=1024, projection_dim=128, n_layers=2, n_highway=1),
        note=_scores("83.62", "93.12"),
    ),
    Model(
        name="medium",
        title="ELMo medium",
        language="English",
        corpus=_NEWS,
        citation=_PETERS,
        files=_english(_MEDIUM_FOLDER, about=112_110_912),
        beside=(
            _VOCABULARY,
            _checkpoint(f"{_MEDIUM_FOLDER}/tf_checkpoint/model.ckpt-1501260.index"),
        ),
        n_parameters=28_027_728,
        sizes=Sizes(lstm_dim=2048, projection_dim=256, n_layers=2, n_highway=1),
        note=_scores("84.04", "93.60"),
    ),
    Model(
        name="original",
        title="ELMo original, the model of the paper",
        language="English",
        corpus=_NEWS,
        citation=_PETERS,
        files=_with_second_place(
            _english(
                _LARGE_FOLDER,
                bytes=374_434_792,
                sha256="a6b92b9ccbb13fe489faacd2221c795d4bebe84b75f8aded9d85ea464fa5c994",
            ),
            _SECOND_OF_ORIGINAL,
        ),
        beside=(
            Beside(
                "softmax weights",
                f"{_HOSTS[1]}/{_LARGE_FOLDER}/elmo_{_LARGE_FOLDER}_softmax_weights.hdf5",
                "1.6 GB",
            ),
            _VOCABULARY,
            _checkpoint(f"{_LARGE_FOLDER}_tf_checkpoint/model.ckpt-935588.index"),
        ),
        n_parameters=93_600_848,
        sizes=_LARGE,
        note=_scores("84.63", "93.85"),
    ),
    Model(
        name="original-5.5b",
        title="ELMo original, trained on 5.5 billion tokens",
        language="English",
        corpus="Wikipedia (1.9 billion tokens) and WMT news of 2008-2012 (3.6 billion)",
        citation=_PETERS,
        aliases=("5.5b", "original_5.5b"),
        files=_english(f"{_LARGE_FOLDER}_5.5B", about=_LARGE_BYTES),
        beside=(_NO_SOFTMAX, _NO_CHECKPOINT),
        n_parameters=93_600_848,
        sizes=_LARGE,
        note=_scores("84.93", "94.01"),
    ),
    Model(
        name="pubmed",
        title="ELMo original, trained on PubMed",
        language="English",
        corpus="PubMed",
        citation=_PETERS,
        files=_files(
            f"contributed/pubmed/elmo_{_LARGE_FOLDER}_options.json",
            f"contributed/pubmed/elmo_{_LARGE_FOLDER}_weights_PubMed_only.hdf5",
            about=_LARGE_BYTES,
        ),
        beside=(_NO_SOFTMAX, _NO_CHECKPOINT),
        n_parameters=93_600_848,
        sizes=_LARGE,
        note="its files were reported missing in 2025 (https://github.com/allenai/scicite/issues/19)",
    ),
    Model(
        name="portuguese",
        title="ELMo for Portuguese, contributed by pvcastro and team",
        language="Portuguese",
        corpus="Portuguese Wikipedia",
        citation="https://github.com/allenai/allennlp/issues/2025",
        aliases=("pt",),
        files=_files("contributed/pt/elmo_pt_options.json", "contributed/pt/elmo_pt_weights.hdf5"),
        beside=(
            Beside(
                "the same team's later model of Wikipedia",
                f"{_HOSTS[1]}/contributed/pt/wikipedia/elmo_pt_weights.hdf5",
                "options.json is in the same folder",
            ),
            _NO_SOFTMAX,
        ),
    ),
)

_BY_NAME = {name.lower(): model for model in CATALOGUE for name in (model.name, *model.aliases)}
