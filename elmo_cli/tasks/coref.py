"""Task `coref`: clusters of mentions of the same entity, in CoNLL-2012 columns or JSON lines."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn

from elmo_cli.errors import InputError
from elmo_cli.tasks.coref_model import CorefSettings, Document, SpanRanker
from elmo_cli.tasks.coref_score import (
    Clusters,
    Mention,
    check_scorer,
    mean_f1,
    score_documents,
    without_singletons,
)
from elmo_cli.tasks.inputs import Tokens
from elmo_cli.tasks.readers import Row, SentenceRows, read_json_lines, read_rows
from elmo_cli.tasks.representation import TokenRepresentation
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Scores, Split, Task
from elmo_cli.text.input import InputSettings, format_of, read_sentences
from elmo_cli.text.sentence import token_problem

_NO_MENTION = ("", "-", "_", "*")  # cells of tokens where no mention begins or ends
_MARK = re.compile(r"(?P<begins>\()?(?P<entity>[^()|\s]+)(?P<ends>\))?")
_TOKEN_COLUMN = 3  # of CoNLL-2012; files of up to four columns have the token before the mentions
_COLUMN_HINT = "the last column has (12 and 12) where mentions of entity 12 begin and end, else -"
_CLUSTERS_HINT = "a cluster is a list of [first, last], token numbers from 0 in the document"


class CorefTask(Task[Document, Clusters]):
    """Clusters of mentions, from CoNLL-2012 columns or the JSON lines of e2e-coref.

    Files whose names end in .jsonl or .json are JSON lines. Clusters that share a mention are
    joined, as in e2e-coref. In text, blank lines separate documents.
    """

    name = "coref"
    settings = CorefSettings
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

    def read(self, path: str, settings: TaskSettings, *, labelled: bool = True) -> Split[Document]:
        if labelled:
            check_scorer()
        is_json = format_of(path, InputSettings()) == "jsonl"
        return _build_split(path, (_read_json if is_json else _read_conll)(path, labelled))

    def read_text(self, paths: Sequence[str], text: InputSettings) -> Split[Document]:
        found: list[_ParsedDocument] = []
        for sentence in read_sentences(paths, text):
            if sentence.tokens:
                if sentence.starts_document or not found:
                    name = sentence.document or f"document_{1 + len(found)}"
                    found.append(_ParsedDocument(sentence.where, name, [], None))
                found[-1].sentences.append(sentence.tokens)
        return _build_split(", ".join(paths), found)

    def labels(self, train: Split[Document]) -> Any:
        sizes = {len(cluster) for one in train.examples for cluster in one.clusters or ()}
        if not sizes:
            raise InputError(f"{train.path}: contains no cluster", "give annotated documents")
        return {"singletons": 1 in sizes}

    def model(
        self, settings: TaskSettings, labels: Any, representation: TokenRepresentation
    ) -> SpanRanker:
        assert isinstance(settings, CorefSettings)
        return SpanRanker(settings, labels, representation)

    def score(self, examples: Sequence[Document], predictions: Sequence[Clusters]) -> Scores:
        pairs = [(one.clusters or (), p) for one, p in zip(examples, predictions, strict=True)]
        scores = score_documents(pairs)
        linked = score_documents(
            (without_singletons(true), without_singletons(found)) for true, found in pairs
        )
        values = {"f1": mean_f1(scores), **{name: one["f1"] for name, one in scores.items()}}
        values["f1_without_singletons"] = mean_f1(linked)
        by_type = {**scores, **{f"{name}, no singletons": one for name, one in linked.items()}}
        note = "f1 is the mean of muc, b_cubed and ceaf_phi4; clusters of one mention count"
        return Scores("f1", values, by_type, note)

    def lines(
        self, split: Split[Document], predictions: Sequence[Clusters], output_format: str
    ) -> Iterator[str]:
        for one, found in zip(split.examples, predictions, strict=True):
            sentences = [split.sentences[number] for number in one.sentences]
            if output_format == "conll":
                yield from _conll_lines(one, sentences, found)
            else:
                yield _json_line(one, sentences, found)


class _ParsedDocument(NamedTuple):
    where: str
    heading: str
    sentences: list[Tokens]
    clusters: list[set[Mention]] | None


def _conll_lines(document: Document, sentences: Sequence[Tokens], found: Clusters) -> Iterator[str]:
    """Yield lines of name, part, token number, token and mentions, separated by tabs."""
    cells = iter(_cells(found, sum(map(len, sentences))))
    name, part = document.name_and_part
    yield f"#begin document {document.heading}".rstrip()
    for tokens in sentences:
        for number, token in enumerate(tokens):
            yield f"{name}\t{part or 0}\t{number}\t{token}\t{next(cells)}"
        yield ""
    yield "#end document"


def _json_line(document: Document, sentences: Sequence[Tokens], found: Clusters) -> str:
    name, part = document.name_and_part
    key = name if part is None else f"{name}_{part}"
    fields: dict[str, Any] = {"doc_key": key, "sentences": sentences}
    if document.clusters is not None:
        fields["clusters"] = [sorted(cluster) for cluster in document.clusters]
    fields["predicted_clusters"] = [sorted(cluster) for cluster in found]
    return json.dumps(fields, ensure_ascii=False)


def _build_split(path: str, contents: Iterable[_ParsedDocument]) -> Split[Document]:
    sentences: list[Tokens] = []
    documents = []
    for where, heading, found, clusters in contents:
        numbers = tuple(range(len(sentences), len(sentences) + len(found)))
        sentences += found
        joined = None if clusters is None else _merge_overlapping(clusters)
        documents.append(Document(numbers, where, heading, joined))
    return Split(path, sentences, documents)


def _merge_overlapping(clusters: Iterable[set[Mention]]) -> Clusters:
    """Merge clusters that share a mention."""
    found: list[set[Mention]] = []
    for cluster in clusters:
        sharing = [one for one in found if one & cluster]
        found = [one for one in found if not one & cluster]
        found.append(cluster.union(*sharing))
    return [frozenset(cluster) for cluster in found]


def _read_conll(path: str, labelled: bool) -> Iterator[_ParsedDocument]:
    document: list[SentenceRows] = []
    for rows in read_rows(path):
        if rows.starts_document and document:
            yield _parse_document(path, document, labelled)
            document = []
        document.append(rows)
    if document:
        yield _parse_document(path, document, labelled)


def _parse_document(path: str, document: Sequence[SentenceRows], labelled: bool) -> _ParsedDocument:
    rows = [row for one in document for row in one.rows]
    sentences = [tuple(_token_of(path, row) for row in one.rows) for one in document]
    clusters = _clusters_of(path, rows) if labelled else None
    where = f"{path}, line {rows[0].line}"
    return _ParsedDocument(where, document[0].document or path, sentences, clusters)


def _token_of(path: str, row: Row) -> str:
    where, n = f"{path}, line {row.line}", len(row.cells)
    if n < 2:
        _refuse(f"{where}: one column, not a token and its mentions", _COLUMN_HINT)
    token = row.cells[_TOKEN_COLUMN if n > _TOKEN_COLUMN + 1 else -2].strip()
    if problem := token_problem(token):
        _refuse(f"{where}: the token {problem}", "correct it")
    return token


def _clusters_of(path: str, rows: Sequence[Row]) -> list[set[Mention]]:
    """Return the clusters of the last column."""
    clusters: dict[str, set[Mention]] = defaultdict(set)
    unfinished: dict[str, list[tuple[int, int]]] = defaultdict(list)  # entity -> (position, line)
    for position, (line, cells) in enumerate(rows):
        where, cell = f"{path}, line {line}", cells[-1].strip()
        for mark in [] if cell in _NO_MENTION else cell.split("|"):
            match = _MARK.fullmatch(mark)
            if match is None or not (match["begins"] or match["ends"]):
                _refuse(f"{where}: {cell[:40]!r} is not a list of mentions", _COLUMN_HINT)
            entity = match["entity"]
            if match["begins"]:
                unfinished[entity].append((position, line))
            if match["ends"] and not unfinished[entity]:
                _refuse(
                    f"{where}: a mention of entity {entity} ends, but none is open", _COLUMN_HINT
                )
            if match["ends"]:
                clusters[entity].add((unfinished[entity].pop()[0], position))
    for entity, starts in unfinished.items():
        if starts:
            what = f"{path}, line {starts[0][1]}: a mention of entity {entity} does not end"
            _refuse(what, _COLUMN_HINT)
    return list(clusters.values())


def _read_json(path: str, labelled: bool) -> Iterator[_ParsedDocument]:
    for where, found in read_json_lines(path):
        key = found.get("doc_key")
        if not isinstance(key, str):
            _refuse(f"{where}: `doc_key` is missing or not a string", "name the document")
        sentences = _lists(where, found, "sentences", _is_token, '"sentences": [["A", "b"], …]')
        tokens = [token for sentence in sentences for token in sentence]
        if problem := next(filter(None, map(token_problem, tokens)), ""):
            _refuse(f"{where}: a token {problem}", "correct it")
        if not tokens:
            _refuse(f"{where}: the document has no tokens", "remove it")
        clusters = _json_clusters(where, found, len(tokens)) if labelled else None
        yield _ParsedDocument(where, key, [tuple(one) for one in sentences if one], clusters)


def _json_clusters(where: str, found: dict[str, Any], n_tokens: int) -> list[set[Mention]]:
    clusters = _lists(where, found, "clusters", _is_mention, _CLUSTERS_HINT)
    for first, last in (mention for cluster in clusters for mention in cluster):
        if not 0 <= first <= last < n_tokens:
            what = f"{where}: the mention [{first}, {last}] is not within {n_tokens} tokens"
            _refuse(what, _CLUSTERS_HINT)
    return [{(first, last) for first, last in cluster} for cluster in clusters if cluster]


def _lists(
    where: str, found: dict[str, Any], name: str, is_valid: Callable[[Any], bool], hint: str
) -> list[list[Any]]:
    """Return the list of lists of a field."""
    value: Any = found.get(name)
    lists: list[Any] = value if isinstance(value, list) else [None]
    if not all(isinstance(one, list) and all(map(is_valid, one)) for one in lists):
        _refuse(f"{where}: `{name}` is missing or malformed", hint)
    return lists


def _is_token(value: Any) -> bool:
    return isinstance(value, str)


def _is_mention(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(one) is int for one in value)


def _cells(clusters: Clusters, n_tokens: int) -> list[str]:
    """Return the cells of the last column of CoNLL-2012, one per token."""
    mentions = [(m, entity) for entity, cluster in enumerate(clusters) for m in cluster]
    marks: list[list[str]] = [[] for _ in range(n_tokens)]
    # Outer mentions begin first and end last.
    for (first, last), entity in sorted(mentions, key=lambda one: (one[0][0], -one[0][1])):
        marks[first].append(f"({entity})" if first == last else f"({entity}")
    for (first, last), entity in sorted(mentions, key=lambda one: -one[0][0]):
        if first < last:
            marks[last].append(f"{entity})")
    return ["|".join(one) or "-" for one in marks]


def _refuse(what: str, hint: str) -> NoReturn:
    raise InputError(what, hint)


TASK = CorefTask()
