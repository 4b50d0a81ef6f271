"""JSON lines: tokens, texts and documents; all other lines are refused by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from text_files import read, refused, tokens
from text_files import write as write_file

from elmo_cli.text.input import InputReport


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


def write(path: Path, *objects: object) -> Path:
    return write_file(path, "".join(json.dumps(each) + "\n" for each in objects))


def test_tokens_and_texts(jsonl: Path) -> None:
    write(jsonl, {"id": 7, "tokens": ["New York", "é"]}, {"text": " a  b\nc "}, {"tokens": []})
    write_file(jsonl, "\n" + jsonl.read_text() + "  \n")
    report = InputReport()
    assert [(s.tokens, s.text, s.key, s.line, s.starts_document) for s in read(jsonl, report)] == [
        (("New York", "é"), "New York é", 0, 2, True),
        (("a", "b", "c"), "a  b\nc", 1, 3, False),
        ((), "", 2, 4, False),
    ]
    assert report.blank_lines == 1
    assert [s.key for s in read(jsonl, blank="skip")] == [0, 1]


def test_the_first_member_that_counts_wins(jsonl: Path) -> None:
    """Files often keep the raw text next to its tokens."""
    write(
        jsonl,
        {"text": "a-b", "tokens": ["a", "-", "b"]},
        {"text": "c-d", "tokens": ["c-d"], "sentences": [["c"], ["d"]], "doc_key": "x"},
    )
    assert tokens(jsonl) == ["a - b", "c", "d"]


def test_documents_have_the_keys_of_e2e_coref_and_lsgn(jsonl: Path) -> None:
    """Otherwise coreference and SRL models look for sentences under other names."""
    write(
        jsonl,
        {"doc_key": "bc/x_0", "sentences": [["a"], ["b", "c"]], "clusters": [[[0, 0]]]},
        {"doc_key": "bc/x_1", "sentences": [["d"], []]},
        {"doc_key": "bc/x_2", "sentences": [["e"]], "sent_offset": 40},
        {"doc_key": "bc/x_3", "sentences": [["f"]]},
        {"doc_key": "bc/y_0", "sentences": [["g"]]},
        {"doc_key": "bc/y_1", "sentences": [["k"]], "sent_offset": 0},
        {"tokens": ["h"]},
        {"text": "i"},
        {"doc_key": "bc/x_1", "sentences": [["j"]]},
    )
    assert [(s.key, s.document, s.place, s.offset, s.starts_document) for s in read(jsonl)] == [
        (0, "bc/x_0", 0, 0, True),
        (1, "bc/x_0", 1, 0, False),
        (2, "bc/x_1", 0, 2, True),
        (3, "bc/x_1", 1, 2, False),
        (4, "bc/x_2", 0, 40, True),
        (5, "bc/x_3", 0, 41, True),
        (6, "bc/y_0", 0, 0, True),
        (7, "bc/y_1", 0, 0, True),
        (8, None, 0, 0, True),  # it does not belong to the document before it
        (9, None, 0, 0, False),
        (10, "bc/x_1", 0, 0, True),
    ]
    first, *_ = read(jsonl, max_tokens=1, on_error="skip")[1:]
    assert (first.key, first.place, first.starts_document) == (2, 0, True)


def test_a_refused_sentence_keeps_its_place_in_the_document(jsonl: Path) -> None:
    """Otherwise models find the vectors of the sentence before the one that they look up."""
    write(
        jsonl,
        {"doc_key": "bc/x_0", "sentences": [["a", "b"], ["c"], ["d", "e"], ["f"]]},
        {"doc_key": "bc/x_1", "sentences": [["g"]]},
    )
    sentences = read(jsonl, max_tokens=1, on_error="skip")
    assert [(s.tokens, s.key, s.place, s.offset, s.starts_document) for s in sentences] == [
        (("c",), 1, 1, 0, True),
        (("f",), 3, 3, 0, False),
        (("g",), 4, 0, 4, True),
    ]


def test_raw_texts_are_documents_of_sentences(jsonl: Path) -> None:
    write(jsonl, {"text": "A cat. A dog\nA cow."}, {"text": ""}, {"text": "It is."},
          {"tokens": ["c"]}, {"tokens": ["d"]})  # fmt: skip
    assert [(s.key, s.text, s.starts_document) for s in read(jsonl, tokenize=True)] == [
        (0, "A cat .", True),
        (1, "A dog", False),
        (2, "A cow .", False),
        (3, "It is .", True),
        (4, "c", True),
        (5, "d", False),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"tokens": ["a"]} x', "not JSON, at character 19: Extra data"),
        ("[" * 100_000, "not JSON: "),
        ('{"id": ' + "9" * 5000 + "}", "not JSON: "),
        ('{"tokens": ["a"], "x": [{"y": 1, "z": 2, "y": 1}]}', "'y' occurs twice"),
        ("5", "not an object"),
        ('{"tokens": ["\\ud83d"]}', '"tokens[0]" contains a lone surrogate'),
        ("{}", 'no "tokens", "text" or "sentences"; the object has no members'),
        ('{"words": [], "id": 1}', "the object has 'words', 'id'"),
        ('{"tokens": ["a", ""]}', '"tokens[1]" is empty'),
        ('{"tokens": ["a\\u0000"]}', '"tokens[0]" holds a NUL'),
        ('{"text": ["a"]}', '"text" is missing or not a string'),
        ('{"sentences": [["a"]], "doc_key": ""}', '"doc_key" is empty'),
        ('{"sentences": [["a"]]}', '"doc_key" is missing or not a string'),
        ('{"sentences": {}, "doc_key": "d"}', '"sentences" is not a list'),
        ('{"sentences": ["a"], "doc_key": "d"}', '"sentences[0]" is not a list'),
        ('{"sentences": [], "doc_key": "d", "sent_offset": -1}', '"sent_offset" is not'),
        ('{"sentences": [], "doc_key": "d", "sent_offset": true}', '"sent_offset" is not'),
        (f'{{"sentences": [], "doc_key": "d", "sent_offset": {1 << 53}}}', '"sent_offset" is not'),
    ],
)
def test_refused_lines(jsonl: Path, line: str, message: str) -> None:
    write_file(jsonl, '{"tokens": ["a"]}\n' + line + '\n{"tokens": ["b"]}\n')
    error = refused(jsonl)
    assert error.message.startswith(f"{jsonl}, line 2: ")
    assert message in error.message
    report = InputReport()
    assert [s.key for s in read(jsonl, report, on_error="skip")] == [0, 2]
    assert [line_number for _, line_number, _ in report.skipped] == [2]


@pytest.mark.parametrize("name", ["a.json", "a.ndjson"])
def test_a_json_file_is_read_as_json_lines(tmp_path: Path, name: str) -> None:
    """An array in it would be one token or many, with its quotes and brackets."""
    path = write(tmp_path / name, {"tokens": ["New York"]})
    assert tokens(path) == ["New York"]
    for array in ('["The", "cat"]\n', '[\n  "The",\n  "cat"\n]\n'):
        error = refused(write_file(path, array))
        assert error.message.startswith(f"{path}, line 1: ")
        assert "jq -c" in error.hint
