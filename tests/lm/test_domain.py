"""The text of a domain: nothing is both trained on and measured, and test files choose nothing."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_cli.errors import ElmoError, InputError, TrainingError, UsageError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.finetune.domain import Domain, DomainTexts, find_texts, read_domain
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
TABLE: dict[str, tuple[Texts, str, float, float]] = {
    "200 documents": (documents(200), "whole documents", 0.05, 0.1),
    "20 documents": (documents(20, n_sentences=8), "whole documents", 0.05, 0.1),
    "8 documents": (documents(8, n_sentences=9), "whole documents", 0.12, 0.13),
    "3 documents": (documents(3, n_sentences=30), "whole documents", 0.33, 0.34),
    "2 documents": (documents(2, n_sentences=60), "blocks of 6 sentences", 0.05, 0.1),
    "1 document": (joined(documents(150)), "blocks of 20 sentences", 0.03, 0.1),
    "20 sentences": ([joined(documents(9))[0][:20]], "blocks of 1 sentences", 0.05, 0.05),
    "notes and a large document": (
        [[f"note {k} ."] for k in range(30)] + LARGE,
        "blocks of 20 sentences",
        0.04,
        0.1,
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_part_that_is_held_out(name: str, split: Callable[[Texts], Domain]) -> None:
    """Halves of a document on both sides would make the held-out figures too good."""
    texts, units, least, most = TABLE[name]
    domain = split(texts)
    everything = joined(texts)[0]
    held_out = set(sentences(domain.heldout))
    fraction = domain.heldout.n_tokens / (domain.heldout.n_tokens + domain.train.n_tokens)
    assert least <= fraction <= most
    assert domain.source == f"{fraction:.1%} of the domain, {units}"
    assert sentences(domain.heldout) == [s for s in everything if s in held_out]
    assert sentences(domain.train) == [s for s in everything if s not in held_out]
    assert domain.overlap == 0
    if units == "whole documents":
        whole = [text for text in texts if held_out.intersection(text)]
        assert held_out == set(joined(whole)[0])


def test_split_depends_on_content_alone(tmp_path: Path, split: Callable[[Texts], Domain]) -> None:
    """Else a model could be trained on what it is measured on later."""
    texts = documents(100)
    parts = [write(tmp_path / f"{k}.txt", texts[k::3]) for k in range(3)]
    three = read_domain(DomainTexts(tuple(parts[::-1])))
    assert sorted(sentences(split(texts).heldout)) == sorted(sentences(three.heldout))


def test_equal_documents_are_on_one_side(split: Callable[[Texts], Domain]) -> None:
    """Web text contains pages many times."""
    domain = split(documents(60) * 3)
    assert not set(sentences(domain.heldout)) & set(sentences(domain.train))


@pytest.mark.parametrize("lines", [["one sentence only ."], WORDS[:9], ["the same line ."] * 100])
def test_text_that_cannot_be_split(lines: list[str], split: Callable[[Texts], Domain]) -> None:
    with pytest.raises(TrainingError, match="too few or too similar"):
        split([lines])


def test_named_held_out_text(tmp_path: Path) -> None:
    """Figures on known text look like success: they are reported with their overlap."""
    texts, report = documents(50), InputReport()
    a = write(tmp_path / "a.txt", texts)
    b = write(tmp_path / "b.txt", texts[:5] + documents(5, seed=2))
    domain = read_domain(DomainTexts((a,), (b,)), report=report)
    assert (domain.source, sentences(domain.train)) == (b, joined(texts)[0])
    assert domain.overlap == sum(map(len, texts[:5])) / domain.heldout.n_sentences
    assert "of the held-out sentences are in the training text too" in " ".join(report.warnings)


def test_settings_reach_the_readers(tmp_path: Path) -> None:
    path, report = tmp_path / "a.txt", InputReport()
    path.write_text(
        "\n".join(f"Boat {k} left the bank. It did." for k in range(30)) + " " + "x" * 9
    )
    texts = DomainTexts((str(path),))
    domain = read_domain(texts, InputSettings(tokenize=True), max_characters=8, report=report)
    assert domain.train.n_sentences + domain.heldout.n_sentences == 61
    assert "bank." not in domain.train.types
    assert report.truncated_tokens == 1


def test_sample_is_from_the_whole_text() -> None:
    whole = Corpus.read(line.split() for line in joined(documents(200))[0])
    some = whole.sample_evenly(whole.n_tokens // 10)
    assert sentences(some) == sentences(whole)[::10]
    assert some.characters.shape[0] == len(some.types) <= len(whole.types)
    assert sentences(whole.sample_evenly(10**9)) == sentences(whole)


HELD_OUT = "dev.txt Dev-2.txt.xz devset.txt development.jsonl val.txt held-out.txt heldout_2.txt "
HELD_OUT += "en_ewt-ud-dev.conllu wiki.valid.txt.gz news_dev_set-01.txt dev.english.v4_gold_conll"
NOT_READ = "test.txt tests.txt test_b.txt en_ewt-ud-test.conllu devtest.txt a-test-of-time.txt "
NOT_READ += "dev-test.txt README.md table.tsv table.tsv.gz .d.txt validation a.json"
TRAIN = "b.txt a.conllu c.jsonl d.txt.gz e.gz cnn_0001.v4_gold_conll latest.txt testimony.txt "
TRAIN += "devices.txt contest-rules.txt valley.txt"


@pytest.mark.parametrize(
    ("names", "where"),
    [(HELD_OUT, "heldout"), (NOT_READ, "not_read"), (TRAIN, "train")],
    ids=["held out", "not read", "trained on"],
)
def test_what_the_name_of_a_file_decides(names: str, where: str, tmp_path: Path) -> None:
    """Text that a figure is measured on must not be learned, and a test set must not choose."""
    for name in (*names.split(), "z.txt"):
        (tmp_path / name).write_bytes(gzip.compress(b"x\n") if name.endswith(".gz") else b"x\n")
    (tmp_path / "deeper").mkdir()
    found = find_texts([str(tmp_path)])
    assert [Path(path).name for path in getattr(found, where) if "z.txt" not in path] == sorted(
        names.split()
    )


def test_named_held_out_files_are_not_trained_on(tmp_path: Path) -> None:
    """Under whatever name; the files that are held out by name are then not read."""
    folder = tmp_path / "domain"
    folder.mkdir()
    for name in ("a.txt", "b.txt", "dev.txt"):
        (folder / name).write_text("x\n")
    (tmp_path / "other.txt").hardlink_to(folder / "b.txt")
    named = str(tmp_path / "other.txt")
    a, dev = str(folder / "a.txt"), str(folder / "dev.txt")
    assert find_texts([str(folder)], [named]) == DomainTexts((a,), (named,), (dev,))
    assert find_texts([str(folder), dev]) == DomainTexts((a, str(folder / "b.txt")), (dev,))
    assert find_texts([dev]).train == (dev,)


@pytest.mark.parametrize(
    ("files", "heldout", "error"),
    [
        ([], [], InputError),
        (["table.tsv"], [], InputError),
        (["dev.txt"], [], UsageError),
        (["test.txt"], [], UsageError),
        (["a.txt"], ["a.txt"], UsageError),
    ],
)
def test_folders_without_training_text(
    files: list[str], heldout: list[str], error: type[ElmoError], tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).write_text("x\n")
    with pytest.raises(error):
        find_texts([str(tmp_path)], [str(tmp_path / name) for name in heldout])
