"""The text of a domain: which files are read, and that nothing is both trained on and measured."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from elmo_cli.errors import InputError, TrainingError, UsageError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.domain import Domain, evenly, read_domain
from elmo_cli.lm.domain_files import DomainFiles, domain_files
from elmo_cli.text.input import InputReport, InputSettings

WORDS = ["river", "bank", "water", "boat", "harbour", "day", "year", "long", "new", "old"]


def documents(n: int, seed: int = 1, sentences: int = 4) -> list[list[str]]:
    """Documents of different sentences."""
    made = random.Random(seed)
    return [
        [" ".join(made.choices(WORDS, k=7)) for _ in range(made.randint(1, 2 * sentences))]
        for _ in range(n)
    ]


def written(path: Path, texts: list[list[str]]) -> str:
    path.write_text("\n\n".join("\n".join(text) for text in texts) + "\n")
    return str(path)


def sentences(corpus: Corpus) -> list[str]:
    pairs = zip(corpus.starts[:-1] + 1, corpus.starts[1:] - 1, strict=True)
    return [" ".join(corpus.types[k] for k in corpus.tokens[a:b]) for a, b in pairs]


def domain_of(
    *paths: str, heldout: tuple[str, ...] = (), notes: InputReport | None = None
) -> Domain:
    return read_domain(DomainFiles(paths, heldout), notes=notes)


def test_whole_documents_are_set_apart(tmp_path: Path) -> None:
    """Halves of a document on both sides would make the held-out figures too good."""
    texts = documents(200)
    domain = domain_of(written(tmp_path / "a.txt", texts))
    held = set(sentences(domain.heldout))
    apart = [text for text in texts if set(text) <= held]
    assert sentences(domain.heldout) == [s for text in apart for s in text]
    assert sentences(domain.corpus) == [s for text in texts if text not in apart for s in text]
    n_tokens = domain.heldout.n_tokens + domain.corpus.n_tokens
    assert 0.05 <= domain.heldout.n_tokens / n_tokens <= 0.1
    assert domain.shared == 0
    assert "whole documents" in domain.how


def test_the_split_goes_by_content(tmp_path: Path) -> None:
    """In another order, or in more files, the same documents are held out; else a model could be
    trained on what it is measured on later."""
    texts = documents(100)
    one = domain_of(written(tmp_path / "one.txt", texts))
    parts = [written(tmp_path / f"{k}.txt", texts[k::3]) for k in range(3)]
    three = domain_of(*parts[::-1])
    assert sorted(sentences(one.heldout)) == sorted(sentences(three.heldout))


def test_equal_documents_go_to_one_side(tmp_path: Path) -> None:
    """Web text holds pages many times; one of them held out would be known by heart."""
    texts = documents(60) * 3
    domain = domain_of(written(tmp_path / "a.txt", texts))
    assert not set(sentences(domain.heldout)) & set(sentences(domain.corpus))


def test_text_without_documents_is_cut_into_pieces(tmp_path: Path) -> None:
    """A corpus with a sentence a line has no blank lines, and is the commonest form."""
    domain = domain_of(written(tmp_path / "a.txt", [[s for d in documents(150) for s in d]]))
    assert "pieces of 20 sentences" in domain.how
    assert domain.heldout.n_sentences % 20 == 0
    few = domain_of(written(tmp_path / "b.txt", [[s for d in documents(9) for s in d][:20]]))
    assert few.heldout.n_sentences == 1
    assert few.corpus.n_sentences == 19


@pytest.mark.parametrize("lines", [["one sentence only ."], WORDS[:9], ["the same line ."] * 100])
def test_what_cant_be_split_is_refused(tmp_path: Path, lines: list[str]) -> None:
    """Without it nothing would be measured, or what is trained on."""
    with pytest.raises(TrainingError, match="too few or too much alike"):
        domain_of(written(tmp_path / "a.txt", [lines]))


def test_held_out_text_that_is_trained_on_is_told(tmp_path: Path) -> None:
    """Figures on known text look like success."""
    texts, notes = documents(50), InputReport()
    domain = domain_of(
        written(tmp_path / "a.txt", texts),
        heldout=(written(tmp_path / "b.txt", texts[:5] + documents(5, seed=2)),),
        notes=notes,
    )
    n_known = sum(map(len, texts[:5]))
    assert domain.shared == n_known / domain.heldout.n_sentences
    assert "stand in the training text too" in " ".join(notes.warnings)


def test_evenly_takes_from_all_over(tmp_path: Path) -> None:
    """The beginning of a text alone is one document."""
    whole = domain_of(written(tmp_path / "a.txt", documents(200))).corpus
    some = evenly(whole, whole.n_tokens // 10)
    assert sentences(some) == sentences(whole)[::10]
    assert some.characters.shape[0] == len(some.types) <= len(whole.types)
    assert sentences(evenly(whole, 10**9)) == sentences(whole)


def test_a_folder_gives_its_texts(tmp_path: Path) -> None:
    """In order of name; tables and cards are no text; what is called held-out is not trained on."""
    for name in ("b.txt", "a.conllu", "c.jsonl", "README.md", "table.tsv", "heldout.txt", ".d.txt"):
        (tmp_path / name).write_text("x\n")
    for name in ("d.txt.gz", "e.gz", "table.tsv.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"x\n"))
    (tmp_path / "testimony.txt").write_text("x\n")
    (tmp_path / "deeper").mkdir()

    def names(paths: tuple[str, ...]) -> list[str]:
        return [Path(path).name for path in paths]

    found = domain_files([str(tmp_path)])
    train = ["a.conllu", "b.txt", "c.jsonl", "d.txt.gz", "e.gz", "testimony.txt"]
    assert names(found.train) == train
    assert names(found.heldout) == ["heldout.txt"]
    assert names(found.left_out) == [".d.txt", "README.md", "table.tsv", "table.tsv.gz"]
    named = domain_files([str(tmp_path)], [str(tmp_path / "b.txt")])
    assert names(named.heldout) == ["b.txt"]
    assert names(named.train) == [name for name in train if name != "b.txt"]
    assert "heldout.txt" in names(named.left_out)


@pytest.mark.parametrize(
    ("name", "is_held_out"),
    [
        ("dev.txt", True),
        ("Dev-2.txt.xz", True),
        ("devset.txt", True),
        ("development.jsonl", True),
        ("test_b.txt", True),
        ("tests.txt", True),
        ("held-out.txt", True),
        ("en_ewt-ud-dev.conllu", True),
        ("wiki.valid.txt.gz", True),
        ("news_dev_set-01.txt", True),
        ("dev.english.v4_gold_conll", True),
        ("cnn_0001.v4_gold_conll", False),
        ("validation", False),  # no text by its name
        ("latest.txt", False),
        ("testimony.txt", False),
        ("devices.txt", False),
        ("contest-rules.txt", False),
        ("a-test-of-time.txt", False),
    ],
)
def test_what_is_held_out_by_its_name(name: str, is_held_out: bool, tmp_path: Path) -> None:
    """Text that a figure is measured on must not be learned, whatever its names are at home."""
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / name).write_text("x\n")
    found = domain_files([str(tmp_path)])
    assert [Path(path).name for path in found.heldout] == [name] * is_held_out
    assert (str(tmp_path / name) in found.train) == (not is_held_out and name != "validation")


def test_places_without_text_are_refused(tmp_path: Path) -> None:
    """An empty folder, one of other files, and held-out text alone: each says what it is."""
    folder = str(tmp_path)
    with pytest.raises(InputError, match=r"no text in it \(the folder is empty\)"):
        domain_files([folder])
    (tmp_path / "table.tsv").write_text("x\n")
    with pytest.raises(InputError, match=r"no text in it \(1 file of another kind\)"):
        domain_files([folder])
    (tmp_path / "dev.txt").write_text("x\n")
    with pytest.raises(UsageError, match="nothing is left to train on but held-out text"):
        domain_files([folder])
    with pytest.raises(UsageError, match="a folder, not a file"):
        domain_files([folder], [folder])


def test_reading_is_as_asked(tmp_path: Path) -> None:
    """Raw text that is not taken apart would fill the vocabulary with `bank.`."""
    (tmp_path / "a.txt").write_text(
        "\n".join(f"Boat {k} left the bank. It did." for k in range(30))
    )
    files = DomainFiles((str(tmp_path / "a.txt"),), ())
    domain = read_domain(files, InputSettings(tokenize=True))
    assert domain.corpus.n_sentences + domain.heldout.n_sentences == 60
    assert "bank." not in domain.corpus.types


def test_a_few_notes_beside_a_large_text_are_not_the_held_out_text(tmp_path: Path) -> None:
    """Figures on a hundredth of a percent of a domain would say nothing, and choose the weights."""
    notes = [[f"note {k} ."] for k in range(30)]
    large = [[f"{one} {k}" for k, one in enumerate(s for d in documents(300) for s in d)]]
    domain = domain_of(written(tmp_path / "a.txt", notes + large))
    assert "pieces of 20 sentences" in domain.how
    assert domain.heldout.n_tokens / domain.corpus.n_tokens >= 0.04


def test_a_file_is_held_out_under_all_its_names(tmp_path: Path) -> None:
    """A text that is linked into the domain would be trained on and measured."""
    (tmp_path / "domain").mkdir()
    for name in ("a.txt", "b.txt"):
        written(tmp_path / "domain" / name, documents(3))
    (tmp_path / "other.txt").hardlink_to(tmp_path / "domain/b.txt")
    found = domain_files([str(tmp_path / "domain")], [str(tmp_path / "other.txt")])
    assert found.train == (str(tmp_path / "domain/a.txt"),)


def test_cut_tokens_are_counted_by_what_the_model_reads(tmp_path: Path) -> None:
    """A model of 20 characters cuts what one of 50 reads whole."""
    path, notes = written(tmp_path / "a.txt", [*documents(50), ["x" * 30]]), InputReport()
    read_domain(DomainFiles((path,), ()), max_characters=20, notes=notes)
    assert notes.truncated_tokens == 1
