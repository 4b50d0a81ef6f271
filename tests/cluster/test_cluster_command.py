"""`elmo embed --ray` around the library, on a fake Ray."""

from __future__ import annotations

import json
import logging
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Done, documented, elmo, made, refused
from fake_ray import Deaths
from families.manylangs_models import change_configuration, copied

from elmo_cli.model.bilm import State
from elmo_cli.pretrained.load import load
from elmo_cli.weightfile.write import write_state


@pytest.fixture(autouse=True)
def environment(scene: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_BACKEND_LOG_LEVEL"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("ELMO_MODEL", scene.job.model.name_or_path)
    with warnings.catch_warnings():
        yield
    logging.disable(logging.NOTSET)


def embed(*words: object) -> Done:
    return elmo("embed", "one.txt", "two.txt", "-o", "shards/", "--ray", *words)


def command_in(line: str) -> list[str]:
    """A command in backticks, of which a shell would expand the names of shards."""
    words = shlex.split(line.split("`")[1])
    return [str(path) for word in words for path in (sorted(Path().glob(word)) or [word])]


@pytest.mark.parametrize("output", ["shards/", "file://{}/far/"])
def test_the_commands_it_prints_make_the_file_of_one_process(tmp_path: Path, output: str) -> None:
    """Also if shards of another run are in the folder."""
    output = output.format(tmp_path)
    for folder in (Path("shards"), Path("far")):
        folder.mkdir()
        (folder / "part-00001-of-00005-123456789abc.hdf5").touch()
    done = embed("--json", "-o", output)
    assert done.code == 0
    lines = done.err.splitlines()
    if "://" in output:
        assert lines[-2].startswith("download the shards first")
        shutil.copytree("far", "shards", dirs_exist_ok=True)
    made(*command_in(lines[-1])[1:])
    made("embed", "one.txt", "two.txt", "-o", "whole.hdf5")
    assert Path("OUT.hdf5").read_bytes() == Path("whole.hdf5").read_bytes()
    summary = json.loads(done.out)
    assert all(f"`{name}`" in documented("embed") for name in summary)
    assert (summary["output"], summary["missing"]) == (output, [])
    assert summary["tokens"] == summary["computed_tokens"]
    assert len(summary["workers"]) == 1


def test_workers_threads_and_gpus_reach_the_cluster(scene: Any) -> None:
    done = embed("--workers", 3, "--threads", 2, "--gpus-per-worker", 0.5)
    refused(done, 2, "`--gpus-per-worker 0.5`: this machine has 0 GPUs", "`--ray-address`")
    (started,) = scene.ray.started
    assert (started["address"], started["num_cpus"]) == ("local", 6)
    scene.ray.has["GPU"] = 2.0
    assert embed("--workers", 3, "--threads", 2, "--gpus-per-worker", 0.5).code == 0
    assert (scene.ray.options["num_cpus"], scene.ray.options["num_gpus"]) == (2, 0.5)


def test_a_text_in_another_language_is_reported_once(scene: Any) -> None:
    """Also if all shards exist already."""
    shutil.copytree(scene.job.model.name_or_path, "of-another-language")
    Path("of-another-language/vocab.txt").write_text("<S>\n</S>\n<UNK>\nder\ndie\n")
    for _ in range(2):
        done = embed("-m", "of-another-language", "--json")
        assert done.err.count("tokens in the model's vocabulary: 0 of 18 (0.0%)") == 1
        point = json.loads(done.out)["fit"]["first_tokens_in_vocabulary"]
        assert (point["fitting"], point["of"]) == (0, 18)


def test_rows_and_the_sentence_map_are_those_of_one_process() -> None:
    tree = "1-2\tau\t_\n1\ta\t_\n2\tle\t_\n\n"
    Path("a.conllu").write_text(3 * tree)
    words = ("--sentence-map", "occurrences", "--rows")
    made("embed", "a.conllu", "-o", "whole.hdf5", *words, "tokens")
    done = made("embed", "a.conllu", "-o", "trees/", "--ray", *words, "tokens")
    made(*command_in(done.err.splitlines()[-1])[1:])
    assert Path("OUT.hdf5").read_bytes() == Path("whole.hdf5").read_bytes()
    done = made("embed", "a.conllu", "-o", "words/", "--ray", *words, "words")
    assert done.err.count("3 rows of multiword tokens or empty nodes left out") == 1


@pytest.mark.parametrize(
    ("text", "words", "is_in_a_shard", "is_repeated"),
    [
        ("one\ntwo\none\n", "", True, True),
        ("one\ntwo\nthree\nfour\nfive\nsix\none\n", "", False, True),  # in another shard
        ("one\ntwo\n", "", False, False),
        ("one\ntwo\none\n", "--sentence-map occurrences", False, False),
        ("one\ntwo\none\n", "--forget-sentences", False, False),
        ("one\ntwo\none\n", "--layout flat", False, False),
    ],
)
def test_repeated_sentences_are_noted_once(
    text: str, words: str, is_in_a_shard: bool, is_repeated: bool
) -> None:
    """Of a shard by the run, of the whole text by `merge`, and in no JSON."""
    note = "repeated sentences: NeuroX needs `--sentence-map occurrences`"
    Path("text.txt").write_text(text)
    done = made("embed", "text.txt", "-o", "shards/", "--ray", *words.split())
    assert done.err.count(note) == is_in_a_shard
    merged = made(*command_in(done.err.splitlines()[-1])[1:], "--json")
    assert merged.err.count(note) == is_repeated
    facts = json.loads(merged.out)
    assert all(f"`{name}`" in documented("merge") for name in facts)


def test_the_text_is_read_with_the_limits_of_the_model(scene: Any) -> None:
    """A token of 30 letters has 60 bytes; a model that reads bytes would cut it."""
    text = f"{'я' * 30} {'s' * 19}\n"
    Path("one.txt").write_text(text, encoding="utf-8")
    Path("two.txt").write_text(text, encoding="utf-8")
    unicode_model = copied("cnn-char", Path("unicode"))
    change_configuration(unicode_model, "token_embedder", {"max_characters_per_token": 50})
    shutil.copytree(scene.job.model.name_or_path, "short-tokens")
    options = json.loads(Path("short-tokens/options.json").read_text())
    options["char_cnn"]["max_characters_per_token"] = 20
    Path("short-tokens/options.json").write_text(json.dumps(options))
    for model, n_truncated in ((unicode_model, 0), ("short-tokens", 4)):
        for output in (("-o", "shards/", "--ray"), ("-o", "whole.hdf5", "--overwrite")):
            done = made("embed", "one.txt", "two.txt", "-m", model, "--json", *output)
            assert json.loads(done.out)["truncated_tokens"] == n_truncated
            assert ("the first is 'яяя" in done.err) == (n_truncated > 0)


def test_warnings_of_the_model_are_in_the_result(scene: Any) -> None:
    """As without Ray: of its warm state, its vocabulary and the text, in this order."""
    model = Path(shutil.copytree(scene.job.model.name_or_path, "no-parts"))
    bilm = load(model)
    state = State.zeros(bilm.options, 1, device=torch.device("cpu"), dtype=torch.float32)
    write_state(state, model / "state.hdf5")
    (model / "vocab.txt").write_text("not a vocabulary\n")
    for name in ("one.txt", "two.txt"):
        Path(name).write_text("A sentence, not tokenized.\n" * 20)
    words = ("embed", "one.txt", "two.txt", "-m", model, "--state", "warm", "--json")
    warnings = []
    for output in (("-o", "shards/", "--ray"), ("-o", "whole.hdf5")):
        done = made(*words, *output)
        warnings.append(json.loads(done.out)["warnings"])
        n_printed = sum(line.startswith("warning: ") for line in done.err.splitlines())
        assert len(warnings[-1]) == n_printed == 3
    assert warnings[0] == warnings[1]
    assert "state.hdf5" in warnings[0][0]
    assert "vocab.txt" in warnings[0][1]


def test_missing_shards_are_reported(scene: Any) -> None:
    scene.ray.dies = Deaths(3, 3)
    done = embed("--json")
    summary = json.loads(done.out)
    assert (done.code, len(summary["shards"])) == (1, 4)
    assert [missing["shard"] for missing in summary["missing"]] == [3]
    error, hint = done.err.splitlines()[-2:]
    assert error.startswith("error: shards/: 1 of 5 shards missing, the first is 3: given up")
    assert hint.endswith("`--batch-size`; then repeat the command to compute the missing shards")


def test_skipped_lines_are_listed_next_to_the_shards() -> None:
    Path("two.txt").write_bytes(b"good\n\xff\n")
    stopped = embed()
    assert (stopped.code, "two.txt, line 2" in stopped.err) == (1, True)
    assert "`--encoding latin-1`" in stopped.err
    done = embed("--on-error", "skip", "--json")
    assert (done.code, "shards/skipped.tsv" in done.err) == (3, True)
    [line] = json.loads(done.out)["skipped"]
    assert Path("shards/skipped.tsv").read_text() == "\t".join(map(str, line)) + "\n"


@pytest.mark.parametrize(
    ("words", "variable", "says"),
    [(("--ray-address", "nobody"), "", "`--ray-address nobody`"), ((), "nobody", "$RAY_ADDRESS")],
)
def test_no_cluster_answers(monkeypatch: Any, words: Any, variable: str, says: str) -> None:
    """This is found before the text is read, which may take long."""
    monkeypatch.setenv("RAY_ADDRESS", variable)
    Path("two.txt").write_bytes(b"\xff")
    done = embed(*words)
    assert (done.code, done.err.startswith(f"error: {says}")) == (2, True)
    assert "no Ray cluster answers (not found)" in done.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--resume",), 2, "--resume: has no effect for --ray"),
        (("--shard", "1/2"), 2, "--shard: has no effect for --ray"),
        (("--dry-run",), 2, "--dry-run: has no effect for --ray"),
        (("--state", "carry"), 2, "--ray with --state carry"),
        (("-o", "x.hdf5"), 2, "--ray: x.hdf5 must be a folder"),
        (("-o", "sftp://user:secret@b"), 2, "--ray: sftp://***@b must be a folder"),
        (("-o", "sftp://user:80 @ secret@b"), 2, "--ray: sftp://***@b must be a folder"),
        (("-o", "nope://user:secret@b/"), 1, "nope://***@b/: "),
        (("--layout", "flat", "--use-sentence-keys"), 2, "sentences as keys and `--layout flat`"),
        (("--layers", "0,7"), 2, "`--layers 0,7`: the model has layers 0, 1, 2"),
        (("-m", "nosuch/"), 1, "nosuch: no such file or folder"),
        (("nosuch.txt",), 1, "nosuch.txt: no such file"),
        (("-",), 2, "--ray: standard input can be read only once"),
        ((), 1, "--ray: ray is not installed"),
    ],
)
def test_what_is_refused_before_ray_is_imported(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, says: str
) -> None:
    """And before a folder is created."""
    monkeypatch.delitem(sys.modules, "elmo_cli.cluster.run")
    monkeypatch.setitem(sys.modules, "ray", None)
    done = embed(*words)
    assert (done.code, done.err[: 7 + len(says)]) == (code, f"error: {says}")
    assert "secret" not in done.err
    assert sorted(path.name for path in Path().iterdir()) == ["one.txt", "two.txt"]


@pytest.mark.parametrize("words", [("-o", "s3://key:secret@b/x"), ("-o", "x.hdf5", "--workers=2")])
def test_cluster_options_need_ray(words: tuple[str, ...]) -> None:
    """One process creates no folder `s3:`."""
    done = elmo("embed", "one.txt", *words)
    assert (done.code, "secret" in done.err, "--ray" in done.err) == (2, False, True)
    assert sorted(path.name for path in Path().iterdir()) == ["one.txt", "two.txt"]
