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

from elmo_cli.analysis.neighbors import nearest
from elmo_cli.analysis.query import find_token, occurrences
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.errors import ElmoError, UsageError
from elmo_cli.isolate import run_isolated
from elmo_cli.lm.checkpoint import load_corpora, read_checkpoint
from elmo_cli.lm.pretrain_config import PretrainConfig
from elmo_cli.model.options import Options
from elmo_cli.store.convert import convert
from elmo_cli.store.inspection import describe, kind_of_file, python_example, verify
from elmo_cli.store.log_lines import read_log
from elmo_cli.store.merge import merge_shards
from elmo_cli.store.reader import open_embeddings
from elmo_cli.store.writer import EmbeddingsWriter
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


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def _options(folder: Path, content: bytes) -> None:
    Options.from_file(_file(folder, "options.json", content))


_SIZES = Options.from_dict(seeds.OPTIONS)


def _weights(folder: Path, content: bytes) -> None:
    path = _file(folder, "weights.hdf5", content)
    probe_hdf5([path])
    read_bilm(_SIZES, path)


def _softmax(folder: Path, content: bytes) -> None:
    path = _file(folder, "softmax.hdf5", content)
    probe_hdf5([path])
    read_softmax(path, n_types=seeds.N_TYPES, projection=_SIZES.projection_dim)


def _state(folder: Path, content: bytes) -> None:
    path = _file(folder, "state.hdf5", content)
    probe_hdf5([path])
    read_state(path, _SIZES)


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
        nearest(view, [find_token(view, name) for name in names], 3)
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


def _resumed(ending: str, layout: str) -> Callable[[Path, bytes], None]:
    """The rest of a killed run, one file of which is corrupt."""

    def read(folder: Path, content: bytes) -> None:
        _clear(folder)
        for name, valid in seeds.run_files(layout).items():
            _file(folder, f"out.hdf5{name}", content if name == ending else valid)
        with EmbeddingsWriter.open(folder / "out.hdf5", seeds.spec(layout), resume=True) as writer:
            seeds.append(writer, layout)
            writer.finish({})

    return read


def _recipe(folder: Path, content: bytes) -> None:
    _file(folder, "a.txt", b"")
    PretrainConfig.read(_file(folder, "recipe.json", content))


def _checkpoint(folder: Path, content: bytes) -> None:
    read_checkpoint(_file(folder, "checkpoint.pt", content))


def _checkpoint_seeds() -> list[bytes]:
    import io

    import torch

    buffer = io.BytesIO()
    model = torch.nn.Linear(2, 3)
    torch.save({"version": 5, "run": {"batch_size": 4}, "model": model.state_dict()}, buffer)
    return [buffer.getvalue()]


def _kept_text(folder: Path, content: bytes) -> None:
    load_corpora(_file(folder, "text.npz", content), max_characters=50)


def _hdf5(
    name: str, seed: Callable[[], Sequence[bytes]], read: Callable[[Path, bytes], object]
) -> Target:
    return Target(name, seed, read, in_child=name in _IN_CHILD)


_IN_CHILD = ("embeddings", "foreign", "convert", "merge", "neighbors", "inspect-weights")


def _embeddings_seeds() -> list[bytes]:
    return [seeds.embeddings(layout) for layout in seeds.LAYOUTS]


def _foreign_seeds() -> list[bytes]:
    return [seeds.foreign(kind) for kind in ("numbers", "documents", "packed", "types")]


TARGETS = {
    target.name: target
    for target in (
        Target("options", lambda: [seeds.options()], _options),
        Target("recipe", lambda: [seeds.recipe()], _recipe),
        Target("checkpoint", _checkpoint_seeds, _checkpoint),
        Target(
            "kept-text",
            lambda: [seeds.kept_text()],
            _kept_text,
            signed=mutated_zip,
        ),
        Target(
            "log",
            lambda: [seeds.run_files("allennlp")[".part.log"]],
            _log,
            signed=mutated_log,
        ),
        _hdf5("inspect-weights", lambda: [seeds.weights(), seeds.softmax()], _inspected),
        _hdf5("weights", lambda: [seeds.weights()], _weights),
        _hdf5("softmax", lambda: [seeds.softmax()], _softmax),
        _hdf5("state", lambda: [seeds.state()], _state),
        _hdf5("embeddings", _embeddings_seeds, _embeddings),
        _hdf5("foreign", _foreign_seeds, _embeddings),
        _hdf5("convert", lambda: [*_embeddings_seeds(), *_foreign_seeds()], _converted),
        _hdf5("neighbors", lambda: [*_embeddings_seeds(), *_foreign_seeds()], _neighbors),
        _hdf5("merge", lambda: [seeds.shard()], _merged),
        Target(
            "resume-part",
            lambda: [seeds.run_files("allennlp")[".part"]],
            _resumed(".part", "allennlp"),
        ),
        Target(
            "resume-log",
            lambda: [seeds.run_files("flat-int8")[".part.log"]],
            _resumed(".part.log", "flat-int8"),
            signed=mutated_log,
        ),
    )
}
