"""The numbers of the model card: against values by hand, and every script once."""

from __future__ import annotations

import shutil
import sys
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import made

from benchmarks.model_card import commands, kneser_ney, word_senses
from benchmarks.model_card.word_senses import Instance
from elmo_cli.text.vocabulary import Vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "a", "b"]


def text_of(*sentences):
    ids = [[WORDS.index(word) for word in sentence.split()] for sentence in sentences]
    history = np.concatenate([np.arange(len(words)) for words in ids])
    return kneser_ney.Text(np.concatenate(ids), history)


TRAIN = text_of("<S> a b </S>", "<S> a </S>")
# By hand, with the discounts 0.5 and 1 for counts of 1 and 2: unigrams a, b 1/4, </S> 3/8, <UNK>
# 1/8; a history leaves 1/2 to them.
BIGRAMS = {
    "<S> a": (2 - 1) / 2 + 1 / 2 * 1 / 4,
    "a b": (1 - 0.5) / 2 + 1 / 2 * 1 / 4,
    "a </S>": (1 - 0.5) / 2 + 1 / 2 * 3 / 8,
    "b </S>": (1 - 0.5) / 1 + 1 / 2 * 3 / 8,
    "b a": 1 / 2 * 1 / 4,
    "b <UNK>": 1 / 2 * 1 / 8,
    "<UNK> a": 1 / 4,
}


@pytest.mark.parametrize("bigram", BIGRAMS)
@pytest.mark.parametrize("n", [2, 3])
def test_kneser_ney_probability_by_hand(bigram, n):
    """With 3-grams the counts of 2-grams are numbers of preceding words, but here the same."""
    orders = kneser_ney.estimate(TRAIN, Vocabulary(WORDS), n)
    probabilities = kneser_ney.probabilities(orders, text_of(bigram))
    np.testing.assert_allclose(probabilities, [np.nan, BIGRAMS[bigram]], rtol=1e-6)


def test_kneser_ney_history_that_the_text_does_not_have():
    """It leaves all to the shorter history."""
    orders = kneser_ney.estimate(text_of("<S> b b </S>"), Vocabulary(WORDS), 3)
    known = kneser_ney.probabilities(orders, text_of("b </S>"))
    unknown = kneser_ney.probabilities(orders, text_of("a b </S>"))
    assert known[-1] == unknown[-1]


def test_kneser_ney_discounts_by_hand():
    """Four counts of 1, two of 2, one of 3 and of 4, so y = 1/2."""
    discounts = kneser_ney._discounts(np.array([0, 1, 1, 1, 1, 2, 2, 3, 4, 7]))
    assert discounts.tolist() == [0, 0.5, 0.5, 0.5, 0.5, 1.25, 1.25, 1, 1, 1]


def instance_of(word: str, sense: str, name: str = "") -> Instance:
    """An instance of a noun, the first token of the first sentence."""
    return Instance(
        name=name, lemma=(word, "NOUN"), sentence=0, tokens=slice(0, 1), senses=(sense,)
    )


# The angles of the vectors in degrees: "money" 12.5, "river" 90 and 37, so its mean 45.
KNOWN = [instance_of("bank", "money"), instance_of("bank", "river"), instance_of("bank", "river")]
KNOWN_VECTORS = np.array([[9, 2], [0, 1], [4, 3]], np.float32)
# 6, 27 and 35; and a lemma without known senses.
ASKED = [
    instance_of("bank", "river", "senseval2.1"),
    instance_of("bank", "river", "senseval2.2"),
    instance_of("bank", "river", "senseval2.3"),
    instance_of("spring", "season", "semeval2007.1"),
]
ASKED_VECTORS = np.array([[9, 1], [2, 1], [10, 7], [1, 1]], np.float32)
DEFAULT = [None, None, None, "water"]


def test_nearest_mean_of_a_sense_by_hand():
    senses = word_senses.sense_means(KNOWN, KNOWN_VECTORS)
    answers = word_senses.nearest(ASKED, ASKED_VECTORS, senses, DEFAULT)
    assert answers == ["money", "money", "river", "water"]


def test_nearest_instance_by_hand():
    senses = word_senses.single_instances(KNOWN, KNOWN_VECTORS)
    answers = word_senses.nearest(ASKED, ASKED_VECTORS, senses, DEFAULT)
    assert answers == ["money", "river", "river", "water"]


def test_accuracies_by_hand():
    figures = word_senses.accuracies(ASKED, ["money", "river", "river", "water"])
    assert figures["semeval2007"] == 0
    assert figures["ALL"] == 50
    assert figures["senseval2"] == pytest.approx(200 / 3)
    assert figures["ALL but semeval2007"] == pytest.approx(200 / 3)


TABLES = {
    "perplexity": "| all",
    "pos": "| layer 2",
    "word_senses": "| layer 2, one instance",
    "neighbors": "I have lost my **bat**",
}
INSTANCE = "<c><sentence><instance id='d.0' lemma='bat' pos='NOUN'>bat</instance></sentence></c>"
COLUMNS = "1\tcat\t_\tN\tNN\t_\t0\t_\t_\t_\n2\tsat\t_\tV\tVB\t_\t0\t_\t_\t_\n\n" * 2
DATA = {
    "pretrain/heldout/web.txt.xz": "I have lost my bat , and I can not find it . The bat flew .\n",
    "pretrain/train/web-001.txt.xz": "Their bat is my bat .\n",
    "tasks/pos/en_ewt-ud-train.conllu.xz": COLUMNS,
    "tasks/pos/en_ewt-ud-dev.conllu.xz": COLUMNS,
    "tasks/pos/en_ewt-ud-test.conllu.xz": COLUMNS + COLUMNS.replace("cat", "dog"),
    "tasks/wsd/wordnet30.senses.tsv.xz": "bat\tNOUN\t1:05:00::/3\n",
    "tasks/wsd/ALL.data.xml": INSTANCE,
    "tasks/wsd/ALL.gold.key.txt": "d.0 bat%1:05:00::\n",
    "tasks/wsd/semcor.data.xml.xz": INSTANCE,
    "tasks/wsd/semcor.gold.key.txt.xz": "d.0 bat%1:05:00::\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_script_prints_its_table(name, tiny, golden, tmp_path, monkeypatch, capsys):
    for file, content in DATA.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with word_senses.opened(path, "wt") as made_file:
            made_file.write(content)
    model = shutil.copytree(tiny, tmp_path / "model")
    for part in ("softmax.hdf5", "vocab.txt"):
        shutil.copy(golden / "lm" / part, model)
    words = ["--data", tmp_path, "--work", tmp_path / "work", "-m", model]
    if name == "perplexity":
        words += ["--train", golden / "lm" / "sentences.txt"]

    def run(command, **_):  # in this process instead of `subprocess.run`
        return SimpleNamespace(returncode=0, stdout=made(*command[3:]).out.decode())

    monkeypatch.setattr(commands.subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", [name, *(str(word) for word in words)])
    import_module(f"benchmarks.model_card.{name}").main()
    assert TABLES[name] in capsys.readouterr().out
