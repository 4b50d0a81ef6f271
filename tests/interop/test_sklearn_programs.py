"""ElmoVectorizer with pandas, and in the processes of joblib."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from elmo_cli.errors import InputError
from elmo_cli.interop.sklearn import ElmoVectorizer

pytestmark = pytest.mark.interop

pandas = pytest.importorskip("pandas")

TEXTS = ["the cat sat", "the dog sat down", "a cat slept", "dogs sleep", "cats", "a dog ."]
IS_DOG = [0, 1, 0, 1, 0, 1]


@pytest.fixture
def vectorizer(tiny: Path) -> ElmoVectorizer:
    return ElmoVectorizer(tiny, device="cpu")


@pytest.fixture
def table() -> pandas.DataFrame:
    return pandas.DataFrame({"text": TEXTS, "year": range(6)}, index=list("uvwxyz"))


def test_a_column_becomes_a_table_with_its_index(vectorizer, table):
    expected = vectorizer.transform(TEXTS)
    vectors = vectorizer.set_output(transform="pandas").fit_transform(table["text"])
    assert list(vectors.index) == list("uvwxyz")
    assert list(vectors.columns[:2]) == ["elmovectorizer0", "elmovectorizer1"]
    assert (vectors.to_numpy() == expected).all()


def test_a_column_transformer_names_the_column_of_texts(vectorizer, table):
    transformer = ColumnTransformer([("elmo", vectorizer, "text")], remainder="passthrough")
    transformer.set_output(transform="pandas")
    columns = list(transformer.fit_transform(table).columns)
    assert columns[0] == "elmo__elmovectorizer0"
    assert columns[-1] == "remainder__year"


def test_a_table_and_a_missing_value_are_refused(vectorizer, table):
    with pytest.raises(InputError, match="a table, not a column of texts"):
        vectorizer.fit_transform(table)
    table.loc["v", "text"] = None
    with pytest.raises(InputError, match="text 1: of type"):
        vectorizer.fit_transform(table["text"])


def test_two_processes_find_the_scores_of_one(vectorizer):
    pipeline = make_pipeline(vectorizer, LogisticRegression())
    scores = [
        cross_val_score(pipeline, TEXTS, IS_DOG, cv=2, n_jobs=n_jobs, scoring="neg_log_loss")
        for n_jobs in (1, 2)
    ]
    assert np.abs(scores[0] - scores[1]).max() < 1e-3
