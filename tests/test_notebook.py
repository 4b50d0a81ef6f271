"""What a person in a notebook sees: representations, signatures, progress, warnings, figures."""

from __future__ import annotations

import inspect
import io
import json
import warnings
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure

import elmo_cli
from elmo_cli import (
    BiLM,
    ElmoMix,
    Embedder,
    EmbedderSettings,
    EmbeddingsDataset,
    FileSpec,
    embed_file,
    open_embeddings,
)
from elmo_cli.caller_warnings import warn_caller
from elmo_cli.embed import progress_line
from elmo_cli.embed.progress_line import ProgressLine
from elmo_cli.errors import UsageError
from elmo_cli.fields import with_fields

LINES = ["The cat sat .", "It slept .", "A play ."]
TAGGED = ["the/DT play/NN began/VBD", "They/PRP play/VB ball/NN", "play/NN it/PRP"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


@pytest.fixture
def embedder(tiny_bilm: BiLM) -> Embedder:
    return Embedder(tiny_bilm, device="cpu")


@pytest.fixture
def file(text: Path, embedder: Embedder, tmp_path: Path) -> Path:
    embed_file(text, tmp_path / "corpus.hdf5", embedder)
    return tmp_path / "corpus.hdf5"


def test_models_and_embedders_say_what_they_are(
    tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_bilm, "name", "elmo-xx")
    n_parameters = sum(values.numel() for values in tiny_bilm.parameters())
    assert repr(tiny_bilm) == (
        f"BiLM('elmo-xx', layers=3, dim=16, parameters={n_parameters:_}, filters=60, lstm_dim=16, "
        "projection_dim=8)"
    )
    holder = torch.nn.Sequential(tiny_bilm)  # of a program that has the model as a part
    assert repr(tiny_bilm) in repr(holder)
    assert repr(Embedder(tiny_bilm, device="cpu")) == "Embedder('elmo-xx', device='cpu')"
    changed = Embedder(tiny_bilm, state="carry", layers="top", device="cpu")
    assert repr(changed) == "Embedder('elmo-xx', state='carry', layers='top', device='cpu')"


def test_a_mix_shows_what_it_has_learned() -> None:
    mix = ElmoMix(2, dropout=0.1, layer_norm=True)
    with torch.no_grad():
        mix.weights += torch.tensor([0.0, 30.0])
        mix.gamma *= 2
    assert repr(mix) == (
        "ElmoMix(n_layers=2, batch_first=False, layer_norm=True, dropout=0.1, l2=0.0, "
        "s=(0.000, 1.000), gamma=2.000)"
    )


def test_files_and_data_sets_say_what_they_are(file: Path) -> None:
    embeddings = open_embeddings(file)
    assert repr(embeddings) == (
        f"<Embeddings {str(file)!r}: 3 sentences, vectors of tokens, layers 0, 1, 2, dim 16, "
        "float32, layout allennlp>"
    )
    plain = EmbeddingsDataset(embeddings)
    assert repr(plain) == f"<EmbeddingsDataset {str(file)!r}: 3 sentences, no labels>"
    of_sentences = EmbeddingsDataset(embeddings, labels=["a", "b", "a"])
    assert repr(of_sentences).endswith(": 3 sentences, a label per sentence, 2 names>")
    of_tokens = EmbeddingsDataset(embeddings, labels=[[1, 2, 3, 4], [1, 2, 3], [1, 2, 3]])
    assert repr(of_tokens).endswith(": 3 sentences, a label per token>")
    embeddings.close()
    assert repr(embeddings) == f"<Embeddings {str(file)!r}: closed>"


def test_the_signature_of_an_embedder_has_all_settings() -> None:
    parameters = inspect.signature(Embedder).parameters
    names = [setting.name for setting in fields(EmbedderSettings)]
    assert list(parameters) == ["bilm", "settings", *names]
    assert parameters["state"].default == "zero"
    assert parameters["state"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "precision: 'str' = 'float32'" in str(inspect.signature(Embedder))


def test_a_function_keeps_its_other_parameters() -> None:
    @with_fields(FileSpec)
    def function(first: int, *, other: str = "", **changes: Any) -> str:
        return first * other + str(changes)

    first, other, *settings = inspect.signature(function).parameters.values()
    assert (first.name, other.name, other.default) == ("first", "other", "")
    assert [setting.name for setting in settings] == [setting.name for setting in fields(FileSpec)]
    assert function(1, other="a", layout="flat") == "a{'layout': 'flat'}"


@pytest.mark.parametrize("name", ["EmbedderSettings", "FileSpec", "plot_senses", "plot_curves"])
def test_public_names(name: str) -> None:
    assert name in dir(elmo_cli)
    assert getattr(elmo_cli, name).__doc__


def test_progress_is_shown_when_asked(
    text: Path, embedder: Embedder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.hdf5"
    embed_file(text, out, embedder)
    assert capsys.readouterr().err == ""
    embed_file(text, out, embedder, overwrite=True, progress=True)
    err = capsys.readouterr().err
    assert err.startswith(f"\r{out}: 0 of about 10 tokens")
    last = err.rpartition("\r")[2]
    assert last.startswith(f"{out}: 10 of about 10 tokens, ")
    assert last.endswith("\n")


def test_progress_may_be_a_function(text: Path, embedder: Embedder, tmp_path: Path) -> None:
    calls: list[tuple[int, int | None]] = []
    embed_file(text, tmp_path / "out.hdf5", embedder, progress=lambda *call: calls.append(call))
    assert calls == [(0, 10), (10, 10)]


def test_the_line_of_progress_ends_where_a_run_fails(
    text: Path, embedder: Embedder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error must not stand behind it; nothing is shown of a run that did not begin."""
    (tmp_path / "out.hdf5").touch()
    with pytest.raises(elmo_cli.ElmoError):
        embed_file(text, tmp_path / "out.hdf5", embedder, progress=True)
    assert capsys.readouterr().err == ""


def test_a_line_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is rewritten twice per second; the end of a longer line is blanked; its rate is that of
    this run."""
    now_s = 100.0
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: now_s)
    stream = io.StringIO()
    line = ProgressLine("x", stream)
    line(1000, None)
    now_s = 100.1
    line(1500, None)
    assert stream.getvalue() == "\rx: 1,000 tokens"
    now_s = 110.0
    line(2000, 3000)
    line(3000, 3000)
    line.finish()
    *_, shown, end = stream.getvalue().split("\r")
    assert shown == "x: 2,000 of about 3,000 tokens, 100 tokens/s, 10 s left"
    assert end == "x: 3,000 of about 3,000 tokens, 200 tokens/s, 0 s left \n"


def test_warnings_have_the_line_of_the_caller(embedder: Embedder, tmp_path: Path) -> None:
    """From whatever depth of the library, also by way of its other functions."""
    (tmp_path / "raw.txt").write_text("It slept.\n" * 200)
    line = _line() + 2
    with pytest.warns(UserWarning, match="untokenized") as caught:
        embed_file(tmp_path / "raw.txt", tmp_path / "out.hdf5", embedder)
    assert {(warning.filename, warning.lineno) for warning in caught} == {(__file__, line)}


def test_a_warning_outside_the_library_is_that_of_its_caller() -> None:
    line = _line() + 2
    with pytest.warns(UserWarning, match="told") as caught:
        warn_caller("told")
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)


def _line() -> int:
    """The number of the line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


@pytest.fixture(scope="module")
def plotted(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """A folder with an embeddings file, its tags, a log, the result of a probe and a geometry."""
    folder = tmp_path_factory.mktemp("plotted")
    for name, column in (("text.txt", 0), ("text.tags", 1)):
        lines = [" ".join(word.split("/")[column] for word in line.split()) for line in TAGGED]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    bilm = elmo_cli.load(tiny)
    embed_file(folder / "text.txt", folder / "text.hdf5", Embedder(bilm, device="cpu"))
    (folder / "log.jsonl").write_text('{"tokens": 100, "step": 1, "loss": 5.0}\n' * 2)
    (folder / "probe.json").write_text(
        '{"layers": [{"name": "0", "test": 50.0}], "majority_label": {"test": 40.0}, '
        '"majority_label_per_word": null}'
    )
    measures = ["self_similarity", "sentence_similarity", "mev_uncentered", "mev_pca"]
    layer = {name: {"raw": 0.5, "adjusted": 0.4} for name in (*measures, "mev_truncated_svd")}
    layers = [{"name": "0", "anisotropy": 0.1, **layer}]
    geometry = {"files": [{"file": "text.hdf5", "layers": layers}]}
    (folder / "geometry.json").write_text(json.dumps(geometry))
    (folder / "trees.jsonl").write_text(
        '{"key": 3, "layer": "1", "words": ["a", "b"], "heads": [2, 0], "punctuation": [], '
        '"gold_edges": [[1, 2]], "edges": [[1, 2]]}\n'
    )
    return folder


@pytest.mark.parametrize(
    "plot",
    ["senses", "labels", "similarity", "layers", "probes", "geometry", "tree", "curves"],
)
def test_every_plot_is_a_figure_that_a_notebook_shows(plot: str, plotted: Path) -> None:
    file = plotted / "text.hdf5"
    if plot == "senses":
        figure = elmo_cli.plot_senses(file, "play", clusters=2)
    elif plot == "labels":
        figure = elmo_cli.plot_senses(file, "play", labels=plotted / "text.tags")
    elif plot == "similarity":
        figure = elmo_cli.plot_similarity(file, 0, "1")
    elif plot == "layers":
        figure = elmo_cli.plot_layers(ElmoMix().spec(), "mix:1,0,0")
    elif plot == "probes":
        figure = elmo_cli.plot_probes(plotted / "probe.json")
    elif plot == "geometry":
        figure = elmo_cli.plot_geometry(plotted / "geometry.json")
    elif plot == "tree":
        figure = elmo_cli.plot_tree(plotted / "trees.jsonl", 3)
    else:
        figure = elmo_cli.plot_curves(plotted, plotted / "log.jsonl")
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")
    figure.axes[0].set_title("changed")  # it can still be changed


def test_clusters_and_labels_exclude_each_other(plotted: Path) -> None:
    file = plotted / "text.hdf5"
    with pytest.raises(UsageError, match="`labels` color the points"):
        elmo_cli.plot_senses(file, "play", labels=plotted / "text.tags", clusters=2)


@pytest.mark.parametrize("has_glyph", [True, False])
def test_a_figure_does_not_warn_while_it_is_drawn(
    has_glyph: bool, tiny_bilm: BiLM, tmp_path: Path
) -> None:
    """Of characters that the font lacks, it warns where it is shown, and each time."""
    text = tmp_path / "text.txt"
    word = "play" if has_glyph else "日"
    text.write_text(f"a {word}\nthe {word}\n")
    embed_file(text, tmp_path / "x.hdf5", Embedder(tiny_bilm, device="cpu"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = elmo_cli.plot_senses(tmp_path / "x.hdf5", word, clusters=1)
    for _ in range(2):
        with nullcontext() if has_glyph else pytest.warns(UserWarning, match="lacks 1 character"):
            figure._repr_png_()
