"""`elmo perplexity` at the command line."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest
from command_line import elmo
from make_weights import MODELS, write_model
from training_commands import Command, refused

from elmo_cli.pretrained.parts import write_parts


@pytest.fixture
def model(tmp_path: Path, tiny: Path, golden: Path) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    for name in ("softmax.hdf5", "vocab.txt"):
        shutil.copy(golden / "lm" / name, folder)
    write_parts(folder)
    return folder


@pytest.fixture
def text(tmp_path: Path, golden: Path) -> Path:
    return Path(shutil.copy(golden / "lm" / "sentences.txt", tmp_path))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    for name in ("ELMO_MODEL", "ELMO_DEVICE"):
        monkeypatch.delenv(name, raising=False)

    return Command(capsys, "perplexity", "--device", "cpu", "--threads", "1")


@pytest.fixture
def measured(run: Command, text: Path, model: Path) -> Callable[..., dict[str, Any]]:
    """The object that --json prints."""

    def ran(*args: str | Path) -> dict[str, Any]:
        code, out, err = run(text, "-m", model, "--json", *args)
        assert (code, err) == (0, "")
        found: dict[str, Any] = json.loads(out)
        return found

    return ran


@pytest.fixture(scope="module")
def expected(golden: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((golden / "lm" / "expected.json").read_text())
    return content


def test_a_perplexity_beyond_all_numbers_is_null(
    measured: Callable[..., dict[str, Any]], model: Path
) -> None:
    """`Infinity` is no JSON: jq takes it for the greatest number, and others for an error."""
    with h5py.File(model / "softmax.hdf5", "r+") as file:
        file["softmax/b"][:] = 0
        file["softmax/b"][5] = 1e5
    write_parts(model)
    found = measured()
    assert found["perplexity"] == {"forward": None, "backward": None, "average": None}
    assert found["bits_per_byte"]["average"] > 1000


def test_figures_are_those_of_bilm_tf(
    measured: Callable[..., dict[str, Any]], expected: dict[str, Any]
) -> None:
    """Without it an option could be lost on the way from the command line."""
    found = measured()
    assert (found["model"], found["state"]) == ("model", "zero")
    assert (found["tokens"], found["predictions"], found["sentences"]) == (264, 294, 30)
    assert 0 < found["unknown_fraction"] < 0.2
    for direction in ("forward", "backward"):
        wanted = expected["zero_state"][f"perplexity_{direction}"]
        assert found["perplexity"][direction] == pytest.approx(wanted, rel=1e-6)
    assert found["perplexity"]["average"] == pytest.approx(96.0623815, rel=1e-6)
    carried = measured("--state", "carry")
    assert carried["perplexity"]["average"] == pytest.approx(112.6548194, rel=1e-6)
    assert carried["not_scored"] == 0
    rows = measured("--state", "carry", "--batch-size", "4")
    assert rows["perplexity"]["average"] == pytest.approx(109.6402844, rel=1e-6)
    assert (rows["predictions"], rows["not_scored"]) == (272, 22)
    warm = measured("--state", "warm")
    assert warm["state"] == "warm"
    assert abs(warm["perplexity"]["average"] / found["perplexity"]["average"] - 1) > 1e-3
    assert found["bits_per_byte"]["average"] > found["bits_per_byte"]["spelling"] > 0


def test_the_summary_says_what_was_measured(run: Command, text: Path, model: Path) -> None:
    """A perplexity without the share of <UNK>, the state and the number of predictions is none."""
    code, out, err = run(text, "-m", model, "--state", "carry", "--batch-size", "4")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["forward", "backward", "average"]
    assert lines[1].split() == ["perplexity", "136.00", "88.39", "109.64"]
    assert lines[2].startswith("bits per byte")
    assert "272 predictions in each direction; 264 tokens in 30 sentences; " in lines[3]
    assert "% unknown" in lines[3]
    assert lines[4].startswith("22 more predictions were not scored")
    assert lines[5] == "model model, state carry"


def test_the_table_of_sentences(
    run: Command, text: Path, model: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    """Each row must be of the line that it names, blank lines and second files or not."""
    lines = text.read_text().splitlines()
    text.write_text("\n" + "\n\n".join(lines[:3]) + "\n")
    second = tmp_path / "second.txt"
    second.write_text("\n".join(lines[3:]) + "\n")
    table = tmp_path / "table.tsv"
    assert run(text, second, "-m", model, "-o", table)[0] == 0
    header, *rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert header == [
        *("source", "line", "tokens", "unknown", "predictions"),
        *("forward", "backward", "perplexity"),
    ]
    places = [(str(text), n) for n in (2, 4, 6)] + [(str(second), n + 1) for n in range(27)]
    assert [(row[0], int(row[1])) for row in rows] == places
    for k, row in enumerate(rows):
        forward = sum(expected["zero_state"]["forward_ll"][k])
        backward = sum(expected["zero_state"]["backward_ll_reading_order"][k])
        n = len(lines[k].split())
        assert [int(row[2]), int(row[4])] == [n, n + 1]
        assert float(row[5]) == pytest.approx(forward, abs=1e-4)
        assert float(row[6]) == pytest.approx(backward, abs=1e-4)
        perplexity = math.exp(-(forward + backward) / 2 / (n + 1))
        assert float(row[7]) == pytest.approx(perplexity, rel=1e-4)
    code, out, err = run(text, second, "-m", model, "-o", "-")
    assert code == 0
    assert out == table.read_text()
    assert "bits per byte" in err
    assert run(text, second, "-m", model, "-o", "-", "-q") == (0, out, "")


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        (b"a\tb.txt", rb"a\tb.txt"),
        (b"a\nb\r.txt", rb"a\nb\r.txt"),
        (rb"a\tb.txt", rb"a\\tb.txt"),
        (b"\xfe.txt", b"\xfe.txt"),
    ],
)
def test_a_name_of_a_file_is_one_cell_of_the_table(
    name: bytes, cell: bytes, run: Command, text: Path, model: Path, tmp_path: Path
) -> None:
    """A tab in it shifts the columns, a line end cuts the row, and it need not be UTF-8."""
    shutil.copy(text, os.fsencode(tmp_path) + b"/" + name)
    table = tmp_path / "table.tsv"
    named = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    assert run(named, "-m", model, "-o", table, "-q")[0] == 0
    for place, row in enumerate(table.read_bytes().split(b"\n")[1:-1], 1):
        cells = row.split(b"\t")
        assert (len(cells), cells[1]) == (8, b"%d" % place)
        assert cells[0] == os.fsencode(tmp_path) + b"/" + cell
    assert elmo("perplexity", named, "-m", model, "-o", "-", "-q").out == (table.read_bytes())


def test_a_table_is_not_overwritten_unasked(
    run: Command, text: Path, model: Path, tmp_path: Path
) -> None:
    """Nothing that is there may be lost, the text and the model least of all."""
    table = tmp_path / "table.tsv"
    table.write_text("mine")
    refused(run(text, "-m", model, "-o", table), "table.tsv: exists", "overwrite")
    assert table.read_text() == "mine"
    assert run(text, "-m", model, "-o", table, "-f")[0] == 0
    assert table.read_text().startswith("source\t")
    before = text.read_bytes()
    for place in (text, model / "vocab.txt"):
        found = run(text, "-m", model, "-o", place, "--overwrite")
        refused(found, f"{place}: is also ", "another output path", code=2)
    assert text.read_bytes() == before
    refused(run(text, "-m", model, "-o", tmp_path), "is a folder", "")
    refused(run(text, "-m", model, "-o", tmp_path / "no" / "t"), "there is no folder", "")
    assert not list(tmp_path.glob("*.part"))


def test_a_table_spares_every_file_of_the_model(
    run: Command, text: Path, model: Path, tmp_path: Path
) -> None:
    """The options may lie in another folder than the weights, and be lost for a table."""
    apart = tmp_path / "apart"
    apart.mkdir()
    options = Path(shutil.move(model / "options.json", apart))
    before = options.read_bytes()
    pair = ("--options-file", options, "--weight-file", model / "weights.hdf5")
    for place in (options, model / "weights.hdf5", model / "softmax.hdf5"):
        found = run(text, *pair, "-o", place, "--overwrite")
        refused(found, f"{place}: is also a file of the model", "another output path", code=2)
    assert options.read_bytes() == before


def test_bad_input_is_told_in_two_lines(
    run: Command, text: Path, model: Path, tiny: Path, tmp_path: Path
) -> None:
    """What a user meets first: weights without a softmax, an empty text, options at odds."""
    refused(run(text, "-m", tiny), "this model has no softmax", "elmo finetune")
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    refused(run(empty, "-m", model), f"{empty}: no sentence in it", "tokens")
    empty.write_bytes(b"\xff\n\n\xfe\n")
    told = run(empty, "-m", model, "--on-error", "skip")
    refused(
        told,
        f"{empty}: no sentence in it could be read",
        f"is {empty}, line 1: 0xFF at byte 1 is not UTF-8",
    )
    refused(run(tmp_path / "gone.txt", "-m", model), "gone.txt: no such file", "")
    refused(
        run(text, "-m", model, "--batch-size", 4), "--batch-size 4: has no meaning", "carry", code=2
    )
    carry = ("-m", model, "--state", "carry")
    refused(
        run(text, *carry, "--batch-size", 99),
        "`--batch-size 99`: the text has 30",
        "--batch-size 1",
        code=2,
    )
    refused(run(text, "-m", model, "--json", "-o", "-"), "--json: standard", "", code=2)
    refused(run(text, "-m", model, "-f"), "--overwrite: no file is written", "", code=2)
    refused(run("", "-m", model), "a name is empty", "variable", code=2)
    for option in ("-o", "--softmax", "--vocabulary"):
        refused(run(text, "-m", model, option, ""), "a name is empty", "variable", code=2)
    types = (model / "vocab.txt").read_text()
    (model / "parts.json").unlink()
    (model / "vocab.txt").write_text(types.replace("</S>", "/S"))
    refused(run(text, "-m", model), "</S> is not among the types", "<S>, </S>, <UNK>")
    (model / "vocab.txt").write_text(types + "one\n")
    refused(run(text, "-m", model), "softmax/W is of shape (55, 8)", "from one model")
    wide = write_model(tmp_path / "wide", MODELS["odd"], "odd")
    shutil.copy(wide / "options.json", model)
    refused(run(text, "-m", model), "the model asks for", "one model")


def test_a_text_of_unknown_tokens_is_measured_and_warned_of(
    run: Command, model: Path, tmp_path: Path
) -> None:
    """A low perplexity of nothing but <UNK> must not pass for a good one."""
    text = tmp_path / "unknown.txt"
    text.write_text("xyzzy qqq\nfrobnicate\n")
    code, out, err = run(text, "-m", model)
    assert code == 0
    assert "100.00% unknown" in out
    assert err.startswith("warning: the vocabulary lacks 100% of the tokens")
    assert run(text, "-m", model, "-q")[2] == ""


def test_lines_left_out_end_in_exit_code_3(
    run: Command, text: Path, model: Path, expected: dict[str, Any]
) -> None:
    """The figure is of the rest, and a script must be able to see that."""
    text.write_bytes(text.read_bytes() + b"caf\xe9 .\n")
    refused(run(text, "-m", model), "is not UTF-8", "encoding")
    code, out, err = run(text, "-m", model, "--on-error", "skip", "--json")
    assert code == 3
    assert json.loads(out)["perplexity"]["average"] == pytest.approx(
        expected["zero_state"]["perplexity"], rel=1e-6
    )
    assert len(json.loads(out)["skipped"]) == 1
    assert "1 line was left out" in err


def test_raw_text_is_tokenised(run: Command, text: Path, model: Path, tmp_path: Path) -> None:
    """The input options are those of `elmo embed`."""
    raw, cut = tmp_path / "raw.txt", tmp_path / "cut.txt"
    raw.write_text("The old tree isn't old. It is the tree.\n")
    cut.write_text("The old tree is n't old .\nIt is the tree .\n")
    found = run(raw, "-m", model, "--tokenize", "--json")
    assert found == run(cut, "-m", model, "--json")
    assert json.loads(found[1])["sentences"] == 2
