"""Task `srl`: its files, its models, its scores and its predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import build, train_on, without_gradient

from elmo_cli.errors import InputError
from elmo_cli.tasks.layers import AlternatingLSTM
from elmo_cli.tasks.spans import labels_of, spans_of
from elmo_cli.tasks.srl import Frame, SrlTask
from elmo_cli.tasks.task import Split, check_labels, load_task

TASK = SrlTask()
TOKENS = ["Ada", "began", "to", "write"]
TAGS = ["B-ARG0 B-V B-ARG1 I-ARG1", "B-ARG0 O O B-V"]
CONLL = """#begin document (a); part 000
a 0 0 Ada X * - - - - * (ARG0*) (ARG0*) (1)
a 0 1 began X * begin 01 - - * (V*) * -
a 0 2 to X * - - - - * (ARG1* * -
a 0 3 write X * write 02 1 - * *) (V*) -

a 0 0 Yes X * yes - 1 - * -
#end document
"""


def line(tokens: Any = TOKENS, **frame: Any) -> str:
    return json.dumps({"tokens": tokens, "frames": [frame]})


def both_frames() -> str:
    frames = [{"predicate": n, "tags": tags} for n, tags in zip((1, 3), TAGS, strict=True)]
    first = json.dumps({"id": "x", "tokens": TOKENS, "frames": frames})
    return first + '\n\n{"tokens": ["Yes"], "frames": []}\n'


def read(path: Path, text: str, *, labelled: bool = True) -> Split:
    path.write_text(text, encoding="utf-8")
    return TASK.read(str(path), labelled=labelled)


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.jsonl", both_frames(), [1, 1]),
        ("a.jsonl", both_frames().replace("B-ARG1 I-ARG1", "I-ARG1 I-ARG1"), [1, 1]),  # IOB1
        ("a_conll", CONLL, [3, 5]),
        ("a.conll", CONLL.replace(" ", "\t").replace("n\td", "n d").replace("d\td", "d d"), [3, 5]),
    ],
)
def test_frames_are_read(tmp_path: Path, name: str, text: str, lines: list[int]) -> None:
    split = read(tmp_path / name, text)
    assert split.sentences == [tuple(TOKENS), ("Yes",)]
    assert [frame.predicate for frame in split.examples] == [1, 3]
    assert [" ".join(frame.target) for frame in split.examples] == TAGS
    assert [frame.sentences for frame in split.examples] == [(0,), (0,)]
    assert [frame.where for frame in split.examples] == [
        f"{tmp_path / name}, line {number}" for number in lines
    ]


@pytest.mark.parametrize("name", ["a.jsonl", "a.conll"])
def test_roles_may_lack_at_prediction(tmp_path: Path, name: str) -> None:
    text = line(predicate=3)
    if name == "a.conll":
        rows = (
            f"a 0 {i} {token} X * - {'02' if i == 3 else '-'}" for i, token in enumerate(TOKENS)
        )
        text = "\n".join(rows)
    split = read(tmp_path / name, text, labelled=False)
    assert split.sentences == [tuple(TOKENS)]
    assert [(frame.predicate, frame.target) for frame in split.examples] == [(3, None)]
    with pytest.raises(InputError, match=r"line 1: the frame|line 4: the sentence has a predicate"):
        read(tmp_path / name, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "line 1: JSON, but not an object"),
        ('{"tokens": ["a"]}', 'line 1: "frames" is missing'),
        ('{"frames": []}', 'line 1: no "tokens"'),
        (line([], predicate=0, tags=""), 'line 1: "tokens" has no tokens'),
        (line(["a", ""], predicate=0, tags="B-V O"), 'line 1: "tokens": a token is empty'),
        (line(["a", 1], predicate=0, tags="B-V O"), 'line 1: "tokens" is neither a list'),
        (line(tags=TAGS[0]), "line 1: a frame has no predicate from 0 to 3"),
        (line(predicate=4, tags=TAGS[0]), "line 1: a frame has no predicate"),
        (line(predicate=True, tags=TAGS[0]), "line 1: a frame has no predicate"),
        (line(predicate=1, tags="O B-V"), "line 1: the frame of token 1 does not have 4 tags"),
        (line(predicate=1, tags="O B-V ARG0 O"), 'line 1: tag "ARG0" is not in BIO'),
        (line(predicate=1, tags=[None] * 4), "line 1: tag null is not in BIO"),
    ],
)
def test_bad_json_lines_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path / "a.jsonl", text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("* * -", "* *", "line 4: wrong number of columns"),
        ("(V*) * -", "(V* * -", r"line 4: `\(ARG1\*` in column 12"),
        ("*) (V*)", "* (V*)", "line 2: column 12 has no end of ARG1"),
        ("*) (V*)", "*) *)", r"line 5: `\*\)` in column 13"),
        ("*) (V*)", "*) (ARG2*)", r"line 2: column 13 has no \(V\*\)"),
        ("(ARG1* * -", "(ARG1 * -", r"line 4: `\(ARG1` in column 12"),
    ],
)
def test_bad_columns_are_refused(tmp_path: Path, before: str, after: str, words: str) -> None:
    assert CONLL.count(before) == 1
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path / "a.conll", CONLL.replace(before, after))
    assert caught.value.hint


def made_of(*frames: tuple[int, str]) -> Split:
    """Frames, each of a sentence of its own."""
    examples = [
        Frame((number,), f"line {number}", tuple(tags.split()), predicate)
        for number, (predicate, tags) in enumerate(frames)
    ]
    sentences = [tuple(f"w{i}" for i in range(len(frame.target))) for frame in examples]
    return Split("made", sentences, examples)


SPLIT = made_of((1, TAGS[0]), (3, TAGS[1]), (0, "B-V I-V B-C-ARG1 I-C-ARG1 O O B-ARG0"), (0, "B-V"))


def test_roles_of_the_training_data() -> None:
    roles = ["ARG0", "ARG1", "C-ARG1", "V"]
    assert TASK.collect_labels(SPLIT) == roles
    check_labels(TASK, SPLIT, made_of((0, "B-V B-R-ARG0 B-C-ARG0")))
    with pytest.raises(InputError, match="line 0: label `ARG2` does not occur"):
        check_labels(TASK, SPLIT, made_of((0, "B-V B-C-ARG2")))
    with pytest.raises(InputError, match="made: no frame has an argument"):
        TASK.collect_labels(made_of((0, "B-V O")))


@pytest.mark.parametrize("encoder", ["bilstm", "alternating"])
def test_a_model_learns_its_frames(encoder: str) -> None:
    options = {"encoder": encoder, "layers": 2, "dropout": 0.0, "encoder_dropout": 0.0}
    model, inputs = build(TASK, SPLIT, **options, **{"elmo.dropout": 0.0})
    train_on(model, SPLIT.examples, inputs, steps=40)
    with torch.no_grad():
        together = model.predict(SPLIT.examples, inputs)
        alone = [model.predict([frame], inputs)[0] for frame in SPLIT.examples]
        losses = [model.loss([frame], inputs).item() for frame in SPLIT.examples]
        lengths = [len(frame.target) for frame in SPLIT.examples]
        mean = sum(n * loss for n, loss in zip(lengths, losses, strict=True)) / sum(lengths)
        assert model.loss(SPLIT.examples, inputs).item() == pytest.approx(mean, abs=1e-5)
    assert together == alone
    assert together == [frame.target for frame in SPLIT.examples]
    assert TASK.score(SPLIT.examples, together).main_value == 100


@pytest.mark.parametrize("encoder", ["bilstm", "alternating"])
@pytest.mark.parametrize("where", ["input", "both"])
def test_the_gradient_reaches_all_parameters(encoder: str, where: str) -> None:
    options = {"encoder": encoder, "layers": 3, "elmo.where": where}
    model, inputs = build(TASK, SPLIT, **options)
    assert without_gradient(model, SPLIT.examples, inputs) == []


@pytest.mark.parametrize(
    ("encoder", "has_mark"), [("bilstm", True), ("bilstm", False), ("alternating", True)]
)
def test_the_predicate_decides(encoder: str, has_mark: bool) -> None:
    """Two frames of a sentence differ in their predicate alone: by its mark, or by its state."""
    frames = [
        Frame((0,), "", tuple(tags.split()), predicate)
        for predicate, tags in zip((1, 3), TAGS, strict=True)
    ]
    split = Split("made", [tuple(TOKENS)], frames)
    model, inputs = build(TASK, split, encoder=encoder, dropout=0.0, encoder_dropout=0.0)
    if not has_mark:
        torch.nn.init.zeros_(model.mark.weight).requires_grad_(False)
    train_on(model, frames, inputs, steps=40)
    assert [" ".join(labels) for labels in model.predict(frames, inputs)] == TAGS


def test_alternating_layers_read_each_sentence_in_turn() -> None:
    torch.manual_seed(0)
    encoder, x, lengths = AlternatingLSTM(3, 4, 3, 0.5).eval(), torch.randn(2, 5, 3), [5, 3]
    found = encoder(x, torch.tensor(lengths))
    for row, n in enumerate(lengths):
        y = x[row : row + 1, :n]
        for number, lstm in enumerate(encoder.layers):
            states = lstm(y.flip(1))[0].flip(1) if number == 1 else lstm(y)[0]
            kept = torch.sigmoid(encoder.gates[number](torch.cat([states, y], -1)))
            y = kept * states + (1 - kept) * encoder.carries[number](y)
        assert torch.allclose(found[row, :n], y[0], atol=1e-6)


def test_untrained_predictions_are_valid() -> None:
    split = made_of((1, TAGS[0]), (0, "B-V" + " O" * 40))
    model, inputs = build(TASK, split)
    torch.nn.init.normal_(model.output.weight, std=3.0)
    for labels in model.eval().predict(split.examples, inputs):
        assert labels_of(spans_of(labels), len(labels), "BIO") == list(labels)


def test_scores_count_arguments_without_v() -> None:
    frames = made_of((0, "B-V B-ARG0 B-C-ARG0"), (1, "O B-V")).examples
    scores = TASK.score(frames, [("O", "B-ARG0", "O"), ("B-ARG1", "B-V")])
    assert scores.values == pytest.approx({"f1": 50, "precision": 50, "recall": 50})
    assert sorted(scores.by_type) == ["ARG0", "ARG1", "C-ARG0"]
    assert "C-X" in scores.note


def test_predictions_can_be_read_again(tmp_path: Path) -> None:
    split = read(tmp_path / "a.jsonl", both_frames())
    predicted = [frame.target[::-1] for frame in split.examples]
    predicted = [tuple(labels_of(spans_of(one), len(one), "BIO")) for one in predicted]
    lines = list(TASK.format_lines(split, predicted, "jsonl"))
    again = read(tmp_path / "b.jsonl", "\n".join(lines))
    assert again.sentences == split.sentences
    assert [(frame.predicate, frame.target) for frame in again.examples] == [
        (frame.predicate, labels) for frame, labels in zip(split.examples, predicted, strict=True)
    ]


def test_the_preset_has_the_published_sizes() -> None:
    settings = load_task("srl", preset="paper").settings
    assert (settings.encoder, settings.layers, settings.hidden) == ("alternating", 8, 300)
    assert (settings.optimizer, settings.predicate_dim, settings.elmo.l2) == ("adadelta", 100, 1e-3)
