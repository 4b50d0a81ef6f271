"""The text of a domain: nothing is both trained on and measured, and test files choose nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_cli.errors import ElmoError, InputError, TrainingError, UsageError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.finetune.domain import Domain, DomainTexts, draw_halves, find_texts, read_domain
from elmo_cli.text.input import InputReport, InputSettings

WORDS = ["river", "bank", "water", "boat", "harbour", "day", "year", "long", "new", "old"]
Texts = list[list[str]]


def documents(n: int, seed: int = 1, n_sentences: int | None = None) -> Texts:
    """Documents of different sentences of 7 tokens, each of 1 to 8 sentences unless given."""
    rng = random.Random(seed)
    return [
        [" ".join(rng.choices(WORDS, k=7)) for _ in range(n_sentences or rng.randint(1, 8))]
        for _ in range(n)
    ]


def joined(texts: Texts) -> Texts:
    """All sentences as one document."""
    return [[sentence for text in texts for sentence in text]]


def write(path: Path, texts: Texts) -> str:
    path.write_text("\n\n".join("\n".join(text) for text in texts) + "\n")
    return str(path)


def sentences(corpus: Corpus) -> list[str]:
    pairs = zip(corpus.starts[:-1] + 1, corpus.starts[1:] - 1, strict=True)
    return [" ".join(corpus.types[k] for k in corpus.tokens[a:b]) for a, b in pairs]


@pytest.fixture
def split(tmp_path: Path) -> Callable[[Texts], Domain]:
    return lambda texts: read_domain(DomainTexts((write(tmp_path / "a.txt", texts),)))


LARGE = [[f"{one} {k}" for k, one in enumerate(joined(documents(300))[0])]]
NOTES = [[f"note {k} ."] for k in range(30)]
# text, unit, number of held-out units (None for at least 2), least and greatest fraction
TABLE: dict[str, tuple[Texts, str, int | None, float, float]] = {
    "1,500 documents": (documents(1500), "documents", None, 0.09, 0.11),
    "24 documents": (documents(24, n_sentences=8), "documents", 6, 0.2, 0.25),
    "8 documents": (documents(8, n_sentences=9), "documents", 2, 0.25, 0.25),
    "4 documents": (documents(4, n_sentences=30), "documents", 2, 0.5, 0.5),
    "3 documents": (documents(3, n_sentences=30), "sentences", None, 0.2, 0.3),
    "1 document": (joined(documents(150)), "sentences", None, 0.2, 0.3),
    "20 sentences": ([joined(documents(9))[0][:20]], "sentences", 6, 0.3, 0.35),
    "notes and a large document": (NOTES + LARGE, "sentences", None, 0.2, 0.3),
}


@pytest.mark.parametrize("name", TABLE)
def test_part_that_is_held_out(name: str, split: Callable[[Texts], Domain]) -> None:
    """Halves of a document on both sides would make the held-out figures too good."""
    texts, unit, n_units, least, most = TABLE[name]
    domain = split(texts)
    everything, parts = joined(texts)[0], (domain.train, domain.validation, domain.test)
    sets = [set(sentences(part)) for part in parts]
    n_tokens = [part.n_tokens for part in parts]
    assert least <= sum(n_tokens[1:]) / sum(n_tokens) <= most
    assert 1 / 3 <= n_tokens[1] / n_tokens[2] <= 3
    for part, own in zip(parts, sets, strict=True):
        assert sentences(part) == [s for s in everything if s in own]
    assert len(set.union(*sets)) == sum(map(len, sets))
    assert (domain.unit, domain.overlap) == (unit, 0)
    counts = [int(source.split()[0]) for source in domain.sources.values()]
    assert all(source.endswith(" of the domain") for source in domain.sources.values())
    if unit == "documents":
        sides = [{k for k, text in enumerate(texts) if own.intersection(text)} for own in sets]
        assert sum(map(len, sides)) == len(set.union(*sides)) == len(texts)
        assert counts == list(map(len, sides[1:]))
        assert sets[0] == {sentence for k in sides[0] for sentence in texts[k]}
    assert sum(counts) == n_units if n_units else sum(counts) >= 2


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
    large = joined(documents(12, n_sentences=4, seed=seed + 100))
    domain = split(documents(7, n_sentences=9, seed=seed) + large)
    assert domain.unit == "documents"
    assert set(large[0]) <= set(sentences(domain.train))


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        (documents(50), "documents"),
        (documents(2, n_sentences=5), "documents"),
        (LARGE + documents(3), "sentences"),
        ([["a river .", "a boat ."]], "sentences"),
    ],
    ids=["documents", "two documents", "a large document", "two sentences"],
)
def test_halves_of_a_named_text(texts: Texts, unit: str, tmp_path: Path) -> None:
    """What chose the weights would measure them too well."""
    a, dev = write(tmp_path / "a.txt", documents(9, seed=2)), write(tmp_path / "b.txt", texts)
    domain = read_domain(DomainTexts((a,), (dev,)))
    halves = [sentences(domain.validation), sentences(domain.test)]
    assert sorted(halves[0] + halves[1]) == sorted(joined(texts)[0])
    assert min(map(len, halves)) >= len(joined(texts)[0]) / 4
    assert domain.unit == unit
    if unit == "documents":
        assert all(set(text) <= set(halves[text[0] in halves[1]]) for text in texts)
    assert all(source.endswith(f" of {dev}") for source in domain.sources.values())


@pytest.mark.parametrize("has_dev", [True, False])
def test_files_named_test_only_measure(has_dev: bool, tmp_path: Path) -> None:
    texts = documents(60)
    names = ("a.txt", "dev.txt", "test.txt")
    parts = (texts[:40], texts[40:50], texts[50:])
    a, dev, test = (write(tmp_path / name, some) for name, some in zip(names, parts, strict=True))
    domain = read_domain(find_texts([a], [test, dev] if has_dev else [test]))
    assert sentences(domain.test) == joined(texts[50:])[0]
    assert (domain.unit, domain.sources["test"]) == ("files", test)
    chosen_on = set(sentences(domain.validation))
    assert chosen_on.isdisjoint(sentences(domain.train))
    assert (chosen_on == set(joined(texts[40:50])[0])) == has_dev
    assert (chosen_on <= set(joined(texts[:40])[0])) == (not has_dev)


def test_split_depends_on_content_alone(tmp_path: Path, split: Callable[[Texts], Domain]) -> None:
    """Else a model could be trained on what it is measured on later; web pages occur many times."""
    texts = documents(100)
    parts = [write(tmp_path / f"{k}.txt", texts[k::3]) for k in range(3)]
    three = read_domain(DomainTexts(tuple(parts[::-1])))
    assert sorted(sentences(split(texts).test)) == sorted(sentences(three.test))
    domain = split(documents(60) * 3)
    sides = [set(sentences(part)) for part in (domain.train, domain.validation, domain.test)]
    assert sum(map(len, sides)) == len(set.union(*sides))


@pytest.mark.parametrize("lines", [["one sentence only ."], WORDS[:9], ["the same line ."] * 100])
def test_text_that_cannot_be_split(lines: list[str], split: Callable[[Texts], Domain]) -> None:
    with pytest.raises(TrainingError, match="too few or too similar"):
        split([lines])


def test_known_text_is_reported(tmp_path: Path) -> None:
    """Figures on known text look like success."""
    texts, report = documents(50), InputReport()
    a = write(tmp_path / "a.txt", texts)
    b = write(tmp_path / "b.txt", texts[:20] + documents(5, seed=2))
    domain = read_domain(DomainTexts((a,), (b,)), report=report)
    known = set(joined(texts[:20])[0])
    assert sentences(domain.train) == joined(texts)[0]
    n_known = sum(sentence in known for sentence in sentences(domain.test))
    assert domain.overlap == n_known / domain.test.n_sentences > 0.1
    assert "of the held-out sentences are in the training text too" in " ".join(report.warnings)


def test_settings_reach_the_readers(tmp_path: Path) -> None:
    report = InputReport()
    reading = InputSettings(tokenize=True, max_characters=8)
    lines = [f"Boat {k} left the bank. It did." for k in range(30)]
    texts = DomainTexts((write(tmp_path / "a.txt", [[*lines, "x" * 9]]),))
    domain = read_domain(texts, reading, report=report)
    parts = (domain.train, domain.validation, domain.test)
    assert 50 < sum(part.n_sentences for part in parts) <= 61
    assert "bank." not in domain.train.types
    assert report.truncated_tokens == 1


def test_sample_is_from_the_whole_text() -> None:
    whole = Corpus.read(line.split() for line in joined(documents(200))[0])
    some = whole.sample_evenly(whole.n_tokens // 10)
    assert sentences(some) == sentences(whole)[::10]
    assert some.characters.shape[0] == len(some.types) <= len(whole.types)
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
    found = find_texts([str(tmp_path)])
    sides = {HELD_OUT: found.heldout, NOT_READ: found.not_read, TRAIN: found.train}
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
    a, dev = str(folder / "a.txt"), str(folder / "dev.txt")
    assert find_texts([str(folder)], [named]) == DomainTexts((a,), (named,), (), (dev,))
    assert find_texts([str(folder), dev]) == DomainTexts((a, str(folder / "b.txt")), (dev,))
    assert find_texts([dev]).train == (dev,)


@pytest.mark.parametrize(
    ("file", "heldout", "error"),
    [
        (".hidden", [], InputError),
        ("table.tsv", [], InputError),
        ("dev.txt", [], UsageError),
        ("test.txt", [], UsageError),
        ("a.txt", ["a.txt"], UsageError),
    ],
)
def test_folders_without_training_text(
    file: str, heldout: list[str], error: type[ElmoError], tmp_path: Path
) -> None:
    (tmp_path / file).write_text("x\n")
    with pytest.raises(error):
        find_texts([str(tmp_path)], [str(tmp_path / name) for name in heldout])


def test_a_document_that_occurs_often_is_not_held_out(split: Callable[[Texts], Domain]) -> None:
    """All its occurrences would be: most of the text."""
    texts = [documents(1, k, 9 + k)[0] for k in range(8)]
    domain = split(texts + [texts[6]] * 20)
    assert domain.unit == "documents"
    assert set(texts[6]) <= set(sentences(domain.train))
