"""The bridge to AllenNLP against outputs that AllenNLP's own classes computed."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from allennlp_recording import (
    CASES,
    Recording,
    call_elmo,
    check_gradients,
    close_to_recorded,
    loss_of,
    stacked_outputs,
    word_ids,
)
from make_weights import write_model

from elmo_cli.interop.allennlp import (
    Elmo,
    ElmoEmbedder,
    ScalarMix,
    _ElmoBiLm,
    batch_to_ids,
    remove_sentence_boundaries,
)

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "allennlp_api"
ARCHIVE = GOLDEN.parent / "allennlp_archive"


@pytest.fixture(
    params=[
        "part, tiny",
        *(
            pytest.param(f"all, {model}", marks=pytest.mark.reference)
            for model in ("tiny", "odd", "odd_skip")
        ),
    ]
)
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Recording:
    """What is in the repository, and all that was recorded."""
    extent, model = request.param.split(", ")
    folder = GOLDEN
    if extent == "all":
        folder = request.getfixturevalue("reference") / "allennlp_api"
    return Recording.of(folder, model, tmp_path)


@pytest.fixture(params=["part", pytest.param("all", marks=pytest.mark.reference)])
def units(request: pytest.FixtureRequest) -> Path:
    """The folder with what was recorded of functions."""
    if request.param == "part":
        return GOLDEN
    folder: Path = request.getfixturevalue("reference")
    return folder / "allennlp_api"


def concatenated(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays, axis=1)


def test_embed_batch(recording: Recording) -> None:
    """30 batches of changing size, with empty sentences, and the state that each leaves."""
    recorded = recording.arrays("embedder")
    embedder = ElmoEmbedder(*recording.files)
    names = [name for name in recorded if name.startswith("embed_batch_")]
    assert len(names) >= 12
    for name, batch in zip(names, recording.inputs["embed_batch"], strict=False):
        arrays = embedder.embed_batch(batch)
        assert [array.shape[1] for array in arrays] == [len(sentence) for sentence in batch]
        close_to_recorded(concatenated(arrays), recorded[name])


def test_other_methods_of_the_embedder(recording: Recording) -> None:
    recorded = recording.arrays("embedder")
    inputs = recording.inputs
    embedder = ElmoEmbedder(*recording.files)
    for number in range(2):
        array = embedder.embed_sentence(inputs["embed_sentence_twice"])
        close_to_recorded(array, recorded[f"embed_sentence_{number}"])
    embedder = ElmoEmbedder(*recording.files)
    stream = embedder.embed_sentences(iter(inputs["embed_sentences"]["sentences"]), batch_size=3)
    close_to_recorded(concatenated(list(stream)), recorded["embed_sentences"])
    embedder = ElmoEmbedder(*recording.files)
    close_to_recorded(concatenated(embedder.embed_batch(inputs["strings"])), recorded["strings"])
    embedder = ElmoEmbedder(*recording.files)
    for number, batch in enumerate(inputs["batch_to_embeddings"]):
        layers, mask = embedder.batch_to_embeddings(batch)
        close_to_recorded(layers, recorded[f"batch_to_embeddings_{number}"])
        assert mask.dtype == torch.int64
        np.testing.assert_array_equal(mask, recorded[f"batch_to_embeddings_{number}_mask"])


@pytest.mark.parametrize("requires_grad", [False, True])
def test_activations(requires_grad: bool, recording: Recording) -> None:
    """With boundaries, by the fast engine and under autograd."""
    recorded = recording.arrays("embedder")
    bilm = _ElmoBiLm(*recording.files, requires_grad=requires_grad)
    for number, batch in enumerate(recording.inputs["bilm_calls"]):
        output = bilm(batch_to_ids(batch))
        activations = torch.stack(output["activations"])
        assert activations.requires_grad == requires_grad
        close_to_recorded(activations.detach(), recorded[f"bilm_{number}"])
        np.testing.assert_array_equal(output["mask"], recorded[f"bilm_{number}_mask"])


@pytest.mark.parametrize("case", CASES)
def test_elmo(case: str, recording: Recording) -> None:
    """Values, masks, losses and gradients of six calls, in training and evaluation."""
    recorded = recording.arrays("elmo")
    elmo = recording.elmo(case)
    shown = {"requires_grad": "mix_loaded", "requires_grad_layer_norm": "layer_norm"}
    name = shown.get(case, case)
    gradients = recording.gradients()[case]
    for number, call in enumerate(recording.inputs["elmo_calls"]):
        elmo.zero_grad()
        representations, mask = call_elmo(recording, elmo, case, call)
        expected = recorded[f"{name}_{number}"]
        for found in representations.detach():
            close_to_recorded(found, expected[0])
            expected = expected[1:] if len(expected) > 1 else expected
        np.testing.assert_array_equal(mask, recorded[f"{name}_{number}_mask"])
        loss = loss_of(representations, mask)
        if number >= len(gradients):  # not in the repository
            continue
        assert loss.item() == pytest.approx(gradients[number]["loss"], rel=1e-6)
        if case != "mix_parameters":
            loss.backward()
        check_gradients(elmo, gradients[number]["gradients"], loss.item())


def test_other_shapes_of_input(recording: Recording) -> None:
    recorded = recording.arrays("elmo")
    inputs = recording.inputs

    def check(name: str, elmo: Elmo, *tensors: torch.Tensor | None) -> None:
        representations, mask = stacked_outputs(elmo.eval(), *tensors)
        close_to_recorded(representations.detach(), recorded[name])
        np.testing.assert_array_equal(mask, recorded[f"{name}_mask"])

    pairs = inputs["elmo_four_axes"]
    ids = batch_to_ids([sentence for pair in pairs for sentence in pair])
    check("four_axes", recording.elmo("mix_loaded"), ids.view(3, 2, -1, 50))
    extra = inputs["elmo_extra_padding"]
    ids = batch_to_ids(extra["batch"])
    ids = torch.nn.functional.pad(ids, (0, 0, 0, extra["columns_of_zeros_added"]))
    check("extra_padding", recording.elmo("mix_loaded"), ids)
    batch = inputs["vocab_first_word_batch"]
    words = word_ids(batch, inputs["vocab_first_word"])
    elmo = recording.elmo("mix_loaded", vocab_to_cache=inputs["vocab_first_word"])
    check("vocab_first_word", elmo, batch_to_ids(batch), words)


def test_names_shapes_and_order_of_parameters(recording: Recording) -> None:
    """Of `state_dict`, which old checkpoints have, and of the numbers in those of an optimizer."""
    settings = {"Elmo_default": {}, "Elmo_requires_grad": {"requires_grad": True}}
    kind = recording.model.partition("_")[0]
    recorded = json.loads((recording.folder / "state_dict.json").read_text())[kind]
    for name, expected in recorded.items():
        if name == "_ElmoBiLm":
            module: torch.nn.Module = ElmoEmbedder(*recording.files).elmo_bilm
        else:
            case = name.removeprefix("Elmo_")
            module = recording.elmo(case, **settings.get(name, {}))
        found = {}
        parameters = dict(module.named_parameters())
        for parameter_name, tensor in module.state_dict().items():
            is_trainable = parameters[parameter_name].requires_grad
            found[parameter_name] = {"shape": list(tensor.shape), "trainable": is_trainable}
        assert found == expected
        assert list(found) == list(expected), name


def test_batch_to_ids(units: Path) -> None:
    batch = json.loads((units / "inputs.json").read_text("utf-8"))["odd_tokens"]
    ids = batch_to_ids(batch)
    assert ids.dtype == torch.int64
    with np.load(units / "units.npz") as recorded:
        np.testing.assert_array_equal(ids, recorded["batch_to_ids"])


def test_scalar_mix(units: Path) -> None:
    settings = json.loads((units / "units.json").read_text())["scalar_mix"]
    with np.load(units / "units.npz") as file:
        recorded = dict(file)
    for name, setting in settings.items():
        mix = ScalarMix(
            setting["mixture_size"],
            do_layer_norm=setting.get("do_layer_norm", False),
            initial_scalar_parameters=setting["initial_scalar_parameters"],
            trainable=setting.get("trainable", True),
        )
        if setting["gamma_set_to"] is not None:
            with torch.no_grad():
                mix.gamma.fill_(setting["gamma_set_to"])
        arrays = recorded[setting["tensors"]]
        tensors = [torch.from_numpy(array).requires_grad_() for array in arrays]
        mask = None
        if setting["mask"] == "ones":
            mask = torch.ones(arrays.shape[1:-1], dtype=torch.int64)
        elif setting["mask"] is not None:
            mask = torch.from_numpy(recorded[setting["mask"]]).long()
        mixed = mix(tensors, mask)
        close_to_recorded(mixed.detach(), recorded[f"mix_{name}"])
        loss = mixed.square().sum() / 2
        loss.backward()
        tolerance = 2e-6 * loss.item()
        gradients = np.stack([np.asarray(tensor.grad) for tensor in tensors])
        expected = recorded[f"mix_{name}_tensor_gradients"]
        np.testing.assert_allclose(gradients, expected, rtol=0, atol=tolerance)
        for parameter_name, gradient in setting["gradient_of_half_sum_of_squares"].items():
            found = mix.get_parameter(parameter_name).grad
            if gradient is None:
                assert found is None
            else:
                assert found is not None
                np.testing.assert_allclose(found.item(), gradient, rtol=0, atol=tolerance)


def test_remove_sentence_boundaries(units: Path) -> None:
    with np.load(units / "units.npz") as recorded:
        tensor = torch.from_numpy(recorded["rsb_tensor"])
        mask = torch.from_numpy(recorded["rsb_mask"]).long()
        inner, inner_mask = remove_sentence_boundaries(tensor, mask)
        assert inner_mask.dtype == torch.int64
        np.testing.assert_array_equal(inner, recorded["rsb_out"])
        np.testing.assert_array_equal(inner_mask, recorded["rsb_out_mask"])


def test_a_checkpoint_of_allennlp(tmp_path: Path) -> None:
    """Its `Elmo` was in a task model; all of it loads, and has the vectors of AllenNLP."""
    with tarfile.open(ARCHIVE / "model.tar.gz") as archive:
        # Python before 3.11.4 has no filters, and ignores the attribute.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    state = torch.load(tmp_path / "weights.th", weights_only=True)
    prefix = "text_field_embedder.token_embedder_elmo._elmo."
    own = {}
    for name, tensor in state.items():
        if name.startswith(prefix):
            own[name.removeprefix(prefix)] = tensor
    weights = write_weights_of_options(tmp_path / "random")
    elmo = Elmo(ARCHIVE / "options.json", weights, 2, dropout=0, state="zero")
    elmo.load_state_dict(own)
    sentences = (ARCHIVE / "sentences.txt").read_text("utf-8").splitlines()
    with np.load(ARCHIVE / "vectors.npz") as expected:
        mix = np.exp(expected["mix"]) / np.exp(expected["mix"]).sum()
        for key in ("0", "4", "9"):
            ids = batch_to_ids([sentences[int(key)].split()])
            mixed = expected["gamma"] * np.tensordot(mix, expected[key], 1)
            close_to_recorded(elmo(ids)["elmo_representations"][0][0].detach(), mixed)


def write_weights_of_options(folder: Path) -> Path:
    """Random weights of the sizes of the archive."""
    options = json.loads((ARCHIVE / "options.json").read_text())
    return write_model(folder, options, "random") / "weights.hdf5"
