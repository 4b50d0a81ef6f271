"""Usages in sentences: which tokens they are, how they are drawn, and what is written of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest

from elmo_cli.analysis import usages as usages_module
from elmo_cli.analysis.usages import (
    UsageSentence,
    check_layers,
    sample_usages,
    write_usages,
)
from elmo_cli.embed.embedder import Embedder
from elmo_cli.errors import OutputError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.text import target_matcher
from elmo_cli.text.sentence import Sentence
from elmo_cli.text.target_matcher import TargetMatcher, Usage

WORDS = ["The", "woman", "saw", "the", "women", "at", "THE", "sea"]


def pairs(matcher: TargetMatcher, words: Sequence[str] = WORDS) -> list[tuple[int, int]]:
    """The target and the position of each usage."""
    return [tuple(usage) for usage in matcher.usages(words)]


class TestTargetMatcher:
    def test_finds_whole_tokens(self) -> None:
        assert pairs(TargetMatcher(["the", "sea", "wom", "saw the"])) == [(0, 3), (1, 7)]
        assert pairs(TargetMatcher(["ocean"])) == []

    def test_ignores_case_of_targets_and_tokens(self) -> None:
        matcher = TargetMatcher(["tHe", "the", "SEA"], ignore_case=True)
        assert pairs(matcher) == [(0, 0), (1, 0), (0, 3), (1, 3), (0, 6), (1, 6), (2, 7)]

    def test_patterns_match_whole_tokens(self) -> None:
        targets = ["wom[ae]n", "woman", "s.*", "s"]
        expected = [(0, 1), (1, 1), (2, 2), (0, 4), (2, 7)]
        assert pairs(TargetMatcher(targets, are_patterns=True)) == expected
        assert pairs(TargetMatcher(["th."], are_patterns=True)) == [(0, 3)]
        matcher = TargetMatcher(["th."], are_patterns=True, ignore_case=True)
        assert pairs(matcher) == [(0, 0), (0, 3), (0, 6)]

    def test_forgets_words_when_there_are_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        matcher = TargetMatcher(["[ab].*"], are_patterns=True)
        monkeypatch.setattr(target_matcher, "_MAX_SEEN", 4)
        for number in range(20):
            for word in (f"a{number // 2}", f"c{number}", "b"):
                expected = [] if word.startswith("c") else [(0, 1)]
                assert pairs(matcher, ["x", word]) == expected
                assert len(matcher._seen) <= 6
                assert len(matcher._targets_of) <= 6


def found(targets_by_sentence: Sequence[Sequence[int]]) -> Iterator[UsageSentence]:
    """Sentences with these targets as their usages."""
    for key, targets in enumerate(targets_by_sentence):
        sentence = Sentence(tokens=("x",) * len(targets), key=key)
        yield UsageSentence(sentence, [Usage(target, at) for at, target in enumerate(targets)])


def drawn(sentences: Sequence[UsageSentence], target: int) -> list[tuple[int, int]]:
    """Key and position of the usages of a target."""
    positions = []
    for sentence in sentences:
        for usage in sentence.usages:
            if usage.target == target:
                positions.append((sentence.sentence.key, usage.position))
    return positions


class TestSampleOfUsages:
    def test_is_uniform(self) -> None:
        """3 of 6 usages, 1,200 times: each of them in half of the samples."""
        counts = Counter[tuple[int, int]]()
        for seed in range(1200):
            sample = sample_usages(found([[0], [0, 0], [0], [0], [0]]), ["word"], 3, seed)
            positions = drawn(sample.sentences, 0)
            assert len(positions) == 3
            assert sample.n_occurrences == [6]
            counts.update(positions)
        assert len(counts) == 6
        for count in counts.values():
            assert abs(count - 600) < 4 * np.sqrt(1200 / 4)  # four standard deviations

    def test_has_all_usages_of_a_rare_word_in_the_order_of_the_text(self) -> None:
        text = [[0, 1, 0], [1], [0, 0], [0]]
        sample = sample_usages(found(text), ["word", "rare"], 3, seed=1)
        assert sample.n_occurrences == [5, 2]
        assert drawn(sample.sentences, 1) == [(0, 1), (1, 0)]
        for sentence in sample.sentences:
            positions = [usage.position for usage in sentence.usages]
            assert positions == sorted(positions)
        keys = [sentence.sentence.key for sentence in sample.sentences]
        assert keys == sorted(set(keys))

    def test_of_a_word_does_not_depend_on_the_others(self) -> None:
        text = [[0, 1], [1], [0], [1, 0], [0], [0, 1]]
        alone = [[0] * targets.count(0) for targets in text]
        for seed in range(20):
            both = sample_usages(found(text), ["word", "other"], 2, seed).sentences
            one = sample_usages(found(alone), ["word"], 2, seed).sentences
            assert [key for key, _ in drawn(both, 0)] == [key for key, _ in drawn(one, 0)]

    def test_depends_on_the_seed_alone(self) -> None:
        def sample(seed: int) -> list[tuple[int, int]]:
            return drawn(sample_usages(found([[0]] * 50), ["word"], 5, seed).sentences, 0)

        assert sample(3) == sample(3)
        assert len({tuple(sample(seed)) for seed in range(9)}) > 1


class TestLayerOfUsages:
    @pytest.mark.parametrize("layers", ["top", "average", "sum", "0", "2", "mix:1,0.5,2"])
    def test_is_one(self, layers: str) -> None:
        check_layers(layers, 3)

    @pytest.mark.parametrize("layers", ["all", "0,1", "2,0,1", "3", "best"])
    def test_is_not_another_choice(self, layers: str) -> None:
        with pytest.raises(UsageError, match="layers="):
            check_layers(layers, 3)


class TestWrittenUsages:
    @pytest.fixture
    def embedder(self, tiny_bilm: BiLM) -> Embedder:
        return Embedder(tiny_bilm, layers="top", device="cpu")

    def sentences(self, n: int) -> list[UsageSentence]:
        made = []
        for key in range(n):
            sentence = Sentence(tokens=("The", "cat", f"w{key}", "."), key=key)
            made.append(UsageSentence(sentence, [Usage(0, 2), Usage(1, 0)]))
        return made

    def test_do_not_exist_if_the_run_fails(
        self, embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither the archive, nor the table, nor a temporary file remains, wherever it fails."""
        out = tmp_path / "c.npz"

        def failing(n_usages: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write_usages(self.sentences(3), ["w", "The"], embedder, str(out), on_usages=failing)
        assert list(tmp_path.iterdir()) == []

        def full(*args: object) -> np.ndarray:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(usages_module._KeptVectors, "read", full)
        with pytest.raises(OutputError, match="no space left"):
            write_usages(self.sentences(3), ["w", "The"], embedder, str(out))
        assert list(tmp_path.iterdir()) == []

    def test_have_fixed_bytes_and_names_as_typed(self, embedder: Embedder, tmp_path: Path) -> None:
        targets = ["a/b.npy", "été", "../x", "none"]
        contents = []
        for name in ("c1.npz", "c2.npz"):
            out = tmp_path / name
            written = write_usages(self.sentences(5), targets, embedder, str(out))
            assert written.n_usages == [5, 5, 0, 0]
            assert written.n_sentences == 5
            contents.append(out.read_bytes())
        assert contents[0] == contents[1]
        for member in ZipFile(out).infolist():
            assert member.date_time == (1980, 1, 1, 0, 0, 0)
            assert member.compress_type == ZIP_DEFLATED
        with np.load(out) as arrays:
            assert list(arrays) == targets
            assert arrays["été"].shape == (5, embedder.bilm.options.dim)
            for name in targets[2:]:
                assert arrays[name].shape == (0, embedder.bilm.options.dim)
                assert arrays[name].dtype == np.float32
