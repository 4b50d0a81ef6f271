"""ElmoVectorizer: the vectors of `elmo embed` in pipelines of scikit-learn."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from command_line import made
from sklearn.base import clone
from sklearn.exceptions import SkipTestWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.interop import shared_embedders
from elmo_cli.interop.sklearn import ElmoVectorizer
from elmo_cli.store.reader import open_embeddings
from elmo_cli.text.tokenizer import EnglishTokenizer

TEXTS = ["the cat sat", "the dog sat down", "a cat slept", "dogs sleep", "cats", "a dog ."]
IS_DOG = [0, 1, 0, 1, 0, 1]


@pytest.fixture
def vectorizer(tiny: Path) -> ElmoVectorizer:
    return ElmoVectorizer(tiny, device="cpu")


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The settings with which a model is loaded, in an empty cache."""
    settings_of_loads = []
    load = shared_embedders.SharedEmbedders._load

    def recorded(self, model, settings):
        settings_of_loads.append(settings)
        return load(self, model, settings)

    monkeypatch.setattr(shared_embedders.SharedEmbedders, "_load", recorded)
    monkeypatch.setattr(shared_embedders._embedders, "_embedders", OrderedDict())
    return settings_of_loads


def english_words(text: str) -> list[str]:
    return [token for sentence in EnglishTokenizer().sentences(text) for token in sentence]


@pytest.mark.parametrize(
    "options",
    [{}, {"layers": "top", "pool": "max"}, {"layers": "0"}, {"layers": "mix:0.2,0.3,0.5"}],
    ids=lambda options: ",".join(options.values()),
)
def test_the_vectors_are_those_of_the_command(options, tiny, tmp_path, lines):
    texts = [" ".join(tokens) for tokens in lines if "".join(tokens).isprintable()]
    assert len(texts) > 10
    (tmp_path / "text").write_text("\n".join(texts) + "\n", encoding="utf-8")
    words = ["-m", tiny, "--layers", "average", "--pool", "mean", "--device", "cpu"]
    for name, value in options.items():
        words += [f"--{name}", value]
    made("embed", tmp_path / "text", "-o", tmp_path / "x.hdf5", *words)
    vectors = ElmoVectorizer(tiny, device="cpu", **options).transform(texts)
    assert vectors.dtype == np.float32
    embeddings = open_embeddings(tmp_path / "x.hdf5")
    for key, vector in embeddings.items():
        assert np.abs(vectors[int(key)] - vector).max() <= 2e-5


def test_lists_of_tokens_and_texts_without_tokens(vectorizer):
    vectors = vectorizer.transform(["the cat", ["the", "cat"], "", " \n", [], ("the cat",)])
    assert vectors.shape == (6, 16)
    assert (vectors[0] == vectors[1]).all()
    assert not vectors[2:5].any()
    assert np.abs(vectors[5] - vectors[0]).max() > 0.01  # a token with a space
    assert vectorizer.transform([]).shape == (0, 16)


@pytest.mark.parametrize("kind", [tuple, iter, lambda texts: np.array(texts, object), np.array])
def test_texts_come_in_any_container(kind, vectorizer):
    assert (vectorizer.fit_transform(kind(TEXTS)) == vectorizer.transform(TEXTS)).all()


def test_a_tokenizer_replaces_the_split_at_spaces(vectorizer, tiny):
    with_tokenizer = ElmoVectorizer(tiny, device="cpu", tokenizer=english_words)
    text = "It's a cat."
    tokens = ["It", "'s", "a", "cat", "."]
    assert (with_tokenizer.transform([text]) == vectorizer.transform([tokens])).all()
    assert (with_tokenizer.transform([tokens]) == vectorizer.transform([tokens])).all()


@pytest.mark.parametrize("dtype", [np.float64, "float16"])
def test_the_dtype_is_that_of_the_vectors(dtype, vectorizer, tiny):
    vectors = ElmoVectorizer(tiny, device="cpu", dtype=dtype).transform(TEXTS)
    assert vectors.dtype == dtype
    assert np.abs(vectors - vectorizer.transform(TEXTS)).max() < 2e-3


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("the cat", "`X`: a single text"),
        (b"the cat", "`X`: a single text"),
        ([None], "text 0: of type NoneType"),
        (["a", float("nan")], "text 1: of type float"),
        ([b"the cat"], "text 0: of type bytes"),
        ([["a", 1.5]], "text 0: of type list"),
        (np.ones((2, 2)), "text 0: of type ndarray"),
        ([["a", ""]], "sentence 0: token 1 is empty"),
    ],
)
def test_other_input_is_a_value_error(texts, message, vectorizer):
    with pytest.raises(ValueError, match=message):
        vectorizer.fit_transform(texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": None}, "`pool`: one vector per text is needed"),
        ({"pool": "sum"}, "`pool='sum'`"),
        ({"layers": "all"}, "`layers='all'`: 3 vectors per token"),
        ({"layers": "0,2"}, "`layers='0,2'`: 2 vectors per token"),
        ({"layers": "7"}, "the model has layers 0, 1, 2"),
        ({"state": "carry"}, "`state='carry'`"),
        ({"state": "document"}, "`state='document'`"),
        ({"state": "cold"}, "unknown value 'cold'"),
        ({"precision": "int4"}, "unknown value 'int4'"),
        ({"tokenizer": "nltk"}, "`tokenizer='nltk'`: not a function"),
        ({"dtype": np.int64}, "not a floating-point type"),
        ({"dtype": "float33"}, "`dtype='float33'`: not a floating-point type"),
        ({"device": "tpu"}, "tpu"),
        ({"model": "no-such-model"}, "no-such-model"),
    ],
)
def test_fit_checks_the_parameters_without_loading_the_model(options, message, tiny, loaded):
    chosen = {"model": tiny, **options}
    vectorizer = ElmoVectorizer(**chosen)
    with pytest.raises(ElmoError, match=message) as raised:
        vectorizer.fit(TEXTS)
    assert raised.value.hint
    assert loaded == []


def test_parameters_are_stored_as_given_and_cloned(tiny):
    vectorizer = ElmoVectorizer(tiny, layers="top", tokenizer=english_words, dtype="float16")
    copied = clone(vectorizer)
    assert copied.get_params() == vectorizer.get_params()
    assert copied.get_params() == {
        "model": tiny,
        "layers": "top",
        "pool": "mean",
        "state": "zero",
        "precision": "float32",
        "tokenizer": english_words,
        "dtype": "float16",
        "device": "auto",
    }
    assert copied.set_params(pool="max").pool == "max"


def test_a_grid_search_loads_the_model_once_per_setting(vectorizer, loaded):
    pipeline = Pipeline([("elmo", vectorizer), ("classifier", LogisticRegression())])
    grid = {"classifier__C": [0.1, 10], "elmo__layers": ["top", "0"]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(TEXTS, IS_DOG)
    assert len(search.cv_results_["params"]) == 4
    assert sorted(settings.layers for settings in loaded) == ["0", "top"]
    assert search.predict(["a dog"]).shape == (1,)


def test_a_pickled_pipeline_is_small_and_has_no_model(vectorizer, loaded):
    pipeline = make_pipeline(vectorizer, LogisticRegression()).fit(TEXTS, IS_DOG)
    data = pickle.dumps(pipeline)
    assert len(data) < 6000
    assert (pickle.loads(data).predict_proba(TEXTS) == pipeline.predict_proba(TEXTS)).all()
    assert len(loaded) == 1


def test_a_pipeline_refuses_another_model_in_the_place_of_its_own(tmp_path, tiny):
    """Its classifier was trained on the vectors of the first model."""
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    pipeline = make_pipeline(ElmoVectorizer(folder, device="cpu"), LogisticRegression())
    data = pickle.dumps(pipeline.fit(TEXTS, IS_DOG))
    with h5py.File(folder / "weights.hdf5", "r+") as weights:
        weights["char_embed"][5] += 1
    with pytest.raises(ModelError, match=r"model: its model_sha256 is \w+…, not \w+…"):
        pickle.loads(data).predict(TEXTS)
    pipeline.fit(TEXTS, IS_DOG).predict(TEXTS)  # with the new one


def test_the_names_of_the_columns(vectorizer):
    names = vectorizer.get_feature_names_out()
    assert names.tolist() == [f"elmovectorizer{column}" for column in range(16)]


def test_it_needs_no_fit(vectorizer):
    check_is_fitted(vectorizer)
    assert vectorizer.transform(["a cat"]).shape == (1, 16)


def test_check_estimator_passes(vectorizer):
    # Not at the top: it takes a second to import, in each process that collects tests.
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(vectorizer)
    # Most of its checks are about tables of numbers, and are skipped for all vectorizers of texts.
    assert {result["status"] for result in results} == {"passed"}


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_module_imports_scikit_learn_on_first_use():
    code = """
import sys
import elmo_cli.interop.sklearn as bridge
print("sklearn" in sys.modules, "ElmoVectorizer" in dir(bridge))
sys.modules["sklearn"] = None  # as if it were not installed
try:
    from elmo_cli.interop.sklearn import ElmoVectorizer
except Exception as error:
    print(type(error).__name__, error.problem, error.hint)
"""
    shown = "ElmoError scikit-learn is not installed `pip install '.[sklearn]'` in a clone"
    assert run_python(code).splitlines() == ["False True", shown]


def test_another_name_of_the_module_is_an_attribute_error():
    from elmo_cli.interop import sklearn

    with pytest.raises(AttributeError, match="ElmoTransformer"):
        sklearn.ElmoTransformer  # noqa: B018
