"""How well a text fits a vocabulary, before the first step; nothing is learned from <UNK> alone."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, elmo, made, refused

from elmo_cli.embed import text_fit
from elmo_cli.embed.blocks import TOKENS
from elmo_cli.embed.text_fit import _known_fit
from elmo_cli.fit import FIRST_CHARACTERS_KNOWN

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "weights" / "elmo-en"
ENGLISH = (ROOT / "docs" / "sample.txt").read_text(encoding="utf-8")
GERMAN = """\
Der Zug nach Hamburg hat heute wieder zwanzig Minuten Verspätung .
Am Abend saßen die Kinder vor dem Haus und erzählten sich Geschichten .
Wer den Garten gießen will , sollte das am frühen Morgen tun .
Die Bank an der Ecke ist seit gestern geschlossen .
Niemand wusste , warum das Licht in der Küche noch brannte .
"""
TRAINED_ON = "the cat sees the dog .\na dog sees a cat .\nthe bird hears the cat again .\n" * 20
HEAD = "<S>\n</S>\n<UNK>\n"
SIZES = ("--lstm-dim", 8, "--projection-dim", 4, "--batch-size", 2, "--max-steps", 1)
PRETRAIN = ("pretrain", "text.txt", "-o", "m", "--threads", 1, "--device", "cpu", *SIZES)


@pytest.fixture(autouse=True)
def here(folder: Path, tiny: Path) -> None:
    """A working folder with texts, and `model` with the vocabulary of the bundled model."""
    shutil.copytree(tiny, "model")
    shutil.copy(BUNDLED / "vocab.txt", "model/vocab.txt")
    Path("text.txt").write_text(TRAINED_ON)
    Path("german.txt").write_text(GERMAN, encoding="utf-8")
    Path("english.txt").write_text(ENGLISH, encoding="utf-8")


def fit_of(done: Done) -> dict[str, Any]:
    """The member `fit` of the JSON of a command."""
    fit: dict[str, Any] = json.loads(done.out)["fit"]
    return fit


# -- elmo embed -----------------------------------------------------------------------------------

FIRST = "tokens in the model's vocabulary: "
OUTPUTS = {
    "a file": ("-o", "out.hdf5"),
    "standard output": ("-o", "-"),
    "a plan": ("-o", "out.hdf5", "--dry-run"),
}


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    "text", [GERMAN, ENGLISH.upper(), "ATG GCC TAA\n" * 9], ids=["German", "capitals", "codons"]
)
def test_embed_warns_of_a_text_that_the_model_was_not_trained_on(text: str, output: str) -> None:
    """Its vectors look like any others."""
    Path("text.txt").write_text(text, encoding="utf-8")
    err = made("embed", "text.txt", "-m", "model", *OUTPUTS[output]).err
    assert f"warning: {FIRST}" in err
    assert "; was the model trained on the language of the text, and is the text tokeni" in err
    assert err.count(FIRST) == 1


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("text", [ENGLISH, ENGLISH.lower()], ids=["English", "lower case"])
def test_embed_reports_a_text_that_fits(text: str, output: str) -> None:
    Path("text.txt").write_text(text, encoding="utf-8")
    err = made("embed", "text.txt", "-m", "model", *OUTPUTS[output]).err
    (line,) = [line for line in err.splitlines() if FIRST in line]
    assert line.startswith(FIRST)


@pytest.mark.parametrize(("text", "is_warned"), [(GERMAN, True), (ENGLISH, False)])
def test_usages_and_predictions_are_warned_of_too(text: str, is_warned: bool) -> None:
    """They also depend on vectors, and write no embeddings file that would report it."""
    Path("text.txt").write_text(text, encoding="utf-8")
    Path("words.txt").write_text("Bank\nder\nLicht\nSie\nthe\na\nder\nam\nAm\nDie\nvor\n")
    Path("train.conll").write_text("Anna B-PER\nslept O\n")
    files = ("--train", "train.conll", "--dev", "train.conll")
    sizes = ("--epochs", 1, "--set", "hidden=4", "--set", "char_filters=4")
    made("train", "ner", *files, *sizes, "-m", "./model", "-o", "ner", "-q")
    for command in (
        ("usages", "text.txt", "--words", "words.txt", "-m", "model", "-o", "a.npz"),
        ("predict", "ner", "text.txt", "-o", "a.conll"),
        ("predict", "ner", "-", "-o", "b.conll"),
    ):
        done = made(*command, stdin=text.encode())
        assert done.err.count(f"warning: {FIRST}") == is_warned, command
    usages = ("usages", "text.txt", "--words", "words.txt", "-m", "model", "-o", "b.npz", "--json")
    warnings = json.loads(made(*usages).out)["warnings"]
    assert sum(warning.startswith(FIRST) for warning in warnings) == is_warned


def test_predict_counts_the_first_tokens_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of several chunks."""
    Path("train.conll").write_text("Anna B-PER\nslept O\n")
    files = ("--train", "train.conll", "--dev", "train.conll")
    sizes = ("--epochs", 1, "--set", "hidden=4", "--set", "char_filters=4")
    made("train", "ner", *files, *sizes, "-m", "./model", "-o", "ner", "-q")
    monkeypatch.setattr(text_fit, "MAX_TOKENS", 30)
    Path("text.txt").write_text("xyzzy\n" * 29 + "the\n" * 31)
    err = made("predict", "ner", "text.txt", "-o", "a.conll").err
    assert f"warning: {FIRST}1 of the first 30 (3.3%), not 'xyzzy'" in err


@pytest.mark.parametrize(
    ("name", "text"), [("a.fasta", ">P1\nMKVLAAGIVG\n"), ("a.txt", "M K V L A A G I V G\n")]
)
def test_embed_warns_of_proteins_for_a_model_of_words(name: str, text: str) -> None:
    """Each letter is a word of English texts too, so all tokens are in the vocabulary."""
    warning = "the model was trained on words; choose a model of proteins with `--model`"
    Path(name).write_text(text)
    assert warning in made("embed", name, "-m", "model", "-o", "a.hdf5").err
    Path("model/vocab.txt").write_text(HEAD + "\n".join("ACDEFGHIKLMNPQRSTVWY") + "\n")
    assert warning not in made("embed", name, "-m", "model", "-o", "b.hdf5").err


@pytest.mark.parametrize(
    ("text", "are_residues"), [("A B C D E", True), ("A B C D A", False), ("A B C D E F g", False)]
)
def test_few_letters_may_be_words(text: str, are_residues: bool) -> None:
    err = made("embed", "-", "-m", "model", "-o", "-", stdin=text.encode()).err
    assert ("all tokens are single letters" in err) == are_residues


def test_the_example_of_what_is_unknown_has_the_three_most_frequent() -> None:
    counts = Counter("a" * 9 + "xyz" * 2 + "yz" * 2 + "z" + "w")
    point = _known_fit(FIRST_CHARACTERS_KNOWN, counts, "a")
    assert (point.n_fitting, point.n_all, point.example) == (9, 21, "z y x")


def test_embed_counts_the_first_tokens_only() -> None:
    """Also of a pipe, which can be read only once, and of a run that is resumed."""
    text = "the cat\n" * 799 + f"{'xyzzy ' * 50}\n" * 200
    words = ("embed", "-", "-o", "out.hdf5", "-m", "model", "--json")
    first = fit_of(made(*words, stdin=text.encode()))
    expected = {"fitting": 1598, "of": 10_000, "example": "xyzzy"}
    assert first == {"first_tokens_in_vocabulary": expected}
    assert fit_of(made(*words, "--resume", stdin=text.encode())) == first


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("the cat\n" * 999, "1,998"),
        ("the cat\n" * 1001, "the first 2,000"),  # sentences of the first block
        ("the cat\n" * 99 + "the " * 9802 + "\nthe cat\n", "the first 10,000"),
    ],
    ids=["all", "sentences", "tokens"],
)
def test_embed_says_whether_it_has_counted_the_first_tokens_only(
    text: str, counted: str, output: str
) -> None:
    Path("text.txt").write_text(text)
    err = made("embed", "text.txt", "-m", "model", *OUTPUTS[output]).err
    n_tokens = counted.removeprefix("the first ")
    assert f"{FIRST}{n_tokens} of {counted} (100.0%)\n" in err


def test_the_first_tokens_may_be_those_before_a_very_long_sentence() -> None:
    """It begins a block, and the tokens of one block are compared."""
    Path("text.txt").write_text("the cat\n" * 2 + "the " * TOKENS + "\n")
    err = made("embed", "text.txt", "-m", "model", "-o", "out.hdf5", "--layers", "0").err
    assert f"{FIRST}4 of the first 4 (100.0%)\n" in err


def test_embed_needs_no_vocabulary(tiny: Path) -> None:
    """A model without one has nothing to report, and one that cannot be read stops nothing."""
    without = made("embed", "german.txt", "-m", tiny, "-o", "a.hdf5", "--json")
    assert fit_of(without) == {}
    assert "vocabulary" not in without.err
    Path("model/vocab.txt").write_text(f"{HEAD}the\t12\n")
    done = made("embed", "german.txt", "-m", "model", "-o", "b.hdf5", "--json")
    assert fit_of(done) == {}
    assert r"warning: model/vocab.txt, line 4: a tab in 'the\t12'" in done.err
    Path("types.txt").write_text("Haus\nGarten\n")  # itself a vocabulary
    done = made("embed", "types.txt", "-m", "model", "-o", "c.hdf5", "--layout", "bilm-types")
    assert "vocabulary" not in done.err


# -- elmo pretrain and finetune -------------------------------------------------------------------

FOREIGN = {  # vocabularies in which nothing, or little, of the text is known
    "other words": f"{HEAD}der\ndie\ndas\n",
    "capitals": f"{HEAD}THE\nCAT\nDOG\n",
    "counts after a space": f"{HEAD}the 120\ncat 80\ndog 20\n",
    "counts before": f"{HEAD}120 the\n80 cat\n20 dog\n",
    "commas": f"{HEAD}the,120\ncat,80\n. ,9\n",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_pretrain_refuses_a_vocabulary_that_knows_no_token(name: str) -> None:
    """It would learn to predict <UNK>, with a perplexity of almost 1."""
    Path("vocab.txt").write_text(FOREIGN[name])
    done = elmo(*PRETRAIN, "--vocabulary", "vocab.txt")
    problem = "text.txt: tokens of the training text in the vocabulary: none"
    refused(done, 1, problem, "one type per line")
    assert not Path("m").exists()


@pytest.mark.parametrize("command", ["pretrain", "perplexity", "finetune"])
def test_a_vocabulary_with_counts_is_refused_with_its_line(command: str) -> None:
    Path("vocab.txt").write_text(f"{HEAD}.\t150\nthe\t67\n")
    words = {
        "pretrain": PRETRAIN,
        "perplexity": ("perplexity", "text.txt", "-m", BUNDLED),
        "finetune": ("finetune", "--domain", "text.txt", "-m", "model", "-o", "m"),
    }
    done = elmo(*words[command], "--vocabulary", "vocab.txt")
    refused(done, 1, r"vocab.txt, line 4: a tab in '.\t150'", "`cut -f1 FILE > NEW_FILE`")


def test_pretrain_reports_the_fit_of_its_texts() -> None:
    """The report comes before the first step, and each perplexity has its unknown fraction."""
    Path("vocab.txt").write_text(f"{HEAD}the\ncat\n.\n")
    Path("dev.txt").write_text("the cat sees the dog .\nthe cat .\n")
    done = made(*PRETRAIN, "--vocabulary", "vocab.txt", "--heldout", "dev.txt", "--json")
    expected = {
        "train_in_vocabulary": {"fitting": 200, "of": 380, "example": "sees"},
        "heldout_in_vocabulary": {"fitting": 7, "of": 9, "example": "sees"},
        "heldout_in_train": {"fitting": 1, "of": 2, "example": ""},
    }
    assert fit_of(done) == expected
    lines = done.err.splitlines()
    (first,) = [number for number, line in enumerate(lines) if "training text in" in line]
    train, heldout, known = lines[first : first + 3]
    assert train.startswith("warning: tokens of the training text in the vocabulary: 200 of 380 ")
    assert "raw text need `--tokenize`?" in train
    assert heldout == "tokens of the held-out text in the vocabulary: 7 of 9 (77.8%)"
    assert known.startswith("warning: held-out sentences that are in the training text too: 1 of 2")
    evaluations = [line for line in lines[first:] if ": perplexity " in line]
    assert evaluations
    assert all(line.endswith("22.2% unknown") for line in evaluations)
    resumed = made("pretrain", "-o", "m", "--resume", "--max-steps", 2, "--json")
    assert fit_of(resumed) == expected


def test_pretrain_compares_the_text_with_the_model_that_it_starts_from() -> None:
    made(*PRETRAIN)
    start = ("--init-from", "m", "-o", "n", "--threads", 1, "--batch-size", 2, "--max-steps", 1)
    Path("german.txt").write_text(GERMAN * 20, encoding="utf-8")
    err = made("pretrain", "german.txt", *start).err
    assert "warning: tokens of the training text in the vocabulary: 100 of " in err


@pytest.mark.parametrize(
    ("sentence", "code"), [("cat dog {}", 1), ("the xyzzy {}", 0)], ids=["none", "few"]
)
def test_finetune_reports_the_fit_of_its_texts(sentence: str, code: int) -> None:
    """A held-out text of which the vocabulary knows nothing cannot choose weights."""
    Path("types.txt").write_text(f"{HEAD}the\nsees\n.\n")
    Path("dev.txt").write_text("".join(f"{sentence.format(k)}\n" for k in range(30)))
    words = ("--softmax-tokens", 100, "--batch-size", 2, "--max-steps", 1, "--threads", 1, "--json")
    texts = ("--domain", "text.txt", "--heldout", "dev.txt", "--vocabulary", "types.txt")
    done = elmo("finetune", *texts, "-m", "model", "-o", "tuned", *words)
    assert done.code == code, done.err
    if code:
        refused(done, 1, "text.txt: tokens of the validation text in the vocabulary: none", "")
        assert not Path("tuned").exists()
        return
    fit = fit_of(done)
    assert fit["train_in_vocabulary"]["of"] == 380
    assert fit["validation_in_vocabulary"]["example"] == "xyzzy"
    assert fit["test_in_vocabulary"]["fitting"] * 3 == fit["test_in_vocabulary"]["of"]
    assert fit["heldout_in_train"]["fitting"] == 0
    before_training = done.err.split("before: perplexity")[0]
    assert "warning: tokens of the test text in the vocabulary: " in before_training


@pytest.mark.parametrize(
    ("text", "is_warned"),
    [("cat\ndog\n" * 20, True), ("cat\ndog\n" * 20 + "a cat\n", False)],
)
def test_training_on_a_column_of_words_is_warned_of(text: str, is_warned: bool) -> None:
    """No token is predicted from another one; `elmo embed` takes such a text for types."""
    Path("text.txt").write_text(text)
    warning = "warning: text.txt: each sentence has one token, so that no token is predicted"
    assert (warning in made(*PRETRAIN).err) == is_warned
    made("embed", "text.txt", "-m", "model", "-o", "a.hdf5")
    Path("heldout.txt").write_text("the cat sees the dog .\na dog sees a cat .\nno bird\n")
    files = ("--domain", "text.txt", "--heldout", "heldout.txt", "--batch-size", 1)
    done = made("finetune", *files, "-m", "m", "-o", "tuned", "--max-steps", 1, "--device", "cpu")
    assert (warning in done.err) == is_warned
