"""The copies of texts in which some documents are spelled as in treebanks."""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

import pytest

from benchmarks.model_card import treebank_text
from elmo_cli.lm.corpus import Corpus, read_corpus
from elmo_cli.lm.pretrain_config import PretrainConfig
from elmo_cli.model_folder import RECIPE_FILE

RECIPE = Path(__file__).parents[2] / "weights/elmo-en" / RECIPE_FILE
PARAGRAPHS = [
    '"Go (now)," she said. He [really] went {home}.',
    'The cat sat. "Why?" it asked.',
    'She didn\'t know "it" (the answer).',
]
# Of the version that spelled documents while it read the text (`treebank-fraction` 0.125).
TRAIN = "1380 tokens, 35 documents, crc c2114be8"
TRAIN_200 = "409 tokens, 12 documents, crc 4645aedd"  # with `train-tokens-per-file` 200
HELDOUT = "138 tokens, 4 documents, crc 718452da"


def document(number: int, n_paragraphs: int) -> str:
    lines = []
    for k in range(n_paragraphs):
        lines.append(f"Document {number}, paragraph {k}. {PARAGRAPHS[(number + k) % 3]}\n")
    return "".join(lines)


def write_raw(path: Path, numbers: range) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    documents = [document(number, 1 + k % 3) for k, number in enumerate(numbers)]
    path.write_bytes(lzma.compress("\n".join(documents).encode()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with texts as the bundled model was trained on."""
    folder = tmp_path / "data"
    write_raw(folder / "train/fiction-001.txt.xz", range(20))
    write_raw(folder / "train/web-001.txt.xz", range(100, 115))
    write_raw(folder / "train/web-002.txt.xz", range(300, 305))  # which the recipe does not read
    write_raw(folder / "heldout/web.txt.xz", range(200, 204))
    return folder


def copied(data: Path, monkeypatch: pytest.MonkeyPatch, *words: object) -> Path:
    """The folder that the script writes."""
    folder = data.parent / "copies"
    arguments = ["treebank_text", data, "-o", folder, *words]
    monkeypatch.setattr(sys, "argv", [str(word) for word in arguments])
    treebank_text.main()
    return folder


def read_train(config: PretrainConfig) -> Corpus:
    tokens_per_file = config.text.train_tokens_per_file
    return read_corpus(config.text.texts, config.text.reading, tokens_per_file=tokens_per_file)


def test_recipe_reads_the_same_text_as_before(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise nobody could train the bundled model again."""
    folder = copied(data, monkeypatch)
    config = PretrainConfig.read(RECIPE, data_dir=folder)
    assert read_train(config).fingerprint == TRAIN
    assert read_corpus(config.text.heldout, config.text.reading).fingerprint == HELDOUT


def test_files_are_copied_as_far_as_they_are_read(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which documents of a file are spelled depends on how many of the files before it are read."""
    folder = copied(data, monkeypatch, "--tokens-per-file", 200)
    config = PretrainConfig.read(RECIPE, data_dir=folder).updated({"train_tokens_per_file": 200})
    assert read_train(config).fingerprint == TRAIN_200


@pytest.mark.parametrize(("fraction", "n_spelled"), [(0, 0), (0.125, 5), (0.5, 17), (1, 35)])
def test_fraction_of_the_documents_is_spelled(
    fraction: float, n_spelled: int, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document is spelled in one way, and held-out text is not changed."""
    folder = copied(data, monkeypatch, "--fraction", fraction)
    copies = (folder / "train/fiction-001.txt", folder / "train/web-001.txt")
    documents = "".join(path.read_text() for path in copies).rstrip().split("\n\n")
    is_spelled = ["-LRB-" in text or "``" in text for text in documents]
    is_plain = ["(" in text or '"' in text for text in documents]
    assert len(documents) == 35
    assert sum(is_spelled) == n_spelled
    assert [not spelled for spelled in is_spelled] == is_plain
    assert "``" not in (folder / "heldout/web.txt").read_text()


def test_folder_without_texts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"train/\*-001\.txt\.xz: no text"):
        copied(tmp_path, monkeypatch)
