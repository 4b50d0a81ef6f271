"""Everything that reads an untrusted file, each as a function of a file's bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import seeds
from families import manylangs_models
from mutations import mutated, mutated_log, mutated_table, mutated_zip, reordered
from store import writer_runs

from elmo_cli.analysis.neighbors import nearest, read_queries
from elmo_cli.analysis.query import occurrences
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.errors import ElmoError, UsageError
from elmo_cli.isolate import run_isolated
from elmo_cli.lm.checkpoint import load_corpora, read_checkpoint
from elmo_cli.lm.pretrain_config import PretrainConfig
from elmo_cli.model.options import Options
from elmo_cli.pretrained.load import load
from elmo_cli.pretrained.parts_file import PartsFile
from elmo_cli.store.convert import convert
from elmo_cli.store.inspection import describe, kind_of_file, python_example, verify
from elmo_cli.store.log_lines import read_log
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.shards import merge_shards
from elmo_cli.tasks.data_files import read_data_file
from elmo_cli.tasks.trained_task import PARTS, load_trained
from elmo_cli.tasks.word_vectors import WordVectors
from elmo_cli.weightfile.open_weights import check_data_sets
from elmo_cli.weightfile.read import read_bilm, read_softmax, read_state


@dataclass(frozen=True)
class Target:
    """A reader of files.

    Attributes:
        name: what the fuzzer calls it.
        seeds: valid files, made when they are needed.
        read: reads the file `content`, in a folder that is empty but for `Folder`'s own.
        in_child: whether elmo itself reads such a file in a child process, which may crash.
        signed: damages a file such that its checksums are right.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[Path, bytes], object]
    in_child: bool = False
    signed: Callable[[bytes, Random], bytes] = mutated

    def outcome(self, folder: Path, content: bytes) -> str:
        """Read a file in a child process, with the memory that elmo says is enough.

        Returns:
            "read", "refused", or "crashed" where only elmo's own child did.
        Raises:
            AssertionError: a crash, a hang, too much memory, or an error without a hint.
            Exception: any that is no ElmoError, as it was raised.
        """
        path = folder / "size"  # the limit of memory goes by its size
        path.write_bytes(content)
        error: ElmoError | None = None
        try:
            run_isolated(partial(self.read, folder, content), [path], _CrashError)
        except ElmoError as raised:
            error = raised
        if error is None:
            return "read"
        _check(error)
        assert self.in_child or not isinstance(error, _CrashError), error.message
        return "crashed" if isinstance(error, _CrashError) else "refused"

    def outcomes(self, folder: Path, contents: Sequence[bytes]) -> list[str]:
        """Read several files, each in a folder of its own, as `outcome` does.

        One child reads all, with the time and memory that elmo says is enough for the smallest. If
        it does not come to the end, the file that stopped it is unknown: a child reads each.
        """
        path = folder / "size"
        path.write_bytes(min(contents, key=len))
        try:
            outcomes = run_isolated(partial(self._read_each, folder, contents), [path], _CrashError)
        except Exception:  # whatever it is, it is raised again by the file that it comes from
            outcomes = []
            for number, content in enumerate(contents):
                alone = folder / f"alone-{number}"
                alone.mkdir()
                outcomes.append(self.outcome(alone, content))
        return outcomes

    def _read_each(self, folder: Path, contents: Sequence[bytes]) -> list[str]:
        """Whether each file is read or refused."""
        outcomes = []
        for number, content in enumerate(contents):
            own = folder / str(number)
            own.mkdir()
            try:
                self.read(own, content)
                outcomes.append("read")
            except ElmoError as error:
                _check(error)
                outcomes.append("refused")
        return outcomes

    def damaged(self, random: Random) -> bytes:
        """A seed with damage."""
        damage = random.choice((mutated, self.signed))
        seed = random.choice(self.seeds())
        return damage(seed, random)


def _check(error: ElmoError) -> None:
    assert error.message
    assert error.hint, error.message


class _CrashError(ElmoError):
    """The child has crashed, or wanted too much time or memory."""


def _file(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


_SIZES = Options.from_dict(seeds.OPTIONS)


def _of_weights(read: Callable[[Path], object]) -> Callable[[Path, bytes], None]:
    """A reader of weights, whose files a child process checks first."""

    def read_checked(folder: Path, content: bytes) -> None:
        path = _file(folder, "in.hdf5", content)
        check_data_sets([path])
        read(path)

    return read_checked


def _inspect(path: Path) -> None:
    """What `elmo inspect` does."""
    refused = None
    is_of_embeddings = kind_of_file(path) == "embeddings"
    steps: list[Callable[[Path], object]] = [describe, verify]
    if is_of_embeddings:
        steps.append(python_example)
    for step in steps:
        try:
            step(path)
        except ElmoError as error:  # the others are to be tried too
            refused = error
    if refused is not None:
        raise refused


def _inspected(folder: Path, content: bytes) -> None:
    _inspect(_file(folder, "in.hdf5", content))


def _embeddings(folder: Path, content: bytes) -> None:
    path = _file(folder, "in.hdf5", content)
    _inspect(path)
    with open_embeddings(path) as embeddings:
        for key in embeddings:
            with suppress(KeyError):  # what a mapping says of a name that is no sentence
                embeddings.tokens(key)
                embeddings.shape(key)
                embeddings[key]


def _neighbors(folder: Path, content: bytes) -> None:
    path = _file(folder, "in.hdf5", content)
    with open_embeddings(path) as embeddings:
        view = LayerView(embeddings)
        names = [f"{key}:0" if view.per_token else str(key) for key in islice(view, 2)]
        nearest(view, read_queries(view, names)[0], 3)
        with suppress(UsageError):  # not every layout stores tokens
            list(occurrences(view, "a"))


def _converted(folder: Path, content: bytes) -> None:
    path = _file(folder, "in.hdf5", content)
    convert(path, folder / "out.hdf5", dtype="float16", overwrite=True)


def _merged(folder: Path, content: bytes) -> None:
    path = _file(folder, "in.hdf5", content)
    merge_shards([path], folder / "out.hdf5", overwrite=True)


def _log(folder: Path, content: bytes) -> None:
    _file(folder, "out.hdf5.part.log", content)
    read_log(folder / "out.hdf5.part")
    describe(_file(folder, "out.hdf5.part", b"x"))


def _resumed(ending: str, way: str) -> Callable[[Path, bytes], None]:
    """The rest of a killed run, one file of which is corrupt."""

    def read(folder: Path, content: bytes) -> None:
        for path in folder.iterdir():
            path.unlink()
        for name, valid in seeds.run_files(way).items():
            _file(folder, f"out.hdf5{name}", content if name == ending else valid)
        writer_runs.run(folder / "out.hdf5", way, resume=True)

    return read


def _recipe(folder: Path, content: bytes) -> None:
    _file(folder, "a.txt", b"")
    PretrainConfig.read(_file(folder, "recipe.json", content))


def _kept_text(folder: Path, content: bytes) -> None:
    load_corpora(_file(folder, "text.npz", content), max_characters=50)


def _options(folder: Path, content: bytes) -> None:
    Options.from_file(_file(folder, "options.json", content))


def _checkpoint(folder: Path, content: bytes) -> None:
    read_checkpoint(_file(folder, "checkpoint.pt", content))


def _task_model(name: str) -> Callable[[Path, bytes], None]:
    """A task model one file of which is forged: its digest is the right one."""

    def read(folder: Path, content: bytes) -> None:
        for file_name, valid in seeds.task_model().items():
            _file(folder, file_name, content if file_name == name else valid)
        PartsFile(folder, PARTS).write()
        trained = load_trained(folder)
        data = _file(folder, "new.conll", b"Anna O\nOslo O\n")
        split = read_data_file(trained.task, str(data))
        trained.predict(split.examples, trained.inputs(split.sentences, None))

    return read


def _of_folder(name: str, files: Callable[[], dict[str, bytes]]) -> Callable[[Path, bytes], None]:
    """The reader of a model in a folder, one file of which is damaged."""

    def read(folder: Path, content: bytes) -> None:
        os.environ["ELMO_HOME"] = str(folder / "home")  # of this child process
        for path, valid in files().items():
            (folder / "model" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "model" / path).write_bytes(content if path == name else valid)
        load(folder / "model")

    return read


def _archived(folder: Path, content: bytes) -> None:
    os.environ["ELMO_HOME"] = str(folder / "home")  # of this child process
    path = _file(folder, "model.tar.gz", content)
    load(path, options=_file(folder, "o.json", seeds.allennlp_files()["options.json"]))


def _state_dictionary(folder: Path, content: bytes) -> None:
    path = _file(folder, "mine.pt", content)
    load(path, options=_file(folder, "o.json", seeds.allennlp_files()["options.json"]))


def _word_vectors(name: str) -> Callable[[Path, bytes], None]:
    def read(folder: Path, content: bytes) -> None:
        found = WordVectors.read(str(_file(folder, name, content)))
        found.with_first(["the", "anna"]).write(folder / "again.npz")
        WordVectors.read(str(folder / "again.npz"))

    return read


def _file_target(
    name: str,
    files: Callable[[], dict[str, bytes]],
    file: str,
    *,
    in_child: bool = False,
    signed: Callable[[bytes, Random], bytes] = mutated,
) -> Target:
    """One of the files of a model in a folder."""
    return Target(
        name=name,
        seeds=lambda: [files()[file]],
        read=_of_folder(file, files),
        in_child=in_child,
        signed=signed,
    )


def _manylangs_target(
    name: str, model: str, file: str, signed: Callable[[bytes, Random], bytes] = reordered
) -> Target:
    files = partial(manylangs_models.contents, model)
    return _file_target(name, files, file, signed=signed)


def _left_by_kill(way: str, ending: str) -> bytes:
    return seeds.run_files(way)[ending]


def _made_by(*makers: Callable[[], bytes]) -> Callable[[], list[bytes]]:
    """The seeds of a target, which are made when they are needed."""

    def make() -> list[bytes]:
        return [maker() for maker in makers]

    return make


def _task_files(name: str) -> Callable[[], list[bytes]]:
    return _made_by(partial(seeds.task_file, name))


def _own() -> list[bytes]:
    return [seeds.embeddings(way) for way in seeds.WAYS]


def _own_and_foreign() -> list[bytes]:
    return _own() + seeds.foreign()


_LOG = partial(_left_by_kill, "allennlp", ".part.log")
_INT8_LOG = partial(_left_by_kill, "int8", ".part.log")
_PART = partial(_left_by_kill, "allennlp", ".part")
_SHARD = partial(seeds.embeddings, "allennlp", shard="1/1")
_READ_BILM = partial(read_bilm, _SIZES)
_READ_SOFTMAX = partial(read_softmax, n_types=seeds.N_TYPES, projection=_SIZES.projection_dim)
_READ_STATE = partial(read_state, options=_SIZES)
_TARGETS: tuple[Target, ...] = (
    Target("options", _made_by(seeds.options), _options),
    Target("recipe", _made_by(seeds.recipe), _recipe),
    Target("checkpoint", _made_by(seeds.checkpoint), _checkpoint),
    Target("kept-text", _made_by(seeds.kept_text), _kept_text, signed=mutated_zip),
    Target("task-config", _task_files("task.json"), _task_model("task.json")),
    Target("task-weights", _task_files("model.pt"), _task_model("model.pt"), signed=mutated_zip),
    Target(
        "task-words",
        _task_files("word_vectors.npz"),
        _task_model("word_vectors.npz"),
        signed=mutated_zip,
    ),
    Target("words-text", _made_by(seeds.word_vectors_text), _word_vectors("a.txt")),
    Target("words-gz", _made_by(seeds.word_vectors_gz), _word_vectors("a.txt.gz")),
    Target(
        "words-npz", _made_by(seeds.word_vectors_npz), _word_vectors("a.npz"), signed=mutated_zip
    ),
    Target("log", _made_by(_LOG), _log, signed=mutated_log),
    Target("inspect-weights", _made_by(seeds.weights, seeds.softmax), _inspected, in_child=True),
    Target("weights", _made_by(seeds.weights), _of_weights(_READ_BILM)),
    Target("softmax", _made_by(seeds.softmax), _of_weights(_READ_SOFTMAX)),
    Target("state", _made_by(seeds.state), _of_weights(_READ_STATE)),
    Target("embeddings", _own, _embeddings, in_child=True),
    Target("foreign", seeds.foreign, _embeddings, in_child=True),
    Target("convert", _own_and_foreign, _converted, in_child=True),
    Target("neighbors", _own_and_foreign, _neighbors, in_child=True),
    Target("merge", _made_by(_SHARD), _merged, in_child=True),
    _manylangs_target("manylangs-config", "cnn-char", manylangs_models.CONFIGURATION),
    _manylangs_target("manylangs-characters", "cnn-char", "char.dic"),
    _manylangs_target("manylangs-words", "cnn-both-clip", "word.dic"),
    _manylangs_target("manylangs-old-tensors", "cnn-char", "token_embedder.pkl"),
    _manylangs_target("manylangs-zip-tensors", "cnn-both-clip", "encoder.pkl", signed=mutated_zip),
    Target("resume-part", _made_by(_PART), _resumed(".part", "allennlp")),
    Target("resume-log", _made_by(_INT8_LOG), _resumed(".part.log", "int8"), signed=mutated_log),
    _file_target(
        "checkpoint-index", seeds.checkpoint_files, "model.ckpt-60.index", signed=mutated_table
    ),
    _file_target("checkpoint-data", seeds.checkpoint_files, "model.ckpt-60.data-00000-of-00001"),
    _file_target(
        "saved-model-index",
        seeds.saved_model_files,
        "variables/variables.index",
        signed=mutated_table,
    ),
    _file_target(
        "saved-model-data", seeds.saved_model_files, "variables/variables.data-00000-of-00002"
    ),
    _file_target("allennlp-state", seeds.allennlp_files, "weights.th", in_child=True),
    Target("state-dictionary", seeds.state_dictionaries, _state_dictionary, in_child=True),
    Target("allennlp-archive", _made_by(seeds.allennlp_archive), _archived, in_child=True),
)
TARGETS = {target.name: target for target in _TARGETS}
