"""The text of a domain: nothing is both trained on and measured, and test files choose nothing."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from elmo_cli.errors import ElmoError, InputError, TrainingError, UsageError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.finetune.domain import Domain, DomainTexts, draw_halves, find_texts, read_domain
from elmo_cli.text.input import InputReport, InputSettings

WORDS = ["river", "bank", "water", "boat", "harbour", "day", "year", "long", "new", "old"]
Texts = list[list[str]]  # the sentences of documents


def documents(n: int, seed: int = 1, n_sentences: int | None = None) -> Texts:
    """Documents of different sentences of 7 tokens, each of 1 to 8 sentences unless given."""
    rng = random.Random(seed)
    texts = []
    for _ in range(n):
        n_own = n_sentences or rng.randint(1, 8)
        texts.append([" ".join(rng.choices(WORDS, k=7)) for _ in range(n_own)])
    return texts


def all_sentences(texts: Texts) -> list[str]:
    return [sentence for text in texts for sentence in text]


def write(path: Path, texts: Texts) -> str:
    path.write_text("\n\n".join("\n".join(text) for text in texts) + "\n")
    return str(path)


def sentences(corpus: Corpus) -> list[str]:
    texts = []
    for begin, end in pairwise(corpus.starts.tolist()):
        tokens = corpus.tokens[begin + 1 : end - 1]  # without <S> and </S>
        texts.append(" ".join(corpus.types[k] for k in tokens))
    return texts


def numbers_of_documents(corpus: Corpus, texts: Texts) -> list[int]:
    """The documents of which the corpus has a sentence."""
    own = set(sentences(corpus))
    return [number for number, text in enumerate(texts) if own.intersection(text)]


@pytest.fixture
def split(tmp_path: Path) -> Callable[[Texts], Domain]:
    """Reads documents as a domain without held-out text."""

    def read(texts: Texts) -> Domain:
        return read_domain(DomainTexts((write(tmp_path / "a.txt", texts),)))

    return read


class SplitCase(NamedTuple):
    """A text without held-out text, and what of it is held out."""

    texts: Texts
    unit: str
    n_units: int | None  # None for at least 2
    least: float  # fraction of the tokens
    most: float


NUMBERED = [f"{sentence} {k}" for k, sentence in enumerate(all_sentences(documents(300)))]
NOTES = [[f"note {k} ."] for k in range(30)]
TWENTY = all_sentences(documents(9))[:20]
CASES = {
    "1,500 documents": SplitCase(documents(1500), "documents", None, least=0.09, most=0.11),
    "24 documents": SplitCase(
        documents(24, n_sentences=8), "documents", n_units=6, least=0.2, most=0.25
    ),
    "8 documents": SplitCase(
        documents(8, n_sentences=9), "documents", n_units=2, least=0.25, most=0.25
    ),
    "4 documents": SplitCase(
        documents(4, n_sentences=30), "documents", n_units=2, least=0.5, most=0.5
    ),
    "3 documents": SplitCase(
        documents(3, n_sentences=30), "sentences", n_units=None, least=0.2, most=0.3
    ),
    "1 document": SplitCase(
        [all_sentences(documents(150))], "sentences", n_units=None, least=0.2, most=0.3
    ),
    "20 sentences": SplitCase([TWENTY], "sentences", n_units=6, least=0.3, most=0.35),
    "notes and a large document": SplitCase(
        [*NOTES, NUMBERED], "sentences", n_units=None, least=0.2, most=0.3
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_part_that_is_held_out(name: str, split: Callable[[Texts], Domain]) -> None:
    """Too little measures nothing, and too much leaves nothing to train on."""
    case = CASES[name]
    domain = split(case.texts)
    n_validation = domain.validation.n_tokens
    n_test = domain.test.n_tokens
    n_held_out = n_validation + n_test
    assert case.least <= n_held_out / (n_held_out + domain.train.n_tokens) <= case.most
    assert 1 / 3 <= n_validation / n_test <= 3
    assert domain.unit == case.unit
    counts = []
    for name, source in domain.sources.items():
        corpus: Corpus = getattr(domain, name)
        n_documents = len(corpus.documents) - 1
        if case.unit == "documents":
            assert re.fullmatch(f"{n_documents} documents? of the domain", source)
            counts.append(n_documents)
        else:
            assert source == "the domain"
            counts.append(corpus.n_sentences)
    if case.n_units is None:
        assert sum(counts) >= 2
    else:
        assert sum(counts) == case.n_units


@pytest.mark.parametrize("name", CASES)
def test_each_sentence_is_on_one_side(name: str, split: Callable[[Texts], Domain]) -> None:
    """What is trained on must not be measured; the sentences of a side stay in order."""
    texts = CASES[name].texts
    domain = split(texts)
    sides = [sentences(corpus) for corpus in (domain.train, domain.validation, domain.test)]
    for side in sides:
        own = set(side)
        assert side == [sentence for sentence in all_sentences(texts) if sentence in own]
    n_different = len(set(all_sentences(texts)))
    assert sum(len(set(side)) for side in sides) == n_different
    assert domain.overlap.n_fitting == 0


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].unit == "documents"])
def test_held_out_documents_are_whole(name: str, split: Callable[[Texts], Domain]) -> None:
    """Parts of a document on both sides would make the held-out figures too good."""
    texts = CASES[name].texts
    domain = split(texts)
    train = numbers_of_documents(domain.train, texts)
    validation = numbers_of_documents(domain.validation, texts)
    test = numbers_of_documents(domain.test, texts)
    assert sorted([*train, *validation, *test]) == list(range(len(texts)))
    for half, numbers in (("validation", validation), ("test", test)):
        assert domain.sources[half].startswith(f"{len(numbers)} document")


def test_half_of_the_text_is_trained_on() -> None:
    """Long documents could be drawn for both halves, one after the other."""
    for seed in range(20):
        rng = random.Random(seed)
        lengths = {rng.randbytes(8): 20 for _ in range(100)}
        lengths |= {rng.randbytes(8): 1000 for _ in range(6)}
        halves = draw_halves(lengths, 0.6)
        n_held_out = sum(lengths[unit] for unit in halves)
        assert n_held_out <= sum(lengths.values()) / 2


def test_any_document_may_be_measured() -> None:
    """The figures describe documents that are not measured: none is preferred for its length."""
    n_measured = Counter[int]()
    for seed in range(200):
        rng = random.Random(seed)
        lengths = {rng.randbytes(8): 100 + k for k in range(40)}
        halves = draw_halves(lengths, 0.1)
        n_measured.update(lengths[unit] for unit, half in halves.items() if half == 2)
    assert len(n_measured) == 40
    n_short = sum(n_measured[length] for length in range(100, 120))
    assert n_short == pytest.approx(sum(n_measured.values()) / 2, rel=0.1)


def test_each_seed_holds_out_other_documents(tmp_path: Path) -> None:
    """So that a mean over seeds says more than one run; the same seed holds out the same ones."""
    texts = DomainTexts((write(tmp_path / "a.txt", documents(100)),))
    measured = [set(sentences(read_domain(texts, seed=seed).test)) for seed in (0, 0, 1)]
    assert measured[0] == measured[1]
    n_in_both = len(measured[0] & measured[2])
    assert n_in_both < len(measured[0]) / 2


@pytest.mark.parametrize("seed", range(8))
def test_a_large_document_is_not_held_out(seed: int, split: Callable[[Texts], Domain]) -> None:
    """Whatever its hash: too little would be left to train on."""
    large = all_sentences(documents(12, n_sentences=4, seed=seed + 100))
    domain = split([*documents(7, n_sentences=9, seed=seed), large])
    assert domain.unit == "documents"
    assert set(large) <= set(sentences(domain.train))


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        (documents(50), "documents"),
        (documents(2, n_sentences=5), "documents"),
        ([NUMBERED, *documents(3)], "sentences"),
        ([["a river .", "a boat ."]], "sentences"),
    ],
    ids=["documents", "two documents", "a large document", "two sentences"],
)
def test_halves_of_a_named_text(texts: Texts, unit: str, tmp_path: Path) -> None:
    """What chose the weights would measure them too well."""
    train = write(tmp_path / "a.txt", documents(9, seed=2))
    dev = write(tmp_path / "b.txt", texts)
    domain = read_domain(DomainTexts((train,), (dev,)))
    validation = sentences(domain.validation)
    test = sentences(domain.test)
    assert sorted(validation + test) == sorted(all_sentences(texts))
    assert min(len(validation), len(test)) >= len(all_sentences(texts)) / 4
    assert domain.unit == unit
    for source in domain.sources.values():
        assert source.endswith(f" of {dev}" if unit == "documents" else dev)


def test_documents_of_a_named_text_are_not_divided(tmp_path: Path) -> None:
    train = write(tmp_path / "a.txt", documents(9, seed=2))
    texts = documents(50)
    domain = read_domain(DomainTexts((train,), (write(tmp_path / "b.txt", texts),)))
    validation = numbers_of_documents(domain.validation, texts)
    test = numbers_of_documents(domain.test, texts)
    assert sorted(validation + test) == list(range(50))


@pytest.mark.parametrize("has_dev", [True, False])
def test_files_named_test_only_measure(has_dev: bool, tmp_path: Path) -> None:
    texts = documents(60)
    train = write(tmp_path / "a.txt", texts[:40])
    dev = write(tmp_path / "dev.txt", texts[40:50])
    test = write(tmp_path / "test.txt", texts[50:])
    domain = read_domain(find_texts([train], [test, dev] if has_dev else [test]))
    assert sentences(domain.test) == all_sentences(texts[50:])
    assert (domain.unit, domain.sources["test"]) == ("files", test)
    validation = set(sentences(domain.validation))
    assert validation.isdisjoint(sentences(domain.train))
    if has_dev:
        assert validation == set(all_sentences(texts[40:50]))
    else:
        assert validation <= set(all_sentences(texts[:40]))


def test_order_of_the_text_does_not_matter(
    tmp_path: Path, split: Callable[[Texts], Domain]
) -> None:
    """Else a model could be trained on what it is measured on later."""
    texts = documents(100)
    paths = [write(tmp_path / f"{k}.txt", texts[k::3]) for k in range(3)]
    domain = read_domain(DomainTexts((paths[2], paths[1], paths[0])))
    assert sorted(sentences(domain.test)) == sorted(sentences(split(texts).test))


def test_equal_documents_are_on_one_side(split: Callable[[Texts], Domain]) -> None:
    """Web pages occur many times."""
    texts = documents(60)
    domain = split(texts * 3)
    sides = [
        numbers_of_documents(corpus, texts)
        for corpus in (domain.train, domain.validation, domain.test)
    ]
    assert sorted(chain.from_iterable(sides)) == list(range(60))


@pytest.mark.parametrize("lines", [["one sentence only ."], WORDS[:9], ["the same line ."] * 100])
def test_text_that_cannot_be_split(lines: list[str], split: Callable[[Texts], Domain]) -> None:
    with pytest.raises(TrainingError, match="too few or too similar"):
        split([lines])


def test_known_text_is_reported(tmp_path: Path) -> None:
    """Figures on known text look like success."""
    texts = documents(50)
    known = set(all_sentences(texts[:20]))
    train = write(tmp_path / "a.txt", texts)
    dev = write(tmp_path / "b.txt", [*texts[:20], *documents(5, seed=2)])
    domain = read_domain(DomainTexts((train,), (dev,)))
    assert sentences(domain.train) == all_sentences(texts)
    n_known = sum(sentence in known for sentence in sentences(domain.test))
    assert domain.overlap.n_fitting == n_known
    assert domain.overlap.n_all == domain.test.n_sentences
    assert domain.describe()["test"]["overlap"] == domain.overlap.fraction > 0.1
    assert domain.overlap.warning


def test_settings_reach_the_readers(tmp_path: Path) -> None:
    report = InputReport()
    reading = InputSettings(tokenize=True, max_characters=8)
    lines = [f"Boat {k} left the bank. It did." for k in range(30)]
    texts = DomainTexts((write(tmp_path / "a.txt", [[*lines, "x" * 9]]),))
    domain = read_domain(texts, reading, report=report)
    n_sentences = sum(
        corpus.n_sentences for corpus in (domain.train, domain.validation, domain.test)
    )
    assert n_sentences == 61
    assert "bank." not in domain.train.types
    assert report.truncated_tokens == 1


def test_sample_is_from_the_whole_text() -> None:
    whole = Corpus.read(line.split() for line in all_sentences(documents(200)))
    sample = whole.sample_evenly(whole.n_tokens // 10)
    assert sentences(sample) == sentences(whole)[::10]
    assert sample.characters.shape[0] == len(sample.types) <= len(whole.types)
    assert sentences(whole.sample_evenly(10**9)) == sentences(whole)


HELD_OUT = "dev.txt Dev-2.txt.xz devset.txt development.jsonl val.txt held-out.txt heldout_2.txt "
HELD_OUT += "en_ewt-ud-dev.conllu wiki.valid.txt.gz news_dev_set-01.txt dev.english.v4_gold_conll "
NOT_READ = "test.txt tests.txt test_b.txt en_ewt-ud-test.conllu devtest.txt a-test-of-time.txt "
NOT_READ += "dev-test.txt README.md table.tsv table.tsv.gz .d.txt validation a.json "
TRAIN = "b.txt a.conllu c.jsonl d.txt.gz e.gz cnn_0001.v4_gold_conll latest.txt testimony.txt "
TRAIN += "devices.txt contest-rules.txt valley.txt "


def test_what_the_name_of_a_file_decides(tmp_path: Path) -> None:
    """Text that a figure is measured on must not be learned, and a test set must not choose."""
    for name in (HELD_OUT + NOT_READ + TRAIN).split():
        (tmp_path / name).write_text("x\n")
    (tmp_path / "deeper").mkdir()
    texts = find_texts([str(tmp_path)])
    sides = {HELD_OUT: texts.heldout, NOT_READ: texts.not_read, TRAIN: texts.train}
    for names, paths in sides.items():
        assert [Path(path).name for path in paths] == sorted(names.split())


def test_named_held_out_files_are_not_trained_on(tmp_path: Path) -> None:
    """Under whatever name; the files that are held out by name are then not read."""
    folder = tmp_path / "domain"
    folder.mkdir()
    for name in ("a.txt", "b.txt", "dev.txt"):
        (folder / name).write_text("x\n")
    (tmp_path / "other.txt").symlink_to(folder / "b.txt")
    named = str(tmp_path / "other.txt")
    a = str(folder / "a.txt")
    b = str(folder / "b.txt")
    dev = str(folder / "dev.txt")
    assert find_texts([str(folder)], [named]) == DomainTexts(
        train=(a,), heldout=(named,), not_read=(dev,)
    )
    assert find_texts([str(folder), dev]) == DomainTexts(train=(a, b), heldout=(dev,))
    assert find_texts([dev]).train == (dev,)
    test = str(folder / "test.txt")
    Path(test).write_text("x\n")
    assert find_texts([str(folder)], [test]) == DomainTexts(
        train=(a, b), heldout=(dev,), test=(test,)
    )
    assert find_texts([str(folder)], [named, dev]).not_read == (test,)


@pytest.mark.parametrize(
    ("files", "heldout", "error", "problem"),
    [
        (".hidden", [], InputError, "contains no text, only 1 other file"),
        ("table.tsv notes.pdf", [], InputError, "contains no text, only 2 other files"),
        ("dev.txt", [], UsageError, "only held-out text ({}/dev.txt)"),
        ("test.txt", [], UsageError, "only held-out text ({}/test.txt)"),
        ("a.txt", ["a.txt"], UsageError, "only held-out text ({}/a.txt)"),
        ("a.txt test.txt", ["a.txt"], UsageError, "text ({0}/a.txt, {0}/test.txt)"),
    ],
)
def test_folders_without_training_text(
    files: str, heldout: list[str], error: type[ElmoError], problem: str, tmp_path: Path
) -> None:
    for file in files.split():
        (tmp_path / file).write_text("x\n")
    with pytest.raises(error) as caught:
        find_texts([str(tmp_path)], [str(tmp_path / name) for name in heldout])
    assert caught.value.problem.endswith(problem.format(tmp_path))


def test_a_document_that_occurs_often_is_not_held_out(split: Callable[[Texts], Domain]) -> None:
    """All its occurrences would be: most of the text."""
    texts = [documents(1, k, 9 + k)[0] for k in range(8)]
    domain = split(texts + [texts[6]] * 20)
    assert domain.unit == "documents"
    assert set(texts[6]) <= set(sentences(domain.train))


def test_files_named_test_leave_all_that_is_held_out_for_choosing(tmp_path: Path) -> None:
    texts = documents(60)
    train = write(tmp_path / "a.txt", texts[:40])
    test = write(tmp_path / "test.txt", texts[40:])
    domain = read_domain(find_texts([train], [test]))
    used = sentences(domain.train) + sentences(domain.validation)
    assert sorted(used) == sorted(all_sentences(texts[:40]))
