"""Words, characters and layers of sentences as padded tensors, and the vectors of tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from elmo_cli.tasks.embeddings_folder import BiLMRecord
from elmo_cli.tasks.inputs import Inputs, TokenRepresentation, character_ids
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import load_task
from elmo_cli.tasks.trained_task import TrainedTask
from elmo_cli.tasks.word_vectors import WordVectors

SENTENCES = [("The", "cat", "sat"), ("Paris",)]


def vectors_of(sentences: list[tuple[str, ...]], n_layers: int = 3) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.normal(size=(n_layers, len(s), 4)).astype("f2") for s in sentences]


def test_a_batch_is_padded() -> None:
    vectors = WordVectors(["the", "cat", "Paris"], np.array([[1, 2], [3, 4], [5, 6]]))
    layers = vectors_of(SENTENCES)
    inputs = Inputs(SENTENCES, layers.__getitem__, vectors)
    batch = inputs.batch([1, 0])
    assert batch.lengths.tolist() == [1, 3]
    assert batch.mask.tolist() == [[True, False, False], [True, True, True]]
    assert batch.words.tolist() == [[4, 0, 0], [2, 3, 1]]
    assert batch.types.tolist() == [[1, 0, 0], [2, 3, 4]]
    assert batch.characters[3].tolist()[:5] == character_ids("cat")
    assert batch.characters[0].count_nonzero() == 0
    assert character_ids("a") == [257, ord("a") + 1, 258]
    assert len(character_ids("é" * 50)) == 20
    assert character_ids("abcdefghijklmnopqrstuvwxyz")[1:-1] == [n + 98 for n in range(18)]
    assert batch.layers is not None
    assert torch.equal(batch.layers[:, 1], torch.from_numpy(layers[0]).float())
    assert batch.layers[:, 0, 1:].count_nonzero() == 0


def test_character_ids_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def counted(token: str) -> list[int]:
        computed.append(token)
        return character_ids(token)

    monkeypatch.setattr("elmo_cli.tasks.inputs.character_ids", counted)
    inputs = Inputs(SENTENCES, None, None)
    first = inputs.batch([0, 1])
    again = inputs.batch([1, 0])
    assert computed == ["The", "cat", "sat", "Paris"]
    assert torch.equal(again.characters[again.types[1]], first.characters[first.types[0]])


def test_the_sum_of_layers_is_that_of_equation_1() -> None:
    settings = TaskSettings(elmo_projection=0, elmo_l2=0.5, char_filters=0)
    representation = TokenRepresentation(settings, None, 3, 4).eval()
    mix = representation.mixes["input"]
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([0.0, 1.0, -1.0]))
        mix.gamma.fill_(2.0)
    layers = vectors_of(SENTENCES)
    weights = np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum()
    expected = 2.0 * np.tensordot(weights, layers[0].astype("f8"), 1)
    vectors = representation(Inputs(SENTENCES, layers.__getitem__, None).batch([0])).detach()
    assert np.allclose(vectors[0], expected, atol=1e-6)
    logged = representation.layer_weights()["input"]
    assert logged == {"weights": pytest.approx(weights), "gamma": 2.0}
    assert representation.penalty().item() == pytest.approx(0.5 * 2.0)


@pytest.mark.parametrize("width", [1, 3, 4])
def test_the_character_cnn_is_a_convolution(width: int) -> None:
    settings = TaskSettings(elmo_layers="none", char_filters=5, char_width=width)
    representation = TokenRepresentation(settings, None, 0, 0).eval()
    batch = Inputs(SENTENCES, None, None).batch([0])
    assert representation.filters is not None
    assert representation.characters is not None
    embedded = representation.characters(batch.characters[batch.types[0]])
    kernel = representation.filters.weight.view(5, settings.char_dim, width)
    x = embedded.transpose(1, 2)
    bias = representation.filters.bias
    convolved = torch.conv1d(x, kernel, bias, padding=width // 2)
    # An even width convolves once more.
    expected = torch.relu(convolved[:, :, : x.shape[2]].amax(2))
    assert torch.allclose(representation(batch)[0], expected, atol=1e-6)


@pytest.mark.parametrize("is_trained", [True, False])
def test_word_vectors_are_trained_or_fixed(is_trained: bool) -> None:
    settings = TaskSettings(elmo_layers="none", train_word_vectors=is_trained)
    words = TokenRepresentation(settings, torch.ones(9, 2), 0, 0).words
    assert words is not None
    assert words.weight.requires_grad == is_trained


@pytest.mark.parametrize(
    ("where", "places"),
    [("input", ["input"]), ("output", ["output"]), ("both", ["input", "output"])],
)
def test_elmo_is_read_where_and_how_the_settings_say(where: str, places: list[str]) -> None:
    settings = TaskSettings(
        char_filters=4,
        dropout=0.1,
        elmo_dropout=0.3,
        elmo_l2=0.5,
        elmo_layer_norm=True,
        elmo_projection=5,
        elmo_where=where,
    )
    representation = TokenRepresentation(settings, None, 3, 6)
    assert list(representation.mixes) == places
    assert representation.dim == 4 + 5 * ("input" in places)
    assert representation.output_dim == 5 * ("output" in places)
    for mix in representation.mixes.values():
        assert mix.layer_norm
        nn.init.ones_(mix.weights)
    assert representation.penalty().item() == pytest.approx(0.5 * 3 * len(places))
    mixed_layers = [representation.input_mix, representation.output_mix]
    assert {mixed.dropout.p for mixed in mixed_layers if mixed is not None} == {0.3}
    assert representation.dropout.p == 0.1


@pytest.mark.parametrize(("layers", "n_weights"), [("all", 3), ("last", 1), ("type", 1)])
def test_a_model_of_one_layer_has_one_weight(layers: str, n_weights: int) -> None:
    bilm = BiLMRecord(source="x", sha256="", state="zero", n_layers=3, dim=6)
    task = load_task("classification", {"elmo.layers": layers, "hidden": 4})
    trained = TrainedTask(task, ["a", "b"], None, bilm)
    [mix] = trained.model.representation.layer_weights().values()
    assert len(mix["weights"]) == n_weights
