"""Task `coref`: clusters of mentions of the same entity, in CoNLL-2012 columns or JSON lines."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, ClassVar

from elmo_cli.errors import InputError
from elmo_cli.tasks.coref_model import CorefSettings, Document, SpanRanker
from elmo_cli.tasks.coref_score import Clusters, Mention, ceaf_phi4, score_clusters
from elmo_cli.tasks.inputs import Tokens
from elmo_cli.tasks.readers import Row, checked_tokens, read_json_lines, read_rows, tokens_of_json
from elmo_cli.tasks.task import Scores, Split, Task
from elmo_cli.text.input import InputSettings, format_of, read_sentences

_NO_MENTION = ("", "-", "_", "*")  # cells of tokens where no mention begins or ends
_TOKEN_COLUMN = 3  # of CoNLL-2012; files of up to four columns have the token before the mentions
_HEADING = re.compile(r"\((?P<name>.*)\)(?:; part (?P<part>\d{1,9}))?;?")  # of CoNLL-2012
_COLUMN_HINT = "the last column has (12 and 12) where mentions of entity 12 begin and end, else -"
_CLUSTERS_HINT = "a cluster is a list of [first, last], token numbers from 0 in the document"


class CorefTask(Task[Document, Clusters]):
    """Clusters of mentions, from CoNLL-2012 columns or the JSON lines of e2e-coref.

    Files whose names end in .jsonl or .json are JSON lines. Clusters that share a mention are
    joined, as in e2e-coref. In text, blank lines separate documents.
    """

    name = "coref"
    settings_class = CorefSettings
    model_class = SpanRanker
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {
            "elmo.projection": 0,
            "char_filters": 100,
            "char_width": 5,
            "hidden": 200,
            "max_width": 10,
            "spans_per_token": 0.4,
            "max_antecedents": 100,
            "span_dim": 400,
            "scorer_dim": 150,
            "scorer_layers": 2,
            "window_tokens": 1500,
            "epochs": 150,
            "patience": 10,
        }
    }
    formats = ("jsonl", "conll")
    reads_text = True

    def read(self, path: str, *, labelled: bool = True) -> Split[Document]:
        if labelled:
            ceaf_phi4([], [])  # refuses a missing scipy before training, not after
        split = Split[Document](path)
        is_json = format_of(path, InputSettings()) == "jsonl"
        (_read_json if is_json else _read_conll)(split, labelled)
        return split

    def read_text(self, paths: Sequence[str], text: InputSettings) -> Split[Document]:
        split = Split[Document](", ".join(paths))
        found = [sentence for sentence in read_sentences(paths, text) if sentence.tokens]
        starts = [i for i, sentence in enumerate(found) if sentence.starts_document or not i]
        for start, end in pairwise([*starts, len(found)]):
            name = found[start].document or f"document_{1 + len(split.examples)}"
            numbers = split.add(*(sentence.tokens for sentence in found[start:end]))
            split.examples.append(Document(numbers, found[start].where, None, name))
        return split

    def collect_labels(self, train: Split[Document]) -> dict[str, bool]:
        """Return whether there are clusters of one mention, as "singletons"."""
        sizes = {len(cluster) for one in train.examples for cluster in one.target or ()}
        if not sizes:
            raise InputError(f"{train.path}: contains no cluster", "give annotated documents")
        return {"singletons": 1 in sizes}

    def score(self, examples: Sequence[Document], predictions: Sequence[Clusters]) -> Scores:
        true = [example.target or () for example in examples]
        return score_clusters(list(zip(true, predictions, strict=True)))

    def format_example(
        self, example: Document, sentences: list[Tokens], prediction: Clusters, output_format: str
    ) -> dict[str, Any] | str:
        match = _HEADING.fullmatch(example.heading)
        name, part = (match["name"], int(match["part"] or 0)) if match else (example.heading, 0)
        if output_format == "conll":
            cells = iter(_cells(prediction, sum(map(len, sentences))))
            lines = [f"#begin document {example.heading}".rstrip()]
            for tokens in sentences:
                for number, token in enumerate(tokens):
                    lines.append(f"{name}\t{part}\t{number}\t{token}\t{next(cells)}")
                lines.append("")
            return "\n".join([*lines, "#end document"])
        key = f"{name}_{part}" if match else name
        fields: dict[str, Any] = {"doc_key": key, "sentences": sentences}
        if example.target is not None:
            fields["clusters"] = [sorted(cluster) for cluster in example.target]
        fields["predicted_clusters"] = [sorted(cluster) for cluster in prediction]
        return fields


def _read_conll(split: Split[Document], labelled: bool) -> None:
    for _, group in groupby(read_rows(split.path), lambda sentence: sentence.document):
        document = list(group)
        rows = [row for sentence in document for row in sentence.rows]
        numbers = split.add(*(_tokens_of(sentence.rows) for sentence in document))
        clusters = _clusters_of(rows) if labelled else None
        where, heading = rows[0].where, document[0].heading or split.path
        split.examples.append(Document(numbers, where, clusters, heading))


def _tokens_of(rows: Sequence[Row]) -> Tokens:
    tokens = []
    for where, cells in rows:
        if len(cells) < 2:
            what = f"{where}: one column, not a token and its mentions"
            raise InputError(what, _COLUMN_HINT)
        tokens.append(cells[_TOKEN_COLUMN if len(cells) > _TOKEN_COLUMN + 1 else -2].strip())
    return checked_tokens(tokens, rows[0].where)


def _clusters_of(rows: Sequence[Row]) -> Clusters:
    """Return the clusters of the last column."""
    clusters: dict[str, set[Mention]] = defaultdict(set)
    unfinished: dict[str, list[tuple[int, str]]] = defaultdict(list)  # entity -> (position, where)
    for position, (where, cells) in enumerate(rows):
        cell = cells[-1].strip()
        for mark in [] if cell in _NO_MENTION else cell.split("|"):
            entity, begins, ends = mark.strip("()"), mark.startswith("("), mark.endswith(")")
            if begins:
                unfinished[entity].append((position, where))
            elif not ends or not unfinished[entity]:
                what = f"{where}: {mark!r} neither begins nor ends a mention"
                raise InputError(what, _COLUMN_HINT)
            if ends:
                clusters[entity].add((unfinished[entity].pop()[0], position))
    for entity, starts in unfinished.items():
        if starts:
            what = f"{starts[0][1]}: a mention of entity {entity} does not end"
            raise InputError(what, _COLUMN_HINT)
    return _merge_overlapping(clusters.values())


def _merge_overlapping(clusters: Iterable[set[Mention]]) -> Clusters:
    """Merge clusters that share a mention."""
    found: list[set[Mention]] = []
    for cluster in clusters:
        sharing = [one for one in found if one & cluster]
        found = [one for one in found if not one & cluster]
        found.append(cluster.union(*sharing))
    return [frozenset(cluster) for cluster in found]


def _read_json(split: Split[Document], labelled: bool) -> None:
    for where, found in read_json_lines(split.path):
        lists = found.get("sentences")
        if not isinstance(lists, list) or not any(lists):
            hint = 'give `"sentences": [["Rain", "fell", "."], …]`'
            raise InputError(f"{where}: `sentences` is missing or empty", hint)
        sentences = [tokens_of_json(one, f"{where}: a sentence") for one in lists if one]
        n_tokens = sum(map(len, sentences))
        clusters = _json_clusters(where, found.get("clusters"), n_tokens) if labelled else None
        name = str(found.get("doc_key", ""))
        split.examples.append(Document(split.add(*sentences), where, clusters, name))


def _json_clusters(where: str, value: Any, n_tokens: int) -> Clusters:
    try:
        clusters = [{(first, last) for first, last in cluster} for cluster in value if cluster]
        is_valid = all(0 <= first <= last < n_tokens for one in clusters for first, last in one)
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid:
        what = f"{where}: `clusters` is missing, or not lists of mentions within {n_tokens} tokens"
        raise InputError(what, _CLUSTERS_HINT)
    return _merge_overlapping(clusters)


def _cells(clusters: Clusters, n_tokens: int) -> list[str]:
    """Return the cells of the last column of CoNLL-2012, one per token."""
    named = [(*mention, entity) for entity, cluster in enumerate(clusters) for mention in cluster]
    named.sort(key=lambda one: (one[0], -one[1]))  # outer mentions begin first and end last
    marks: list[list[str]] = [[] for _ in range(n_tokens)]
    for first, last, entity in named:
        marks[first].append(f"({entity})" if first == last else f"({entity}")
    for first, last, entity in reversed(named):
        if first < last:
            marks[last].append(f"{entity})")
    return ["|".join(one) or "-" for one in marks]
