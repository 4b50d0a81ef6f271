"""Training that continues from a checkpoint, compared with the steps that bilm-tf made."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from command_line import elmo, made, refused
from families.checkpoint_files import GOLDEN, INDEX, checkpoint

from elmo_cli.errors import WeightFileError
from elmo_cli.families.tensor_bundle import TensorBundle
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.language_model import load_language_model
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.step import TrainStep
from elmo_cli.lm.stream import StreamBatch
from elmo_cli.pretrained.load import ModelSource, locate
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.weightfile.table import LOSS_TOKENS

N_STEPS = 4


def start_step(folder: Path, vocabulary: Path, corpus: Corpus, unroll_steps: int) -> TrainStep:
    """A step that continues the training of a checkpoint."""
    settings = TrainSettings(
        batch_size=4,
        bptt=unroll_steps,
        optimizer="adagrad",
        learning_rate=0.2,
        dropout=0.0,
        max_grad_norm=0.5 * LOSS_TOKENS / unroll_steps,
        negative_samples=0,
    )
    files = locate(ModelSource(folder))
    model = load_language_model(files, vocabulary=vocabulary)
    group = ProcessGroup(device=torch.device("cpu"))
    step = TrainStep(model, corpus, settings, group)
    with files.open() as opened:
        accumulators = opened.accumulators(len(model.vocabulary))
        step.start_from(accumulators, loss_tokens=opened.loss_tokens)
    return step


@pytest.mark.reference
def test_four_steps_of_bilm_tf(reference: Path) -> None:
    """Losses, weights and accumulators, on the windows that bilm-tf read."""
    folder = reference / "tf_checkpoint" / "restart"
    vocabulary = reference / "tf_checkpoint" / "vocab.txt"
    with np.load(folder / "batches.npz") as windows:
        corpus = corpus_of_windows(Vocabulary.read(vocabulary), dict(windows))
    step = start_step(folder / "start", vocabulary, corpus, 3)
    perplexities = json.loads((folder / "expected.json").read_text())["train_perplexity_per_step"]
    state = step.new_state(4)
    with np.load(folder / "batches.npz") as windows:
        for number in range(N_STEPS):
            directions = []
            for suffix in ("", "_reverse"):
                inputs = numbers_of(corpus, windows[f"tokens_characters{suffix}_{number}"])
                targets = windows[f"next_token_id{suffix}_{number}"].astype(np.int32)
                directions.append((inputs.T, targets.T))
            batch = StreamBatch(
                inputs=np.stack([inputs for inputs, _ in directions], 1),
                targets=np.stack([targets for _, targets in directions], 1),
                epoch=0,
                index=number,
                n_batches=N_STEPS,
            )
            loss, state = step(batch, state, 0.2)
            assert math.exp(loss) == pytest.approx(perplexities[number], rel=1e-6)
    files = locate(ModelSource(folder / "end", folder / "start" / "options.json"))
    with files.open() as end:
        for name, array in end.parameters():
            found = step.model.bilm.state_dict()[name]
            np.testing.assert_allclose(found, array, rtol=0, atol=1e-6)
        sums = dict(end.accumulators(len(step.model.vocabulary)))
    scale = (LOSS_TOKENS / 3) ** 2
    saved = step.state_dict()["optimizer"]["state"]
    for number, (name, _) in enumerate(step._modules.named_parameters()):
        np.testing.assert_allclose(saved[number]["sum"] / scale, sums[name], rtol=1e-6, atol=1e-6)


def corpus_of_windows(vocabulary: Vocabulary, windows: dict[str, np.ndarray]) -> Corpus:
    """The types of a vocabulary, which are targets, then all that is read, by its characters."""
    n_characters = windows["tokens_characters_0"].shape[-1]
    read = [rows for name, rows in windows.items() if name.startswith("tokens_characters")]
    rows = np.unique(np.concatenate([row.reshape(-1, n_characters) for row in read]), axis=0)
    targets = np.zeros((len(vocabulary), n_characters), np.int16)
    return Corpus(
        tokens=np.zeros(0, np.int32),
        starts=np.zeros(1, np.int64),
        types=(*vocabulary.types, *(f"row {number}" for number in range(len(rows)))),
        characters=np.concatenate([targets, rows.astype(np.int16)]),
        documents=np.zeros(1, np.int64),
    )


def numbers_of(corpus: Corpus, characters: np.ndarray) -> np.ndarray:
    """The numbers of types, given their characters: (stream, token, char) to (stream, token)."""
    is_equal = (characters[:, :, np.newaxis] == corpus.characters).all(-1)
    return is_equal.argmax(-1).astype(np.int32)


@pytest.mark.slow
def test_finetuning_continues_with_the_accumulators(converted: Path, tmp_path: Path) -> None:
    """It does so if the optimizer is the same, and the softmax layer is that of the checkpoint.

    The converted folder gives the same files as the checkpoint, byte for byte.
    """
    folder = checkpoint("full", tmp_path / "full")
    bundle = TensorBundle(folder / INDEX)
    text = tmp_path / "text.txt"
    lines = (GOLDEN / "heldout.txt").read_text("utf-8").splitlines()
    text.write_text("".join(f"{line} {number}\n" for number in range(6) for line in lines))
    words = ["finetune", "--domain", text, "-m", folder, "--max-steps", "1"]
    words += ["--batch-size", "1", "--device", "cpu"]
    note = "Adagrad continues with the accumulators of the model"
    done = made(*words, "-o", tmp_path / "a", "--optimizer", "adagrad")
    assert note in done.err
    saved = torch.load(tmp_path / "a" / "checkpoint.pt", weights_only=True)
    found = saved["optimizer"]["state"][0]["sum"].numpy()
    start = bundle.of_any_size().read("lm/char_embed/Adagrad")
    scale = (LOSS_TOKENS / 3) ** 2  # the checkpoint was trained on windows of 3 tokens
    assert (found >= start * scale * (1 - 1e-6)).all()
    assert note not in made(*words, "-o", tmp_path / "b", "--optimizer", "adamw").err
    words[words.index("-m") + 1] = converted / "copy"
    assert note in made(*words, "-o", tmp_path / "c", "--optimizer", "adagrad").err
    for name in ("weights.hdf5", "softmax.hdf5"):
        assert (tmp_path / "c" / name).read_bytes() == (tmp_path / "a" / name).read_bytes()


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `full`, a checkpoint, and `copy`, the model folder that it is converted to."""
    folder = tmp_path_factory.mktemp("restart")
    full = checkpoint("full", folder / "full")
    words = ["models", "convert", full, "-o", folder / "copy", "--optimizer-state"]
    assert "vocabulary, state of Adagrad\n" in made(*words).err
    return folder


def first_step(folder: Path, corpus: Corpus) -> dict[str, torch.Tensor]:
    """The weights and accumulators after one step of training that continues from a folder."""
    step = start_step(folder, folder / "vocab.txt", corpus, 3)
    rng = np.random.default_rng(0)
    n_types = len(step.model.vocabulary)
    batch = StreamBatch(
        inputs=rng.integers(3, n_types, (3, 2, 4)).astype(np.int32),
        targets=rng.integers(3, n_types, (3, 2, 4)).astype(np.int32),
        epoch=0,
        index=0,
        n_batches=1,
    )
    step(batch, step.new_state(4), 0.2)
    state = step.state_dict()["optimizer"]["state"]
    sums = {f"sum {number}": values["sum"] for number, values in state.items()}
    return {**step.model.bilm.state_dict(), **step.model.softmax.state_dict(), **sums}


def test_training_continues_from_a_converted_folder_as_from_the_checkpoint(
    converted: Path, tmp_path: Path
) -> None:
    """Also if it is converted twice: the same weights and accumulators, bit for bit."""
    second = tmp_path / "second"
    made("models", "convert", converted / "copy", "-o", second, "--optimizer-state", "-q")
    types = Vocabulary.read(GOLDEN / "vocab.txt").types
    corpus = Corpus.read([types[3:]])
    expected = first_step(converted / "full", corpus)
    for folder in (converted / "copy", second):
        found = first_step(folder, corpus)
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            assert torch.equal(found[name], values), name


def test_the_state_of_the_optimizer_is_no_other_part_of_the_model(
    converted: Path, tmp_path: Path
) -> None:
    """Its file is not read as weights, and not used with other weights."""
    folder = shutil.copytree(converted / "copy", tmp_path / "copy")
    state = folder / "optimizer.hdf5"
    facts = json.loads(made("inspect", folder, "--json", "--verify").out)
    assert (facts["optimizer"], facts["problems"]) == ("adagrad", [])
    assert state.name in [file["name"] for file in facts["files"]]
    refused(elmo("models", "show", state), 1, f"{state}: no char_embed in it", "weights hold")
    with h5py.File(state, "r+") as file:
        file["adagrad/softmax/b"][0] += 1
    refused(elmo("inspect", folder, "--verify"), 1, f"{state}: its sha256 is not", "parts.json")
    again = ["models", "convert", folder, "-o", tmp_path / "again"]
    refused(elmo(*again, "--optimizer-state"), 1, f"{state}: its sha256 is not", "parts.json")
    state.unlink()
    assert not (tmp_path / "again").exists()
    message = f"{folder / 'weights.hdf5'}: has no accumulators of Adagrad"
    refused(elmo(*again, "--optimizer-state"), 1, message, "leave out `--optimizer-state`")
    assert not (tmp_path / "again").exists()


def without_softmax(group: h5py.Group) -> None:
    del group["softmax"]


def of_fewer_types(group: h5py.Group) -> None:
    bias = group["softmax/b"][1:]
    del group["softmax/b"]
    group["softmax/b"] = bias


def of_other_sizes(group: h5py.Group) -> None:
    del group["char_embed"]
    group["char_embed"] = np.ones((261, 3), np.float32)


def not_finite(group: h5py.Group) -> None:
    group["softmax/b"][0] = np.nan


@pytest.mark.parametrize("damage", [without_softmax, of_fewer_types, of_other_sizes, not_finite])
def test_accumulators_that_do_not_fit_the_model_are_refused(
    damage: Callable[[h5py.Group], None], converted: Path, tmp_path: Path
) -> None:
    """A bias of another size would otherwise be stretched to that of the model."""
    folder = shutil.copytree(converted / "copy", tmp_path / "copy")
    with h5py.File(folder / "optimizer.hdf5", "r+") as file:
        file["adagrad/softmax/b"][1] = 1e7  # sums may be larger than weights
    (folder / "parts.json").unlink()
    files = locate(folder)
    n_types = len(Vocabulary.read(folder / "vocab.txt"))
    with files.open() as model:
        assert len(list(model.accumulators(n_types))) > 2
    with h5py.File(folder / "optimizer.hdf5", "r+") as file:
        damage(file["adagrad"])
    with files.open() as model, pytest.raises(WeightFileError) as caught:
        list(model.accumulators(n_types))
    assert caught.value.where == str(folder / "optimizer.hdf5")
