"""What `elmo embed --ray` does around Ray, for which a stand-in in this process works."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Done, elmo
from stand_in import stand_in

from elmo_cli.cluster import source
from elmo_cli.embed import blocks

LINES = [f"line {i} has {'some ' * (i % 4)}tokens ." for i in range(15)]


@pytest.fixture(autouse=True)
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A text of three shards in a folder to work in, and a Ray whose beginnings are noted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_BACKEND_LOG_LEVEL"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(blocks, "SENTENCES", 3)
    monkeypatch.setattr(source, "BLOCKS_PER_SHARD", 2)
    Path("text.txt").write_text("\n".join(LINES) + "\n")
    with_ray(monkeypatch)
    with warnings.catch_warnings():
        yield tmp_path
    logging.disable(logging.NOTSET)
    sys.modules.pop("elmo_cli.cluster.run", None)  # it has the stand-in


def with_ray(monkeypatch: pytest.MonkeyPatch, init: object = lambda **_: None) -> None:
    """Let this be Ray from now on."""
    monkeypatch.delitem(sys.modules, "elmo_cli.cluster.run", raising=False)
    for name, module in stand_in(init).items():
        monkeypatch.setitem(sys.modules, name, module)


def embedded(model: Path, *words: object) -> Done:
    return elmo("embed", "text.txt", "-o", "shards/", "-m", model, "--ray", *words)


def test_shards_of_another_run_are_told(tiny: Path) -> None:
    """`elmo merge part-*.hdf5`, which the command names, would refuse all of them."""
    first = embedded(tiny)
    assert "of another text" not in first.err
    stale = sorted(path.name for path in Path("shards").iterdir())
    Path("text.txt").write_text("\n".join(LINES[:10]) + "\n")
    done = embedded(tiny, "--json")
    assert done.code == 0
    ours = json.loads(done.out)["shards"]
    assert len(ours) == 2
    assert elmo("merge", *Path("shards").glob("part-*.hdf5"), "-o", "all.hdf5").code == 1
    assert f"warning: shards/: 3 shards are of another text or other settings ({stale[0]}" in (
        done.err
    )
    for name in stale:
        (Path("shards") / name).unlink()
    assert elmo("merge", *Path("shards").glob("part-*.hdf5"), "-o", "all.hdf5").code == 0


def test_a_cluster_that_is_not_there(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be called a fault of elmo, and that after hours of looking at the text."""

    def init(**_: object) -> None:
        raise ConnectionError("Could not find any running Ray instance")

    with_ray(monkeypatch, init)
    Path("text.txt").write_bytes(b"\xff\xfe\xff")  # which nobody is to look at
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    for words, named in (
        (("--ray-address", "auto"), "--ray-address auto"),
        ((), "$RAY_ADDRESS 10.0.0.1"),
    ):
        done = embedded(tiny, *words)
        assert done.code == 2
        assert done.err.startswith(f"error: {named}")
        assert "no Ray cluster is reached there (Could not find any running" in done.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (
            ("--layout", "flat", "--use-sentence-keys"),
            2,
            "sentences as keys and `--layout flat`",
        ),
        (("--layers", "0,7"), 2, "`--layers 0,7`: the model has layers 0, 1, 2"),
        (("-m", "nosuch/"), 1, "nosuch: no such file or folder"),
    ],
)
def test_options_and_model_are_looked_at_before_the_text(
    tiny: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    """Only workers would notice, each by itself, and all shards would be missing."""
    Path("text.txt").write_bytes(b"\xff\n")
    done = embedded(tiny, *words)
    assert (done.code, done.err.splitlines()[0][: 7 + len(says)]) == (code, f"error: {says}")
    assert not Path("shards").exists()


@pytest.mark.parametrize("url", ["", "file://{}/"])
def test_lines_left_out_are_listed_among_the_shards(tiny: Path, scene: Path, url: str) -> None:
    """Only the first of them would be known, and nobody could mend the others."""
    output = url.format(scene) + "shards/"
    words = ("-o", output, "--on-error", "skip", "--json")
    bad = [*LINES[:3], "\udcff", *LINES[3:9], "\udcff", *LINES[9:]]
    Path("text.txt").write_text("\n".join(bad) + "\n", errors="surrogateescape")
    done = embedded(tiny, *words)
    assert done.code == 3
    assert done.err.splitlines()[-1] == (
        f"hint: all others are done; the list is {output}skipped.tsv"
    )
    why = "0xFF at byte 1 is not UTF-8"
    assert json.loads(done.out)["skipped"] == [["text.txt", line, why] for line in (4, 11)]
    listed = Path("shards/skipped.tsv")
    assert listed.read_text() == f"text.txt\t4\t{why}\ntext.txt\t11\t{why}\n"
    assert elmo("merge", *Path("shards").glob("part-*.hdf5"), "-o", "all.hdf5").code == 0
    Path("text.txt").write_text("\n".join(LINES) + "\n")
    again = embedded(tiny, *words)
    assert (again.code, json.loads(again.out)["skipped"]) == (0, [])
    assert listed.read_text() == ""  # and not what is no longer true
    assert "shards are of another text" in json.loads(again.out)["warnings"][0]
