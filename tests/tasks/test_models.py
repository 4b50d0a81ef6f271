"""What all models have in common: they learn, ignore padding, and use all their parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from data_files import COREF_DOCUMENTS, COREF_SIZES, QUESTIONS, TREES
from tiny_models import build, read, train_on

from elmo_cli.tasks.labels import convert_labels
from elmo_cli.tasks.settings import as_flat
from elmo_cli.tasks.task import load_task


def columns(*labels: str) -> str:
    """Sentences of tokens w0, w1 and so on, with these labels."""
    sentences = []
    for number, of_sentence in enumerate(labels):
        rows = [f"w{number + i} {label}" for i, label in enumerate(of_sentence.split())]
        sentences.append("\n".join(rows))
    return "\n\n".join(sentences) + "\n"


def frames(*tags: str) -> str:
    """Frames of tokens w0, w1 and so on, with these tags."""
    lines = []
    for of_frame in tags:
        labels = of_frame.split()
        tokens = [f"w{i}" for i in range(len(labels))]
        frame = {"predicate": labels.index("B-V"), "tags": of_frame}
        lines.append(json.dumps({"tokens": tokens, "frames": [frame]}) + "\n")
    return "".join(lines)


def pairs(name: str, *targets: object) -> str:
    """Pairs of sentences with these labels or scores, of different lengths."""
    texts = [
        ("a cat sleeps here", "a cat sleeps"),
        ("a cat sleeps", "a cat sleeps here"),
        ("no cat sleeps", "a cat sleeps here"),
        ("so", "a cat sleeps"),
        ("a cat", "no cat sleeps here at all"),
    ]
    lines = []
    for (premise, hypothesis), target in zip(texts, targets, strict=True):
        pair = {"premise": premise, "hypothesis": hypothesis, name: target}
        lines.append(json.dumps(pair) + "\n")
    return "".join(lines)


BIO = columns("B-X I-X O", "O", "O O B-Y I-Y I-Y B-Y O", "B-Y", "I-X O")
BIOES = columns("B-X E-X O", "O", "O O B-Y I-Y E-Y S-Y O", "S-Y", "S-X O")
PLAIN = columns("DT NN VB", "UH", "IN DT JJ NN NN VB .", "UH", "IN NN")
LONG = "B-V I-V B-C-ARG1 I-C-ARG1 O O B-ARG0"
ROLES = ("B-ARG0 B-V B-ARG1 I-ARG1", "B-ARG0 O O B-V", LONG, "B-V")
DATA = {  # name -> task, file and content
    "bio": ("ner", "a.conll", BIO),
    "bioes": ("ner", "a.conll", BIOES),
    "plain": ("ner", "a.conll", PLAIN),
    "roles": ("srl", "a.jsonl", frames(*ROLES)),
    "trees": ("classification", "a.txt", TREES),
    "pairs": ("entailment", "a.jsonl", pairs("label", "yes", "maybe", "no", "maybe", "no")),
    "scores": ("similarity", "a.jsonl", pairs("score", 1, 5, 2, 4, 3)),
    "answers": ("qa", "a.json", QUESTIONS),
    "clusters": ("coref", "a.jsonl", COREF_DOCUMENTS),
}
MODELS = [  # data, settings
    ("bio", {"crf_scheme": "BIO"}),
    ("bio", {"crf_scheme": "BIOUL", "layers": 2}),
    ("bioes", {"crf_scheme": "BIOUL"}),
    ("plain", {"layers": 2}),
    ("roles", {"encoder": "bilstm", "layers": 2}),
    ("roles", {"encoder": "alternating", "layers": 3}),
    ("trees", {"model": "bilstm", "layers": 2, "subtrees": 0.0}),
    ("trees", {"model": "bcn", "subtrees": 0.0}),
    ("pairs", {}),
    ("pairs", {"layers": 2}),
    ("scores", {}),
    ("answers", {"highways": 2, "layers": 2}),
    ("clusters", {**COREF_SIZES, "scorer_layers": 2}),
]
WITHOUT_DROPOUT = {"dropout": 0.0, "elmo.dropout": 0.0}


def build_from(data: str, **settings: Any) -> tuple:
    """A task, the model for its data, the data, and their inputs."""
    name, file, text = DATA[data]
    task = load_task(name, settings)
    split = read(name, file, text)
    return task, split, *build(task, split, **settings)


@pytest.mark.parametrize(("data", "settings"), MODELS, ids=str)
def test_a_model_learns_its_examples(data: str, settings: dict[str, Any]) -> None:
    options = {**settings, **WITHOUT_DROPOUT, "elmo.where": "both"}
    if data == "roles":
        options["encoder_dropout"] = 0.0
    task, split, model, inputs = build_from(data, **options)
    examples = split.examples
    least = {"scores": 99, "answers": 80}.get(data, 100)  # the answer "20" is within a token

    def is_learned() -> bool:
        with torch.no_grad():
            scores = task.score(examples, model.predict(examples, inputs))
        return scores.values[scores.main] >= least

    train_on(model, examples, inputs, steps=160, learning_rate=0.03, is_enough=is_learned)
    with torch.no_grad():
        together = model.predict(examples, inputs)
        alone = [model.predict([example], inputs)[0] for example in examples]
        losses = [model.loss([example], inputs).item() for example in examples]
        # The mean is one over tokens for labels of tokens without a CRF, otherwise over examples.
        is_of_tokens = data in ("plain", "roles")
        sizes = [example.n_tokens(split.sentences) if is_of_tokens else 1 for example in examples]
        mean = sum(n * loss for n, loss in zip(sizes, losses, strict=True)) / sum(sizes)
        assert model.loss(examples, inputs).item() == pytest.approx(mean, abs=1e-5)
    for predictions in (together, alone):
        scores = task.score(examples, predictions)
        assert scores.values[scores.main] >= least


@pytest.mark.parametrize("where", ["input", "output", "both"])
@pytest.mark.parametrize(("data", "settings"), MODELS, ids=str)
def test_the_gradient_reaches_all_parameters(
    data: str, settings: dict[str, Any], where: str
) -> None:
    _, split, model, inputs = build_from(data, **settings, **{"elmo.where": where})
    model.train()
    model.loss(split.examples, inputs).backward()
    without_gradient = set()
    for name, parameter in model.named_parameters():
        if parameter.grad is None or parameter.grad.abs().sum() == 0:
            without_gradient.add(name)
    assert without_gradient <= {
        "pooling.attention.bias"
    }  # a softmax over tokens does not depend on it


@pytest.mark.parametrize(
    ("data", "settings", "scheme"),
    [
        ("bio", {"crf_scheme": "BIO"}, "BIO"),
        ("bio", {"crf_scheme": "BIOUL"}, "BIO"),
        ("bioes", {"crf_scheme": "BIO"}, "BIOES"),
        ("roles", {}, "BIO"),
    ],
)
def test_untrained_predictions_are_valid(data: str, settings: dict[str, Any], scheme: str) -> None:
    _, split, model, inputs = build_from(data, **settings)
    torch.nn.init.normal_(model.output.weight, std=3.0)
    for labels in model.eval().predict(split.examples * 3, inputs):
        assert convert_labels(labels, scheme) == labels


@pytest.mark.parametrize(
    ("data", "parameter", "shape"),
    [
        ("bio", "encoder.back.1.weight_hh_l0", (4 * 200, 200)),
        ("roles", "encoder.layers.7.weight_hh_l0", (4 * 300, 300)),
        ("trees", "output.1.maps.weight", (4 * 1200, 4 * 600)),
        ("pairs", "composition.back.0.weight_hh_l0", (4 * 300, 300)),
        ("clusters", "mention.2.weight", (150, 150)),
    ],
)
def test_the_preset_has_the_published_sizes(
    data: str, parameter: str, shape: tuple[int, int]
) -> None:
    settings = as_flat(load_task(DATA[data][0], preset="paper").settings)
    *_, model, _ = build_from(data, **settings)
    assert model.get_parameter(parameter).shape == shape
