"""Task `entailment`: files of sentence pairs, and the network that compares two sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from command_line import made
from tiny_models import build, train_on, without_gradient

from elmo_cli.errors import InputError
from elmo_cli.tasks.entailment import EntailmentTask, Esim
from elmo_cli.tasks.task import Split, check_labels, load_task

TASK = EntailmentTask()
SNLI = (
    '{"gold_label": "neutral", "sentence1": "It rains.", "sentence2": "It is wet."}\n'
    '{"gold_label": "-", "sentence1": "It rains.", "sentence2": "It snows."}\n'
    '{"gold_label": "yes", "sentence1": "It rains.", "sentence2": ["It", "rains"]}\n'
)
SICK = '{"premise": "It rains", "hypothesis": "It snows", "label": "no", "relatedness": 2}\n'


def read(path: Path, text: str, *, labelled: bool = True) -> Split:
    path.write_text(text, encoding="utf-8")
    return TASK.read(str(path), labelled=labelled)


def test_pairs_are_read_with_the_fields_of_snli_and_of_sick(tmp_path: Path) -> None:
    split = read(tmp_path / "a.jsonl", SNLI + SICK)
    assert [example.target for example in split.examples] == ["neutral", "yes", "no"]
    assert [example.sentences for example in split.examples] == [(0, 1), (2, 3), (4, 5)]
    texts = ["It rains .", "It is wet .", "It rains .", "It rains", "It rains", "It snows"]
    assert split.sentences == [tuple(text.split()) for text in texts]
    assert split.examples[2].where.endswith("a.jsonl, line 4")
    assert TASK.collect_labels(split) == ["neutral", "no", "yes"]


@pytest.mark.parametrize("label", ["-", -1])
def test_pairs_without_a_label_are_left_out_and_counted(tmp_path: Path, label: object) -> None:
    pair = json.dumps({"sentence1": ["a"], "sentence2": ["b"], "gold_label": label}) + "\n"
    split = read(tmp_path / "a.jsonl", SICK + pair * 2)
    assert (len(split.examples), split.note) == (1, "2 pairs without a label skipped")
    assert read(tmp_path / "a.jsonl", SICK).note == ""
    unlabelled = read(tmp_path / "a.jsonl", pair + SICK, labelled=False)
    assert [example.target for example in unlabelled.examples] == [None, "no"]
    assert unlabelled.note == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"premise": "a", "label": "x"}', 'line 1: no "sentence2" or "hypothesis"'),
        ('{"hypothesis": "a", "label": "x"}', 'line 1: no "sentence1" or "premise"'),
        ('{"premise": "a", "hypothesis": "b"}', 'line 1: no "gold_label" or "label"'),
        ('{"premise": "", "hypothesis": "b", "label": "x"}', '"premise" has no tokens'),
        ('{"premise": 1, "hypothesis": "b", "label": "x"}', '"premise" is neither a list'),
        ('{"premise": "a", "hypothesis": "b", "label": 0.5}', "is 0.5"),
        ("not JSON", "line 1: not JSON"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path / "a.jsonl", text)
    assert caught.value.hint


def test_labels_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    train = read(tmp_path / "a.jsonl", SNLI)
    dev = read(tmp_path / "dev.jsonl", SICK)
    with pytest.raises(InputError, match=r"dev\.jsonl, line 1: label `no` does not occur"):
        check_labels(TASK, train, dev)
    with pytest.raises(InputError, match=r"dev\.jsonl: fewer than two labels \(no"):
        TASK.collect_labels(dev)


def pairs(*rows: tuple[str, str, str]) -> str:
    names = ("premise", "hypothesis", "label")
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


PAIRS = pairs(
    ("a cat sleeps here", "a cat sleeps", "yes"),
    ("a cat sleeps", "a cat sleeps here", "maybe"),
    ("no cat sleeps", "a cat sleeps here", "no"),
    ("so", "a cat sleeps", "maybe"),
    ("a cat", "no cat sleeps here at all", "no"),
)
SETTINGS = [{"elmo.where": where} for where in ("input", "output", "both")] + [{"layers": 2}]
WITHOUT_DROPOUT = {"dropout": 0.0, "elmo.dropout": 0.0}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_model_learns_its_examples(tmp_path: Path, settings: dict) -> None:
    split = read(tmp_path / "a.jsonl", PAIRS)
    model, inputs = build(TASK, split, **settings, **WITHOUT_DROPOUT)
    train_on(model, split.examples, inputs, steps=50)
    with torch.no_grad():
        together = model.predict(split.examples, inputs)
    assert together == [example.target for example in split.examples]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_scores_depend_on_the_pair_alone(tmp_path: Path, settings: dict) -> None:
    split = read(tmp_path / "a.jsonl", PAIRS)
    model, inputs = build(TASK, split, **settings)
    model.eval()
    with torch.no_grad():
        together = model.scores(split.examples, inputs)
        alone = [model.scores([example], inputs)[0] for example in split.examples]
        mean = sum(model.loss([example], inputs) for example in split.examples) / 5
        assert model.loss(split.examples, inputs) == pytest.approx(mean.item(), abs=1e-5)
    assert torch.allclose(together, torch.stack(alone), atol=1e-5)


def test_the_two_sentences_have_different_roles(tmp_path: Path) -> None:
    split = read(tmp_path / "a.jsonl", PAIRS)
    model, inputs = build(TASK, split)
    model.eval()
    found = model.scores([split.examples[0], split.examples[1]], inputs)
    assert not torch.allclose(found[0], found[1], atol=1e-4)


def test_alignment_equals_that_of_each_pair(tmp_path: Path) -> None:
    """The layers above the encoder, for one pair without padding, written out from the paper."""
    split = read(tmp_path / "a.jsonl", PAIRS)
    model, inputs = build(TASK, split, **{"elmo.where": "input"})
    assert isinstance(model.eval(), Esim)
    pooled = []
    batches = [inputs.batch([number]) for number in split.examples[0].sentences]
    with torch.no_grad():
        a, b = (model.encoder(model.representation(one), one.lengths)[0] for one in batches)
        for x, y in ((a, b), (b, a)):
            aligned = torch.softmax(x @ y.T, 1) @ y
            compared = torch.relu(
                model.comparison(torch.cat([x, aligned, x - aligned, x * aligned], 1))
            )
            composed = model.composition(compared[None], torch.tensor([len(x)]))[0]
            pooled += [composed.mean(0), composed.amax(0)]
        expected = model.output(torch.cat(pooled))
        found = model.scores(split.examples, inputs)[0]
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_gradient_reaches_all_parameters(tmp_path: Path, settings: dict) -> None:
    split = read(tmp_path / "a.jsonl", PAIRS)
    model, inputs = build(TASK, split, **settings)
    assert without_gradient(model, split.examples, inputs) == []


def test_predictions_are_written_in_a_form_that_is_read(tmp_path: Path) -> None:
    split = read(tmp_path / "a.jsonl", SICK)
    (line,) = TASK.format_lines(split, ["yes"], "jsonl")
    assert json.loads(line)["hypothesis"] == ["It", "snows"]
    again = read(tmp_path / "b.jsonl", line)
    assert (again.sentences, again.examples[0].target) == (split.sentences, "yes")


def test_the_preset_has_the_published_sizes() -> None:
    settings = load_task("entailment", preset="paper").settings
    assert (settings.hidden, settings.learning_rate, settings.elmo.where) == (300, 0.0004, "both")


def test_training_and_evaluation_report_the_pairs_that_are_left_out(folder: Path) -> None:
    unlabelled = json.dumps({"premise": ["a"], "hypothesis": ["b"], "label": "-"}) + "\n"
    Path("a.jsonl").write_text(PAIRS + unlabelled)
    data = ("--train", "a.jsonl", "--dev", "a.jsonl")
    trained = made("train", "entailment", *data, "-o", "out", "--elmo", "none", "--epochs", 1)
    assert trained.err.count("a.jsonl: 1 pair without a label skipped") == 2
    scored = made("evaluate", "out", "--test", "a.jsonl", "--json")
    assert json.loads(scored.out)["examples"] == 5
    assert "1 pair without a label skipped" in scored.err
    predicted = made("predict", "out", "a.jsonl", "--as-data").out.decode().splitlines()
    assert [len(json.loads(line)) for line in predicted] == [3] * 6
