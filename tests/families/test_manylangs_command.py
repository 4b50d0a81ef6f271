"""`elmo` with a model of ELMoForManyLangs: what it reports of a text, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from command_line import elmo, made, refused
from manylangs_models import FIXTURES

from elmo_cli.lm.converted_model import write_converted
from elmo_cli.pretrained.load import locate

MODEL = FIXTURES / "cnn-both-clip"
KNOWN = "The dog saw the cats .\nthe dog runs .\n" * 10
RUSSIAN = "Кошка сидела на ковре и смотрела в окно .\n" * 10


@pytest.fixture(autouse=True)
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("known.txt").write_text(KNOWN, encoding="utf-8")
    Path("russian.txt").write_text(RUSSIAN, encoding="utf-8")


def embedded(*words: object, out: str = "out.hdf5") -> str:
    """What a run writes to standard error."""
    return made("embed", *words, "-m", MODEL, "-o", out, "--device", "cpu").err


def test_a_text_that_the_model_knows_is_counted() -> None:
    err = embedded("known.txt")
    assert "warning" not in err
    assert "tokens in the model's vocabulary: 100 of 100 (100.0%)" in err
    assert "characters known to the model: 280 of 280 (100.0%)" in err
    with h5py.File("out.hdf5") as file:
        assert file.attrs["model_family"] == "elmoformanylangs"


@pytest.mark.parametrize("output", [("out.hdf5",), ("-",), ("out.hdf5", "--dry-run")])
def test_a_text_in_another_script_is_noticed_once(output: tuple[str, ...]) -> None:
    """The model knows its script; that a text is not Latin means nothing."""
    err = made("embed", "russian.txt", "-m", MODEL, "-o", *output).err
    characters = "warning: characters known to the model: 10 of 330 (3.0%), not 'о а к'; "
    assert err.count(characters) == 1
    assert err.count("warning: tokens in the model's vocabulary: 10 of 90 (11.1%), not ") == 1
    assert "Latin" not in err


def test_boundaries_and_cut_tokens_are_noticed() -> None:
    Path("odd.txt").write_text(f"a <bos> b\n{'ж' * 14} {'ж' * 15} <eos>\n", encoding="utf-8")
    err = embedded("odd.txt")
    assert "warning: odd.txt, line 1: boundary or padding tokens" in err
    assert "warning: cut 1 token to the length that the model reads" in err


def test_shards_equal_a_single_run() -> None:
    Path("long.txt").write_text("the dog saw 和 cats .\n" * 1500 + KNOWN, encoding="utf-8")
    embedded("long.txt", out="whole.hdf5")
    for number in (1, 2):
        embedded("long.txt", "--shard", f"{number}/2", out=f"part{number}.hdf5")
    made("merge", "part1.hdf5", "part2.hdf5", "-o", "merged.hdf5")
    assert "complete already" in embedded("long.txt", "--resume", out="whole.hdf5")
    with h5py.File("whole.hdf5") as whole, h5py.File("merged.hdf5") as merged:
        assert whole.keys() == merged.keys()
        for key in ("0", "1499", "1519"):
            np.testing.assert_array_equal(whole[key][...], merged[key][...])


@pytest.mark.parametrize(
    "words",
    [
        ("perplexity", "known.txt", "-m", MODEL),
        ("finetune", "--domain", "known.txt", "-m", MODEL, "-o", "tuned"),
        ("pretrain", "known.txt", "--init-from", MODEL, "-o", "trained", "--max-steps", 1),
        ("models", "random", "--like", MODEL, "-o", "random"),
    ],
    ids=lambda words: words[0],
)
def test_what_needs_a_softmax_is_refused(words: tuple[object, ...]) -> None:
    problem = f"{MODEL}: reads Unicode characters, and no softmax layer was published"
    refused(elmo(*words), 1, problem, "`elmo embed` computes its vectors")
    assert not Path("tuned").exists()


def test_a_converted_model_gives_the_same_vectors() -> None:
    """It has the same hash, and other programs fail on it."""
    err = made("models", "convert", MODEL, "-o", "converted").err
    assert "only elmo reads this folder" in err
    embedded("known.txt", out="a.hdf5")
    made("embed", "known.txt", "-m", "converted", "-o", "b.hdf5", "--device", "cpu")
    with h5py.File("a.hdf5") as original, h5py.File("b.hdf5") as converted:
        assert original.attrs["model_sha256"] == converted.attrs["model_sha256"]
        assert original.keys() == converted.keys()
        for key in original:
            np.testing.assert_array_equal(original[key][...], converted[key][...])
    options = json.loads(Path("converted/options.json").read_text())
    assert "n_characters" not in options["char_cnn"]
    assert options["words"] == {"dim": 10, "file": "words.txt"}
    words = Path("converted/words.txt").read_text(encoding="utf-8")
    Path("converted/words.txt").write_text(words.replace("dog\t", "dogs\t"), encoding="utf-8")
    done = elmo("embed", "known.txt", "-m", "converted", "-o", "c.hdf5")
    refused(done, 1, "converted/words.txt: its sha256 is not", "get the file again")
    Path("converted/words.txt").unlink()
    done = elmo("embed", "known.txt", "-m", "converted", "-o", "c.hdf5")
    refused(done, 1, "converted/words.txt: cannot be read", "check the path")


def test_dictionaries_are_part_of_the_identity_of_a_converted_model(tiny: Path) -> None:
    """Also without parts.json: with other words, the same weights give other vectors."""
    write_converted(MODEL, Path("converted"))
    Path("converted/parts.json").unlink()
    hashes = [locate("converted/").sha256]
    write_converted("converted/", Path("again"))
    assert locate("again/").sha256 == hashes[0]
    for name in ("words.txt", "characters.txt"):
        entries = Path("converted", name).read_text(encoding="utf-8").splitlines()
        (first, first_number), (second, second_number) = (line.split("\t") for line in entries[-2:])
        entries[-2:] = [f"{first}\t{second_number}", f"{second}\t{first_number}"]
        Path("converted", name).write_text("\n".join(entries), encoding="utf-8")
        hashes.append(locate("converted/").sha256)
    assert len(set(hashes)) == 3
    shutil.copytree(tiny, "of-bytes")
    write_converted(FIXTURES / "cnn-char", Path("without-words"))
    for folder in ("of-bytes/", "without-words/"):
        expected = locate(folder).sha256
        Path(folder, "words.txt").write_text("not read\n")
        assert locate(folder).sha256 == expected


def test_inspect_says_what_a_folder_is() -> None:
    facts = json.loads(made("inspect", MODEL, "--json").out)
    assert facts["family"] == "elmoformanylangs"
    assert facts["characters"] == "75 Unicode characters, at most 14 of a token; 26 words"
    assert facts["problem_count"] == 0
    assert "an ELMoForManyLangs model" in made("inspect", MODEL / "encoder.pkl").out.decode()
