"""The bridge to AllenNLP: state, files, errors and training. Recorded outputs have their module."""

from __future__ import annotations

import copy
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from allennlp_calls import BATCHES, IDS, Files, close, representation
from make_weights import MODELS, SHAPES, write_model

from elmo_cli.embed.embedder import Embedder
from elmo_cli.errors import DeviceError, ModelError, SettingError, UsageError
from elmo_cli.interop.allennlp import (
    ConfigurationError,
    Elmo,
    ElmoEmbedder,
    ElmoTokenEmbedder,
    ScalarMix,
    _ElmoBiLm,
    batch_to_ids,
)
from elmo_cli.model.bilm import BiLM
from elmo_cli.pretrained.load import ModelSource, load

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
HOSTS = (
    "https://allennlp.s3.amazonaws.com/models/elmo",
    "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo",
    "http://allennlp.s3.amazonaws.com/models/elmo",
)
MEDIUM = "2x2048_256_2048cnn_1xhighway"


@pytest.fixture
def other_files(tmp_path: Path) -> Files:
    """A model of the same sizes with other weights."""
    folder = write_model(tmp_path / "other", MODELS["tiny"], "other")
    return folder / "options.json", folder / "weights.hdf5"


# -- values and state -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_model_has_the_vectors_of_our_embedder(shape: str, tmp_path: Path) -> None:
    """With a carried state, by the fast engine and under autograd."""
    folder = write_model(tmp_path / "model", SHAPES[shape], shape)
    source = ModelSource(options=folder / "options.json", weights=folder / "weights.hdf5")
    embedder = Embedder(load(options=source.options, weights=source.weights), state="carry")
    own = ElmoEmbedder(folder / "options.json", folder / "weights.hdf5")
    trained = _ElmoBiLm(folder / "options.json", folder / "weights.hdf5", requires_grad=True)
    state = None
    for batch in BATCHES:
        expected, state = embedder.embed_batch(batch, state)
        found = own.embed_batch(batch)
        for array, expected_array in zip(found, expected, strict=True):
            assert array.dtype == np.float32
            close(array, expected_array)
        if batch == [[]]:
            continue
        activations = torch.stack(trained(batch_to_ids(batch))["activations"]).detach()
        for row, expected_array in enumerate(expected):
            close(activations[:, row, 1 : 1 + expected_array.shape[1]], expected_array)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_zero_state_does_not_depend_on_batches_before(
    requires_grad: bool, files: Files, tiny_bilm: BiLM
) -> None:
    elmo = Elmo(*files, 1, requires_grad, state="zero", dropout=0)
    first = representation(elmo, IDS)
    representation(elmo, batch_to_ids(BATCHES[2]))
    close(representation(elmo, IDS), first)
    assert elmo._elmo_lstm._elmo_lstm._states is None
    close(first[2], Embedder(tiny_bilm).embed(BATCHES[0][2]).mean(0))
    embedder = ElmoEmbedder(*files, state="zero")
    once = embedder.embed_sentence(["a", "cat"])
    close(embedder.embed_sentence(["a", "cat"]), once)
    with pytest.raises(SettingError, match="`state='warm'`"):
        ElmoEmbedder(*files, state="warm")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo))])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_copies_keep_the_state(
    requires_grad: bool, copied: Callable[[Elmo], Elmo], files: Files
) -> None:
    """It is not in `state_dict`."""
    elmo = Elmo(*files, 1, requires_grad, dropout=0)
    first = representation(elmo, IDS)
    second = copied(elmo)
    fresh = Elmo(*files, 1, requires_grad, dropout=0)
    fresh.load_state_dict(elmo.state_dict())
    expected = representation(elmo, IDS)
    assert (expected - first).abs().max() > 0.01
    close(representation(second, IDS), expected)
    close(representation(fresh, IDS), first)
    assert len(second.state_dict()) == len(elmo.state_dict())


def test_the_state_is_carried_in_training_and_evaluation_alike(files: Files) -> None:
    evaluated = Elmo(*files, 1, dropout=0).eval()
    trained = Elmo(*files, 1, dropout=0).train()
    for batch in (BATCHES[0], BATCHES[1], BATCHES[2]):
        ids = batch_to_ids(batch)
        close(representation(trained, ids), representation(evaluated, ids))


def test_the_state_can_be_reset(files: Files) -> None:
    """By AllenNLP's method, all of it or single rows; or not be used at all."""
    elmo = Elmo(*files, 1, dropout=0)
    first = representation(elmo, IDS)
    lstm = elmo._elmo_lstm._elmo_lstm
    lstm.reset_states()
    close(representation(elmo, IDS), first)
    lstm.reset_states(torch.tensor([0, 1, 0]))
    second = representation(elmo, IDS)
    close(second[1], first[1])
    assert (second[0] - first[0]).abs().max() > 0.01
    with pytest.raises(ValueError, match=r"a mask of shape \(2,\) for a state of 3 rows"):
        lstm.reset_states(torch.ones(2))
    lstm.stateful = False
    close(representation(elmo, IDS), first)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_inference_mode_leaves_can_be_trained_on(requires_grad: bool, files: Files) -> None:
    elmo = Elmo(*files, 1, requires_grad, dropout=0)
    with torch.inference_mode():
        elmo(IDS)
    elmo(IDS)["elmo_representations"][0].sum().backward()
    gamma = elmo.get_submodule("scalar_mix_0").get_parameter("gamma")
    assert gamma.grad is not None


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", HOSTS)
def test_urls_of_published_models(
    host: str, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They select the model in the cache; nothing is downloaded."""
    monkeypatch.setenv("ELMO_HOME", str(tmp_path))
    urls = [f"{host}/{MEDIUM}/elmo_{MEDIUM}_{end}" for end in ("options.json", "weights.hdf5")]
    with pytest.raises(ModelError, match="`medium` is not on this machine") as raised:
        Elmo(*urls, 1)
    assert "`elmo models pull medium`" in raised.value.hint
    (tmp_path / "models" / "medium").mkdir(parents=True)
    for path in files:
        shutil.copy(path, tmp_path / "models" / "medium")
    expected = representation(Elmo(*files, 1, dropout=0), IDS)
    close(representation(Elmo(*urls, 1, dropout=0), IDS), expected)
    close(representation(Elmo(None, urls[1], 1, dropout=0), IDS), expected)
    with pytest.raises(ModelError, match="not the URL of a published model"):
        Elmo(urls[0], "https://example.org/weights.hdf5", 1)


def test_files_that_are_left_out(files: Files) -> None:
    expected = representation(Elmo(*files, 1, dropout=0), IDS)
    close(representation(Elmo(None, files[1], 1, dropout=0), IDS), expected)
    with pytest.raises(UsageError, match="an options file without a weight file"):
        Elmo(files[0], None, 1)
    assert ElmoEmbedder().elmo_bilm.model_name == "elmo-en"


def test_a_model_of_unicode_characters_is_refused() -> None:
    folder = GOLDEN / "elmoformanylangs" / "cnn-char"
    with pytest.raises(UsageError, match="reads Unicode characters, not bytes"):
        Elmo(None, folder, 1)


# -- errors ---------------------------------------------------------------------------------------


def test_batches_without_tokens(files: Files) -> None:
    """They leave the state as it is."""
    embedder = ElmoEmbedder(*files)
    expected = ElmoEmbedder(*files).embed_sentence(["a", "cat"])
    assert embedder.embed_batch([]) == []
    assert list(embedder.embed_sentences([])) == []
    (array,) = embedder.embed_batch([[]])
    assert (array.shape, array.dtype) == ((3, 0, 16), np.float32)
    assert embedder.embed_sentence([]).shape == (3, 0, 16)
    for batch in ([[], []], [()], ([],)):
        with pytest.raises(IndexError, match="no sentence has a token"):
            embedder.embed_batch(batch)
    close(embedder.embed_sentence(["a", "cat"]), expected)
    with pytest.raises(IndexError, match="no sentences"):
        batch_to_ids([])
    assert batch_to_ids([[]]).shape == (1, 0)
    assert not Elmo(*files, 1)(torch.zeros(2, 3, 50, dtype=torch.int64))["mask"].any()


def test_tokens_and_ids_that_are_refused(files: Files) -> None:
    elmo = Elmo(*files, 1)
    with pytest.raises(ConfigurationError, match="a token is None"):
        batch_to_ids([["a", None]])
    with pytest.raises(AttributeError):
        batch_to_ids([["a", 5]])
    with pytest.raises(IndexError, match="no sentence has a token"):
        elmo(batch_to_ids([[]]))
    with pytest.raises(ValueError, match="a row of zeros"):
        elmo(torch.cat([IDS[:1, :1], IDS[:1, :1] * 0, IDS[:1, :1]], 1))
    with pytest.raises(ValueError, match=r"\(3, 4, 49\), not \(batch, token, 50\)"):
        elmo(IDS[:, :, :49])
    with pytest.raises(IndexError, match="ids from 0 to 262"):
        elmo(torch.where(IDS == 261, 262, IDS))


def test_arguments_that_are_refused(files: Files) -> None:
    with pytest.raises(ConfigurationError, match="a module, and files"):
        Elmo(*files, 1, module=_ElmoBiLm(*files))
    with pytest.raises(ConfigurationError, match="no representations"):
        Elmo(*files, 0)(IDS)
    with pytest.raises(ConfigurationError, match="2 initial scalar parameters for 3 layers"):
        Elmo(*files, 1, scalar_mix_parameters=[1, 0])
    with pytest.raises(DeviceError, match="`cuda_device=99`: ") as caught:
        ElmoEmbedder(*files, cuda_device=99)
    assert caught.value.hint == "`cuda_device=-1` is the CPU"
    layers = [torch.ones(1, 2, 4)] * 2
    with pytest.raises(ConfigurationError, match="2 tensors for a mix of 3"):
        ScalarMix(3)(layers)
    normalizing = ScalarMix(2, do_layer_norm=True)
    with pytest.raises(AttributeError, match="needs a mask"):
        normalizing(layers)
    assert normalizing(layers, torch.zeros(1, 2)).isnan().all()
    assert not normalizing(layers, torch.ones(1, 2)).any()  # equal values have no variance
    with pytest.warns(UserWarning, match="word_inputs without vocab_to_cache are ignored"):
        Elmo(*files, 1)(IDS, torch.ones(3, 4, dtype=torch.int64))
    for number in (2, -1):
        with pytest.raises(IndexError, match=f"words {number} to {number}, of a list of 2"):
            Elmo(*files, 1, vocab_to_cache=["x", "a"])(IDS, torch.full((3, 4), number))


def test_a_token_may_have_an_id_of_padding(files: Files) -> None:
    """As in AllenNLP, a token is padding if all of its ids are."""
    ids = IDS.clone()
    ids[:, :, 30] = 0
    expected = Elmo(*files, 1)(IDS)["mask"]
    assert torch.equal(Elmo(*files, 1)(ids * (IDS > 0))["mask"], expected)


# -- training -------------------------------------------------------------------------------------


def test_vectors_follow_the_weights(files: Files, other_files: Files) -> None:
    """After a step of an optimizer, and after another model's weights were loaded."""
    elmo = Elmo(*files, 1, requires_grad=True, dropout=0, state="zero")
    with torch.no_grad():
        before = representation(elmo, IDS)
    elmo(IDS)["elmo_representations"][0].square().sum().backward()
    with torch.no_grad():
        for parameter in elmo.parameters():
            if parameter.grad is not None:
                parameter -= 1e-3 * parameter.grad
    with torch.no_grad():
        after = representation(elmo, IDS)
    close(representation(elmo.requires_grad_(False), IDS), after)
    assert (after - before).abs().max() > 1e-3
    for parameter in elmo.requires_grad_(True)._elmo_lstm.parameters():
        parameter.data.mul_(0)  # as a moving average does
    with torch.no_grad():
        assert not representation(elmo, IDS).any()
    frozen = Elmo(*files, 1, dropout=0, state="zero")
    close(representation(frozen, IDS), before)
    other = Elmo(*other_files, 1, dropout=0, state="zero")
    frozen.load_state_dict(other.state_dict())
    close(representation(frozen, IDS), representation(other, IDS))


def test_what_is_trained(files: Files) -> None:
    def trained(elmo: Elmo) -> int:
        return sum(parameter.numel() for parameter in elmo.parameters() if parameter.requires_grad)

    assert trained(Elmo(*files, 2)) == 2 * 4
    assert trained(Elmo(*files, 2, scalar_mix_parameters=[1, 0, 2])) == 0
    everything = Elmo(*files, 2, requires_grad=True)
    assert trained(everything) == sum(parameter.numel() for parameter in everything.parameters())
    with pytest.warns(DeprecationWarning, match="`finetune` of Elmo is `requires_grad`"):
        assert trained(Elmo(*files, 1, finetune=True)) == trained(everything) - 4
    with pytest.warns(DeprecationWarning, match="`finetune`"):
        assert trained(Elmo(*files, 1, finetune=False)) == 4


@pytest.mark.parametrize("requires_grad", [False, True])
def test_float64(requires_grad: bool, files: Files) -> None:
    elmo = Elmo(*files, 1, requires_grad, dropout=0)
    doubled = copy.deepcopy(elmo).double()
    for batch in BATCHES[:3]:
        ids = batch_to_ids(batch)
        found = representation(doubled, ids)
        assert found.dtype == torch.float64
        close(found, representation(elmo, ids))


def test_dropout_is_of_training(files: Files) -> None:
    torch.manual_seed(1)
    elmo = Elmo(*files, 1, dropout=0.5, state="zero")
    full = representation(elmo.eval(), IDS)
    dropped = representation(elmo.train(), IDS)
    is_kept = dropped != 0
    assert 0.2 < is_kept.float().mean() < 0.7
    close(dropped[is_kept], 2 * full[is_kept])


# -- other classes --------------------------------------------------------------------------------


def test_a_module_in_place_of_the_bilm(files: Files) -> None:
    elmo = Elmo(None, None, 1, dropout=0, module=_ElmoBiLm(*files))
    close(representation(elmo, IDS), representation(Elmo(*files, 1, dropout=0), IDS))
    assert elmo.get_output_dim() == 16


def test_the_token_embedder(files: Files) -> None:
    embedder = ElmoTokenEmbedder(*files, dropout=0).eval()
    assert embedder.get_output_dim() == 16
    close(embedder(IDS).detach(), representation(Elmo(*files, 1, dropout=0), IDS))
    projecting = ElmoTokenEmbedder(*files, projection_dim=5)
    assert projecting.get_output_dim() == 5
    assert projecting(IDS.unsqueeze(1)).shape == (3, 1, 4, 5)


def test_the_indexer(files: Files) -> None:
    indexer = ElmoEmbedder(*files).indexer
    assert indexer.tokens_to_indices(["a", "cat"], None, "x") == {
        "x": batch_to_ids([["a", "cat"]])[0].tolist()
    }


def test_the_indexer_reads_the_text_of_tokens(files: Files) -> None:
    """Such as those of AllenNLP and spaCy."""
    tokens = [SimpleNamespace(text="a"), SimpleNamespace(text="cat")]
    found = ElmoEmbedder(*files).indexer.tokens_to_indices(tokens)
    assert found == {"character_ids": batch_to_ids([["a", "cat"]])[0].tolist()}
