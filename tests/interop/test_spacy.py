"""The component `elmo` in pipelines of the real spaCy."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import run_program

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import ModelError, SettingError, UsageError
from elmo_cli.pretrained.load import load

pytestmark = pytest.mark.interop

spacy = pytest.importorskip("spacy")

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "tests" / "golden" / "novel.txt").read_text("utf-8").splitlines()
TEXTS = [line for line in LINES if line.strip()][:200]


def pipeline(model: Path, **config: Any) -> Any:
    """A blank pipeline with the component."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(model), "device": "cpu", **config})
    return nlp


def expected(model: Path, tokens: list[str], **settings: Any) -> np.ndarray:
    """What the library computes for one sentence."""
    chosen = EmbedderSettings(device="cpu", drop_layer_axis=True, **settings)
    return Embedder(load(model), chosen).embed(tokens)


def test_the_vectors_are_those_of_the_library(tiny: Path) -> None:
    embedder = Embedder(load(tiny), device="cpu", layers="average", drop_layer_axis=True)
    docs = list(pipeline(tiny).pipe(TEXTS))
    assert len(docs) == 200
    for doc in docs:
        words = [token.text for token in doc if not token.is_space]
        positions = [token.i for token in doc if not token.is_space]
        assert doc.tensor.dtype == np.float32
        assert doc.tensor.shape[0] == len(doc)
        assert np.abs(doc.tensor[positions] - embedder.embed(words)).max() <= 2e-5


@pytest.mark.parametrize("layers", ["top", "0", 1, "sum", "mix:0.2,0.3,0.5"])
def test_the_layer_is_chosen(layers: str | int, tiny: Path) -> None:
    doc = pipeline(tiny, layers=layers)("The cat sat")
    vectors = expected(tiny, ["The", "cat", "sat"], layers=str(layers))
    assert np.abs(doc.tensor - vectors).max() <= 2e-5
    assert (doc[1].vector == doc.tensor[1]).all()
    assert np.allclose(doc[0:2].vector, doc.tensor[:2].mean(0))
    assert np.allclose(doc.vector, doc.tensor.mean(0))


def test_all_layers_are_kept_if_asked(tiny: Path) -> None:
    doc = pipeline(tiny, layers="1", store_layers=True)("The cat sat")
    layers = Embedder(load(tiny), device="cpu").embed(["The", "cat", "sat"])
    assert np.abs(doc._.elmo - layers).max() <= 2e-5
    assert (doc.tensor == doc._.elmo[1]).all()


def test_whitespace_has_zeros_and_is_not_read(tiny: Path) -> None:
    doc = pipeline(tiny)("The  cat\n\nsat ")
    is_space = np.array([token.is_space for token in doc])
    assert is_space.any()
    assert not doc.tensor[is_space].any()
    of_words = expected(tiny, ["The", "cat", "sat"], layers="average")
    assert np.abs(doc.tensor[~is_space] - of_words).max() <= 2e-5


@pytest.mark.parametrize(("text", "n_tokens"), [("", 0), (" \n ", 1)])
def test_a_document_without_words_has_no_values(text: str, n_tokens: int, tiny: Path) -> None:
    nlp = pipeline(tiny)
    docs = list(nlp.pipe([text, "The cat", text]))
    dim = docs[1].tensor.shape[1]
    assert docs[0].tensor.shape == docs[2].tensor.shape == (n_tokens, dim)
    assert not docs[0].tensor.any()


def test_sentences_are_read_by_themselves_if_asked(tiny: Path) -> None:
    nlp = pipeline(tiny, per_sentence=True)
    with pytest.raises(UsageError, match="no sentence boundaries"):
        nlp("One here. Two there.")
    nlp.add_pipe("sentencizer", first=True)
    doc = nlp("One here. Two there.")
    first = expected(tiny, ["One", "here", "."], layers="average")
    second = expected(tiny, ["Two", "there", "."], layers="average")
    assert np.abs(doc.tensor - np.concatenate([first, second])).max() <= 2e-5
    whole = pipeline(tiny)("One here. Two there.")
    assert np.abs(doc.tensor - whole.tensor).max() > 1e-3


def test_the_sentences_of_a_document_continue_each_other_with_state_document(tiny: Path) -> None:
    nlp = pipeline(tiny, per_sentence=True, state="document")
    nlp.add_pipe("sentencizer", first=True)
    text = "One here. Two there."
    docs = list(nlp.pipe([text, text]))
    assert np.abs(docs[0].tensor - docs[1].tensor).max() <= 2e-5
    second = expected(tiny, ["Two", "there", "."], layers="average")
    assert np.abs(docs[0].tensor[3:] - second).max() > 1e-3


def test_equal_words_in_two_contexts_are_not_equal(tiny: Path) -> None:
    nlp = pipeline(tiny)
    river, money = nlp.pipe(["the bank of a river", "a bank with money"])
    cosine = float(np.dot(river[1].vector, money[1].vector))
    cosine /= float(np.linalg.norm(river[1].vector) * np.linalg.norm(money[1].vector))
    assert river[1].similarity(money[1]) == pytest.approx(cosine, abs=1e-6)
    assert cosine < 0.9999
    assert river[1:2].similarity(money[1:2]) == pytest.approx(cosine, abs=1e-6)
    assert river.similarity(river) == pytest.approx(1, abs=1e-6)
    assert nlp("").similarity(river) == 0
    without = pipeline(tiny, similarity=False)
    assert without("a bank")[1].similarity(without("the bank")[1]) == 1


def test_vectors_of_two_models_are_not_compared(tiny: Path, odd: Path) -> None:
    doc = pipeline(tiny)("the bank")
    other = pipeline(odd)("the bank")
    with pytest.raises(UsageError, match="vectors of 16 and 24 numbers"):
        doc[0].similarity(other[1])


def test_vectors_of_words_do_not_hide_those_in_context(tiny: Path) -> None:
    nlp = pipeline(tiny)
    nlp.vocab.set_vector("cat", np.ones(300, np.float32))
    doc = nlp("The cat")
    assert (doc[1].vector == doc.tensor[1]).all()
    assert np.allclose(doc[0:2].vector, doc.tensor.mean(0))
    assert np.allclose(doc.vector, doc.tensor.mean(0))
    assert doc.has_vector
    assert doc[0].has_vector


def test_the_pipeline_says_what_it_assigns(tiny: Path) -> None:
    analysis = pipeline(tiny).analyze_pipes()
    assert analysis["summary"]["elmo"]["assigns"] == ["doc.tensor"]


@pytest.mark.parametrize(("place", "has_vectors"), [("last", True), ("first", False)])
def test_another_component_may_replace_the_vectors(
    place: str, has_vectors: bool, tiny: Path
) -> None:
    """The page says to add the component last."""
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    nlp.initialize()
    nlp.add_pipe("elmo", config={"model": str(tiny), "device": "cpu"}, **{place: True})
    vectors = expected(tiny, ["The", "cat"], layers="average")
    assert (nlp("The cat").tensor.shape == vectors.shape) == has_vectors


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"state": "carry"}, "state"),
        ({"batch_size": 0}, "batch_size"),
        ({"precision": "float8"}, "precision"),
    ],
)
def test_an_impossible_configuration_is_refused(
    config: dict[str, Any], message: str, tiny: Path
) -> None:
    with pytest.raises(SettingError, match=message):
        pipeline(tiny, **config)


def test_several_layers_are_refused(tiny: Path) -> None:
    with pytest.raises(SettingError, match="vectors per token, but one is needed"):
        pipeline(tiny, layers="0,1")("The cat")


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many documents are computed together, in each call."""
    from elmo_cli.interop import spacy_component

    sizes: list[int] = []
    embed_docs = spacy_component.embed_docs

    def spied(embedder: Any, docs: Any, **settings: Any) -> Any:
        sizes.append(len(docs))
        return embed_docs(embedder, docs, **settings)

    monkeypatch.setattr(spacy_component, "embed_docs", spied)
    return sizes


@pytest.mark.parametrize(("batch_size", "sizes"), [(2, [2, 2, 1]), (128, [3, 2])])
def test_the_smaller_batch_size_holds(
    batch_size: int, sizes: list[int], tiny: Path, batches: list[int]
) -> None:
    """That of the configuration, and that of `nlp.pipe`."""
    list(pipeline(tiny, batch_size=batch_size).pipe(TEXTS[:5], batch_size=3))
    assert batches == sizes


def test_the_error_handler_of_the_pipeline_is_called(tiny: Path) -> None:
    nlp = pipeline(tiny, per_sentence=True)  # which needs sentence boundaries
    failed = []
    nlp.set_error_handler(lambda name, component, docs, error: failed.append((name, len(docs))))
    assert list(nlp.pipe(["", "The cat", "It slept"], batch_size=1)) != []
    assert failed == [("elmo", 1), ("elmo", 1)]


def test_the_embedder_has_the_device_and_precision_of_the_configuration(tiny: Path) -> None:
    from elmo_cli.interop.spacy import tok2vec

    nlp = pipeline(tiny, precision="int8")
    settings = nlp.get_pipe("elmo").config.settings
    assert (settings.device, settings.precision) == ("cpu", "int8")
    exact = pipeline(tiny)("The cat sat").tensor
    rounded = nlp("The cat sat").tensor
    assert 0 < np.abs(rounded - exact).max() < 0.1
    trained = tok2vec(model=str(tiny), precision="int8", device="cpu")
    trained.initialize()
    (vectors,) = trained.predict([nlp.make_doc("The cat sat")])
    assert (vectors == rounded).all()
    with pytest.raises(UsageError, match="device"):
        tok2vec(model=str(tiny), device="tpu")


# -- stored and in other processes ----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*W109.*:UserWarning")
def test_documents_keep_their_vectors_as_the_page_says(tiny: Path) -> None:
    from spacy.tokens import Doc, DocBin

    from elmo_cli.interop.spacy import add_hooks

    nlp = pipeline(tiny, store_layers=True)
    doc = nlp("a bank here")
    read = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert (read.tensor == doc.tensor).all()
    assert (read._.elmo == doc._.elmo).all()
    assert read[1].similarity(nlp("the bank")[1]) == 1  # its hooks are lost
    add_hooks(read)
    assert read[1].similarity(nlp("the bank")[1]) < 0.9999
    for keeps_layers in (False, True):
        content = DocBin(docs=[doc], store_user_data=keeps_layers).to_bytes()
        (from_bin,) = DocBin().from_bytes(content).get_docs(nlp.vocab)
        assert not from_bin.tensor.size
        assert (from_bin._.elmo is not None) == keeps_layers


@pytest.mark.filterwarnings("ignore:.*W109.*:UserWarning")
def test_two_processes_give_the_vectors_of_one(tiny: Path) -> None:
    nlp = pipeline(tiny)
    texts = TEXTS[:20]
    alone = list(nlp.pipe(texts))
    together = list(nlp.pipe(texts, n_process=2, batch_size=5))
    for doc, other in zip(alone, together, strict=True):
        assert np.abs(doc.tensor - other.tensor).max() <= 2e-5


def test_a_pickled_pipeline_has_no_model(tiny: Path) -> None:
    nlp = pipeline(tiny)
    doc = nlp("The cat sat")
    content = pickle.dumps(nlp.get_pipe("elmo"))
    assert len(content) < 5000
    read = pickle.loads(content)
    assert (read(nlp.make_doc("The cat sat")).tensor == doc.tensor).all()


PROGRAM = """
import sys
import spacy
nlp = spacy.load(sys.argv[1])
print(*nlp("The cat sat").tensor.ravel().tolist())
"""


def test_a_stored_pipeline_is_loaded_in_a_new_process(tiny: Path, tmp_path: Path) -> None:
    """It finds the component by the entry point of the installed package."""
    nlp = pipeline(tiny, layers="top")
    doc = nlp("The cat sat")
    nlp.to_disk(tmp_path / "pipeline")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "pipeline"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    values = np.array(done.stdout.split(), np.float32).reshape(doc.tensor.shape)
    assert np.abs(values - doc.tensor).max() <= 2e-5


def test_another_model_under_the_same_name_is_refused(
    tiny: Path, odd: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(tiny, tmp_path / "model")
    nlp = pipeline(model)
    nlp("The cat sat")
    nlp.to_disk(tmp_path / "pipeline")
    spacy.load(tmp_path / "pipeline")
    shutil.rmtree(model)
    shutil.copytree(odd, model)
    with pytest.raises(ModelError, match="model_sha256"):
        spacy.load(tmp_path / "pipeline")
    with pytest.raises(ModelError, match="model_sha256"):  # also of the pipeline in memory
        nlp("The cat sat")


def test_the_program_of_the_page_prints_what_is_shown() -> None:
    run_program(ROOT / "docs" / "guides" / "spacy.md", 0)
