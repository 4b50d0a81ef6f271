"""The architecture `elmo.Tok2Vec.v1`: its vectors, what is trained on them, and `spacy train`."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_cli.embed.embedder import Embedder
from elmo_cli.errors import ModelError, SettingError
from elmo_cli.pretrained.load import load

pytestmark = pytest.mark.interop

spacy = pytest.importorskip("spacy")

CONFIG = """
[paths]
train = null
dev = null

[nlp]
lang = "en"
pipeline = ["tok2vec", "tagger"]

[components]

[components.tok2vec]
factory = "tok2vec"

[components.tok2vec.model]
@architectures = "elmo.Tok2Vec.v1"
model = "{model}"
layers = "{layers}"
width = 16
device = "cpu"

[components.tagger]
factory = "tagger"

[components.tagger.model]
@architectures = "spacy.Tagger.v2"

[components.tagger.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = 16

[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = ${{paths.train}}

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = ${{paths.dev}}

[training]
max_steps = 60
eval_frequency = 20
seed = 1

[training.optimizer]
@optimizers = "Adam.v1"
learn_rate = 0.02
"""


def docs_of(*texts: str) -> list[Any]:
    nlp = spacy.blank("en")
    return [nlp.make_doc(text) for text in texts]


def layer(model: Path, **settings: Any) -> Any:
    """The architecture, made as a configuration makes it."""
    from elmo_cli.interop.spacy import tok2vec

    made = tok2vec(model=str(model), device="cpu", **settings)
    made.initialize(X=docs_of("The cat sat"))
    return made


def test_the_vectors_are_those_of_the_library(tiny: Path) -> None:
    embedder = Embedder(load(tiny), device="cpu", layers="top", drop_layer_axis=True)
    made = layer(tiny, layers="top")
    assert made.get_dim("nO") == embedder.bilm.options.dim
    first, second = made.predict(docs_of("The cat sat", "It slept"))
    assert first.shape == (3, embedder.bilm.options.dim)
    assert np.abs(first - embedder.embed(["The", "cat", "sat"])).max() <= 2e-5
    assert np.abs(second - embedder.embed(["It", "slept"])).max() <= 2e-5


def test_a_layer_may_be_a_number_as_a_configuration_has_it(tiny: Path) -> None:
    config = {"@architectures": "elmo.Tok2Vec.v1", "model": str(tiny), "layers": 1, "device": "cpu"}
    made = spacy.registry.resolve({"model": config})["model"]
    made.initialize(X=docs_of("The cat sat"))
    (vectors,) = made.predict(docs_of("The cat sat"))
    embedder = Embedder(load(tiny), device="cpu", layers="1", drop_layer_axis=True)
    assert np.abs(vectors - embedder.embed(["The", "cat", "sat"])).max() <= 2e-5


def test_a_width_projects_the_vectors(tiny: Path) -> None:
    (vectors,) = layer(tiny, width=5).predict(docs_of("The cat sat"))
    assert vectors.shape == (3, 5)
    assert vectors.mean(1) == pytest.approx(0, abs=1e-4)  # normalized
    assert vectors.var(1) == pytest.approx(1, abs=1e-2)


def test_learned_layers_begin_with_the_average_and_have_right_gradients(tiny: Path) -> None:
    """The gradients are compared with differences of the loss, the sum of squares."""
    made = layer(tiny, layers="learned")
    docs = docs_of("The cat sat", "It slept")
    average = layer(tiny, layers="average").predict(docs)
    outputs, backprop = made.begin_update(docs)
    for vectors, expected in zip(outputs, average, strict=True):
        assert np.abs(vectors - expected).max() <= 2e-5
    backprop([2 * vectors for vectors in outputs])
    (mix,) = [node for node in made.walk() if node.name == "elmo_mix"]
    for name in ("weights", "gamma"):
        values = mix.get_param(name)
        gradients = mix.get_grad(name).copy()
        for number in range(len(values)):
            losses = []
            for step in (0.01, -0.01):
                changed = values.copy()
                changed[number] += step
                mix.set_param(name, changed)
                losses.append(sum(float((v.astype("f8") ** 2).sum()) for v in made.predict(docs)))
            mix.set_param(name, values)
            difference = (losses[0] - losses[1]) / 0.02
            assert gradients[number] == pytest.approx(difference, rel=1e-2, abs=1e-2)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many documents the biLM reads in each call."""
    from elmo_cli.interop import spacy_tok2vec

    calls: list[int] = []
    embed_docs = spacy_tok2vec.embed_docs

    def spied(embedder: Any, docs: Any, **settings: Any) -> Any:
        calls.append(len(docs))
        return embed_docs(embedder, docs, **settings)

    monkeypatch.setattr(spacy_tok2vec, "embed_docs", spied)
    return calls


@pytest.mark.parametrize(("cache_tokens", "n_computed"), [(1000, 1), (0, 3), (2, 3)])
def test_training_texts_are_computed_once(
    cache_tokens: int, n_computed: int, tiny: Path, computed: list[int]
) -> None:
    made = layer(tiny, cache_tokens=cache_tokens)
    results = [made.begin_update(docs_of("The cat sat"))[0] for _ in range(3)]
    assert computed == [1] * n_computed
    assert (results[0][0] == results[2][0]).all()


def test_texts_that_are_not_trained_on_are_not_kept(tiny: Path, computed: list[int]) -> None:
    """Otherwise a pipeline in use would keep the first texts that it reads."""
    made = layer(tiny)
    for _ in range(2):
        made.predict(docs_of("The cat sat"))
    assert computed == [1, 1]


def test_the_cache_is_neither_stored_nor_pickled(tiny: Path, computed: list[int]) -> None:
    made = layer(tiny)
    made.begin_update(docs_of("The cat sat"))
    assert len(made.to_bytes()) < 2000
    pickle.loads(pickle.dumps(made)).begin_update(docs_of("The cat sat"))
    assert computed == [1, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"state": "carry"}, "state"),
        ({"layers": "0,1"}, "one is needed"),
        ({"cache_tokens": -1}, "cache_tokens"),
    ],
)
def test_an_impossible_setting_is_refused(
    settings: dict[str, Any], message: str, tiny: Path
) -> None:
    with pytest.raises(SettingError, match=message):
        layer(tiny, **settings)


def test_another_model_than_in_training_is_refused(tiny: Path) -> None:
    made = layer(tiny)
    made.predict(docs_of("The cat sat"))
    made.attrs["model_sha256"] = "0" * 64
    with pytest.raises(ModelError, match="model_sha256"):
        made.predict(docs_of("It slept"))


# -- spacy train ----------------------------------------------------------------------------------


def write_treebank(path: Path) -> None:
    """Sentences whose tags depend on the words alone, so that any vectors can tell them."""
    from spacy.tokens import Doc, DocBin

    nlp = spacy.blank("en")
    tags = {"the": "DET", "cat": "NOUN", "dog": "NOUN", "sat": "VERB", "ran": "VERB"}
    docs = []
    for noun in ("cat", "dog"):
        for verb in ("sat", "ran"):
            words = ["the", noun, verb]
            docs.append(Doc(nlp.vocab, words=words, tags=[tags[word] for word in words]))
    DocBin(docs=docs * 5).to_disk(path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("layers", ["average", "learned"])
def test_spacy_train_trains_a_tagger(layers: str, tiny: Path, tmp_path: Path) -> None:
    from spacy.cli.init_config import fill_config
    from spacy.cli.train import train

    (tmp_path / "short.cfg").write_text(CONFIG.format(model=tiny, layers=layers))
    fill_config(tmp_path / "config.cfg", tmp_path / "short.cfg", silent=True)
    write_treebank(tmp_path / "text.spacy")
    paths = {"paths.train": str(tmp_path / "text.spacy"), "paths.dev": str(tmp_path / "text.spacy")}
    train(tmp_path / "config.cfg", tmp_path / "out", overrides=paths)
    best = tmp_path / "out" / "model-best"
    scores = json.loads((best / "meta.json").read_text())["performance"]
    assert scores["tag_acc"] > 0.95
    doc = spacy.load(best)("the dog sat")
    assert [token.tag_ for token in doc] == ["DET", "NOUN", "VERB"]
    n_bytes = sum(path.stat().st_size for path in best.rglob("*") if path.is_file())
    assert n_bytes < 1_000_000
