"""Everything that reads a stranger's file, each as a function of a file's bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import seeds
from mutations import mutated, mutated_log, mutated_zip
from store import writer_runs

from elmo_cli.analysis.neighbors import nearest, read_queries
from elmo_cli.analysis.query import occurrences
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.errors import ElmoError, UsageError
from elmo_cli.isolate import run_isolated
from elmo_cli.lm.checkpoint import load_corpora, read_checkpoint
from elmo_cli.lm.pretrain_config import PretrainConfig
from elmo_cli.model.options import Options
from elmo_cli.store.convert import convert
from elmo_cli.store.inspection import describe, kind_of_file, python_example, verify
from elmo_cli.store.log_lines import read_log
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.shards import merge_shards
from elmo_cli.weightfile.describe import probe_hdf5
from elmo_cli.weightfile.read import read_bilm, read_softmax, read_state


@dataclass(frozen=True)
class Target:
    """A reader of files.

    Attributes:
        name: what the fuzzer calls it.
        seeds: sound files, made when they are needed.
        read: reads the file `content`, in a folder that is empty but for `Folder`'s own.
        in_child: whether elmo itself reads such a file in a child process, which may crash.
        signed: damages a file such that its checksums are right.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[Path, bytes], object]
    in_child: bool = False
    signed: Callable[[bytes, Random], bytes] = mutated

    def faces(self, folder: Path, content: bytes) -> str:
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
        assert error.message
        assert error.hint, error.message
        assert self.in_child or not isinstance(error, _CrashError), error.message
        return "crashed" if isinstance(error, _CrashError) else "refused"

    def damaged(self, random: Random) -> bytes:
        """A seed with damage."""
        return random.choice((mutated, self.signed))(random.choice(self.seeds()), random)


class _CrashError(ElmoError):
    """The child has crashed, or wanted too much time or memory."""


def _file(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


_SIZES = Options.from_dict(seeds.OPTIONS)


def _of_weights(read: Callable[[Path], object]) -> Callable[[Path, bytes], None]:
    """A reader of weights, which a child process probes first."""

    def probed(folder: Path, content: bytes) -> None:
        path = _file(folder, "in.hdf5", content)
        probe_hdf5([path])
        read(path)

    return probed


def _inspect(path: Path) -> None:
    """What `elmo inspect` does."""
    refused = None
    is_of_embeddings = kind_of_file(path) == "embeddings"
    for look in (describe, verify, *([python_example] if is_of_embeddings else [])):
        try:
            look(path)
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
        names = [str(key) + ":0" * view.per_token for key in islice(view, 2)]
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


def _log_of(way: str) -> bytes:
    return seeds.run_files(way)[".part.log"]


def _own() -> list[bytes]:
    return [seeds.embeddings(way) for way in seeds.WAYS]


def _own_and_foreign() -> list[bytes]:
    return _own() + seeds.foreign()


_SOFTMAX = partial(read_softmax, n_types=seeds.N_TYPES, projection=_SIZES.projection_dim)
TARGETS = {
    target.name: target
    for target in (
        Target("options", lambda: [seeds.options()], _options),
        Target("recipe", lambda: [seeds.recipe()], _recipe),
        Target("checkpoint", lambda: [seeds.checkpoint()], _checkpoint),
        Target("kept-text", lambda: [seeds.kept_text()], _kept_text, signed=mutated_zip),
        Target("log", lambda: [_log_of("allennlp")], _log, signed=mutated_log),
        Target("inspect-weights", lambda: [seeds.weights(), seeds.softmax()], _inspected, True),
        Target("weights", lambda: [seeds.weights()], _of_weights(partial(read_bilm, _SIZES))),
        Target("softmax", lambda: [seeds.softmax()], _of_weights(_SOFTMAX)),
        Target("state", lambda: [seeds.state()], _of_weights(partial(read_state, options=_SIZES))),
        Target("embeddings", _own, _embeddings, True),
        Target("foreign", seeds.foreign, _embeddings, True),
        Target("convert", _own_and_foreign, _converted, True),
        Target("neighbors", _own_and_foreign, _neighbors, True),
        Target("merge", lambda: [seeds.embeddings("allennlp", shard="1/1")], _merged, True),
        Target("resume-part", lambda: [seeds.run_files("allennlp")[".part"]],
               _resumed(".part", "allennlp")),
        Target("resume-log", lambda: [_log_of("int8")], _resumed(".part.log", "int8"),
               signed=mutated_log),
    )
}  # fmt: skip
