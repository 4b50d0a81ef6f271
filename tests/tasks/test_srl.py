"""Task `srl`: its files, its labels, its encoders, its scores and its predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tiny_models import assert_refused, build, read, train_on

from elmo_cli.tasks.data_fit import fit_of_test_data
from elmo_cli.tasks.inputs import SentenceBatch
from elmo_cli.tasks.layers import AlternatingLSTM
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.srl import Frame, SrlTask

TOKENS = ("Ada", "began", "to", "write")
TAGS = ["B-ARG0 B-V B-ARG1 I-ARG1", "B-ARG0 O O B-V"]
CONLL = """#begin document (a); part 000
a 0 0 Ada X * - - - - * (ARG0*) (ARG0*) (1)
a 0 1 began X * begin 01 - - * (V*) * -
a 0 2 to X * - - - - * (ARG1* * -
a 0 3 write X * write 02 1 - * *) (V*) -

a 0 0 Yes X * yes - 1 - * -
#end document
"""
CONLL_WITHOUT_ROLES = "\n".join(
    f"a 0 {i} {token} X * - {'02' if i == 3 else '-'}" for i, token in enumerate(TOKENS)
)


def line(tokens: Any = TOKENS, **frame: Any) -> str:
    return json.dumps({"tokens": tokens, "frames": [frame]})


def made_of(*frames: tuple[int, str], tokens: tuple[str, ...] = TOKENS) -> Split:
    """Frames of one sentence, each with its predicate and tags."""
    examples = [
        Frame((0,), f"line {number}", tuple(tags.split()), predicate)
        for number, (predicate, tags) in enumerate(frames)
    ]
    return Split("made", [tokens], examples, keys=[0])


BOTH = made_of((1, TAGS[0]), (3, TAGS[1]))
JSON = "\n".join(
    SrlTask().format_lines(BOTH, [example.target for example in BOTH.examples], "jsonl")
)
JSON += '\n{"id": "x", "tokens": "Yes", "frames": []}\n'


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.jsonl", JSON, [1, 1]),
        ("a.jsonl", JSON.replace("B-ARG1 I-ARG1", "I-ARG1 I-ARG1"), [1, 1]),  # IOB1
        ("a_conll", CONLL, [3, 5]),
        ("a.conll", CONLL.replace(" ", "\t").replace("n\td", "n d").replace("d\td", "d d"), [3, 5]),
    ],
)
def test_frames_are_read(name: str, text: str, lines: list[int]) -> None:
    split = read("srl", name, text)
    assert split.sentences == [TOKENS, ("Yes",)]
    assert [frame.predicate for frame in split.examples] == [1, 3]
    assert [" ".join(frame.target) for frame in split.examples] == TAGS
    assert [frame.sentences for frame in split.examples] == [(0,), (0,)]
    assert [frame.key for frame in split.examples] == [0, 0]
    assert split.keys == [0, 1]
    assert [frame.where for frame in split.examples] == [
        f"{name}, line {number}" for number in lines
    ]


def test_sentences_are_counted_over_documents() -> None:
    split = read("srl", "a.conll", CONLL + CONLL)
    assert split.keys == [0, 1, 2, 3]
    assert [(frame.key, frame.sentences) for frame in split.examples] == [
        (0, (0,)),
        (0, (0,)),
        (2, (2,)),
        (2, (2,)),
    ]


@pytest.mark.parametrize(
    ("name", "text"), [("a.jsonl", line(predicate=3)), ("a.conll", CONLL_WITHOUT_ROLES)]
)
def test_roles_may_lack_at_prediction(name: str, text: str) -> None:
    split = read("srl", name, text, labelled=False)
    assert split.sentences == [TOKENS]
    assert [(frame.predicate, frame.target) for frame in split.examples] == [(3, None)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"tokens": ["a"]}', "line 1: no valid frames"),
        ('{"tokens": ["a"], "frames": [1]}', "line 1: the frame 1 is not an object"),
        (line(tags=TAGS[0]), "line 1: no valid predicate; its fields are tags"),
        (line(predicate=4, tags=TAGS[0]), "line 1: the predicate is token 4, of 4 tokens"),
        (line(predicate=-1, tags=TAGS[0]), "line 1: the predicate is token -1, of 4 tokens"),
        (line(predicate=True, tags=TAGS[0]), "no valid predicate: true is not a whole number"),
        (line(predicate=1), "line 1: no valid tags; its fields are predicate"),
        (line(predicate=1, tags=1), "line 1: no valid tags: 1 is not a string or a list"),
        (line(predicate=1, tags="O B-V ARG0 O"), "line 1: the tag 'ARG0' is neither O nor a label"),
        (
            line(predicate=1, tags=["O", "B-V", 5, "O"]),
            "line 1: the tag 5 is neither O nor a label",
        ),
        (line(predicate=1, tags="O B-V O"), "line 1: 4 tokens, but 3 tags"),
        (line(predicate=1, tags=[]), "line 1: 4 tokens, but 0 tags"),
        (line(predicate=2, tags=TAGS[0]), "predicate is token 2, but B-V is at token 1"),
        (line(predicate=1, tags=[None] * 4), "no example has a label"),
        (line(predicate=1, tags="O B_V B_ARG0 I_ARG0"), "spans with `_` instead of `-`"),
    ],
)
def test_bad_json_lines_are_refused(text: str, words: str) -> None:
    assert_refused("srl", "a.jsonl", text, words)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("* * -", "* *", "line 4: .* the number of columns is 13, not 14 as in the rows next"),
        ("(V*) * -", "(V* * -", "line 2: column 12 does not"),
        ("*) (V*)", "*) *)", "line 2: column 13 does not"),
        ("*) (V*)", "*) (ARG2*)", "line 2: column 13 does not"),
        ("(ARG1* * -", "(ARG1 * -", "line 2: column 12 does not"),
        ("*) (V*) -", "*) (V*) (V*)", "line 2: the last column has roles"),
        ("(V*) * -", "(V*) (V*) -", "line 2: column 13 does not"),
    ],
)
def test_bad_columns_are_refused(before: str, after: str, words: str) -> None:
    assert CONLL.count(before) == 1
    assert_refused("srl", "a.conll", CONLL.replace(before, after), words)


def test_roles_of_the_training_data() -> None:
    task = SrlTask()
    task.labels = task.collect_labels(made_of((0, "B-V B-ARG0 B-C-ARG1")))
    assert task.labels == ["ARG0", "C-ARG1", "V"]
    for tags, is_learnable, fit in (
        ("B-V B-R-ARG0 B-C-ARG1", False, (2, 2)),  # scored without C- and R-
        ("B-V B-ARG0 B-C-ARG1", True, (2, 2)),
        ("B-V B-C-ARG2 B-ARG0", False, (1, 2)),
    ):
        dev = made_of((0, tags))
        assert task.is_learnable(dev.examples[0]) == is_learnable
        known = fit_of_test_data(task, dev, None)[1]
        assert (known.n_fitting, known.n_all) == fit


@pytest.mark.parametrize(
    ("encoder", "has_mark"), [("bilstm", True), ("bilstm", False), ("alternating", True)]
)
def test_the_predicate_decides(encoder: str, has_mark: bool) -> None:
    """Two frames of a sentence differ in their predicate alone: by its mark, or by its state."""
    options = {"encoder": encoder, "dropout": 0.0, "encoder_dropout": 0.0}
    model, inputs = build(SrlTask(), BOTH, **options)
    if not has_mark:
        torch.nn.init.zeros_(model.mark.weight).requires_grad_(False)
    train_on(model, BOTH.examples, inputs, steps=40)
    assert [" ".join(labels) for labels in model.predict(BOTH.examples, inputs)] == TAGS


@pytest.mark.parametrize("where", ["input", "output", "both"])
def test_a_sentence_is_read_once_for_its_frames(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is still the mean over the tokens of all frames, computed one by one."""
    frames = [*BOTH.examples, Frame((1,), "line 3", ("B-V", "B-ARG1", "O"), 0)]
    split = Split("made", [TOKENS, ("Go", "home", "!")], frames, keys=[0, 1])
    model, inputs = build(SrlTask(), split, **{"elmo.where": where})
    model.eval()
    alternating = [frames[0], frames[2], frames[1]]
    total = sum(model.loss([frame], inputs) * len(frame.target) for frame in frames)
    expected = total / sum(len(frame.target) for frame in frames)
    of_each = [model.predict([frame], inputs)[0] for frame in alternating]
    read: list[int] = []
    batch = inputs.batch

    def counted(numbers: Sequence[int]) -> SentenceBatch:
        read.extend(numbers)
        return batch(numbers)

    monkeypatch.setattr(inputs, "batch", counted)
    assert torch.allclose(model.loss(alternating, inputs), expected, atol=1e-6)
    assert read == [0, 1]
    assert model.predict(alternating, inputs) == of_each


@pytest.mark.parametrize("where", ["input", "both"])
def test_each_frame_has_its_own_dropout(where: str) -> None:
    """The frames of one sentence have the loss of frames of two equal sentences."""
    copies = [BOTH.examples[0], Frame((1,), "line 2", BOTH.examples[1].target, 3)]
    split = Split("made", [TOKENS, TOKENS], copies, keys=[0, 1])
    options = {"elmo.where": where, "elmo.dropout": 0.5, "dropout": 0.5}
    model, inputs = build(SrlTask(), split, **options)
    inputs._read_layers = lambda number, read=inputs._read_layers: read(0)
    losses = []
    for frames in (BOTH.examples, copies):
        torch.manual_seed(0)
        losses.append(model.train().loss(frames, inputs).item())
    assert losses[0] == pytest.approx(losses[1])


@pytest.mark.parametrize("encoder", ["bilstm", "alternating"])
def test_the_encoder_has_its_own_dropout(encoder: str) -> None:
    model, _ = build(SrlTask(), BOTH, encoder=encoder, dropout=0.1, encoder_dropout=0.3)
    assert model.representation.dropout.p == 0.1
    assert model.encoder.dropout.p == 0.3
    assert model.dropout.p == 0.3


def test_alternating_layers_read_each_sentence_in_turn() -> None:
    torch.manual_seed(0)
    encoder = AlternatingLSTM(3, 4, 3, 0.5).eval()
    x = torch.randn(2, 5, 3)
    lengths = [5, 3]
    encoded = encoder(x, torch.tensor(lengths))
    for row, n in enumerate(lengths):
        y = x[row : row + 1, :n]
        for number, lstm in enumerate(encoder.layers):
            states = lstm(y.flip(1))[0].flip(1) if number == 1 else lstm(y)[0]
            kept = torch.sigmoid(encoder.gates[number](torch.cat([states, y], -1)))
            y = kept * states + (1 - kept) * encoder.carries[number](y)
        assert torch.allclose(encoded[row, :n], y[0], atol=1e-6)


def test_scores_count_arguments_without_v() -> None:
    frames = made_of((0, "B-V B-ARG0 B-C-ARG0"), (1, "O B-V")).examples
    scores = SrlTask().score(frames, [("O", "B-ARG0", "O"), ("B-ARG1", "B-V")])
    assert scores.values == pytest.approx({"f1": 50, "precision": 50, "recall": 50})
    assert sorted(scores.by_type) == ["ARG0", "ARG1", "C-ARG0"]
    assert "C-X" in scores.note
