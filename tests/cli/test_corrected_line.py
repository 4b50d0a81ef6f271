"""Hints with the line to type, if a sentence is in place of a path."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from command_line import elmo, made, refused


@pytest.mark.parametrize(
    ("line", "sentence", "corrected"),
    [
        ("predict DIR 'The dog .'", "The dog .", 'echo "The dog ." | elmo predict DIR -'),
        ("embed 'The dog' -o new.hdf5", "The dog", 'echo "The dog" | elmo embed - -o new.hdf5'),
        ('score "The dog\'s bed"', "The dog's bed", 'echo "The dog\'s bed" | elmo score -'),
        ("embed 'A dog' -o 'my dog'", "A dog", "echo \"A dog\" | elmo embed - -o 'my dog'"),
        ("perplexity 'a $5 bill'", "a $5 bill", "echo 'a $5 bill' | elmo perplexity -"),
        ("tokenize 'A \"dog\".'", 'A "dog".', "echo 'A \"dog\".' | elmo tokenize -"),
    ],
)
def test_a_sentence_in_place_of_a_path_is_piped(
    line: str, sentence: str, corrected: str, folder: Path
) -> None:
    done = elmo(*shlex.split(line))
    refused(done, 1, f"{sentence}: no such file", f"; for a sentence: `{corrected}`")


def test_only_a_missing_path_with_a_space_is_taken_for_a_sentence(folder: Path) -> None:
    done = elmo("tokenize", "nosuch.txt")
    refused(done, 1, "nosuch.txt: no such file", "check the name and the working directory")
    assert "echo" not in done.err
    Path("my text.txt").mkdir()
    done = elmo("tokenize", "my text.txt")
    refused(done, 1, "my text.txt: a folder, not a file", "name the files")
    assert "echo" not in done.err


def test_a_long_sentence_is_shortened(folder: Path) -> None:
    done = elmo("tokenize", "a b " * 5000)
    shown = "a b " * 10
    refused(done, 1, f"{shown}…: can't be read", f'`echo "{shown}…" | elmo tokenize -`')


def test_the_line_with_a_sentence_can_be_typed(folder: Path) -> None:
    hint = elmo("tokenize", "It rains.").err.splitlines()[-1]
    piped, command = hint.split("`")[1].split(" | elmo ")
    _, sentence = shlex.split(piped)
    Path("text.txt").write_text(sentence + "\n")
    words = ["text.txt" if word == "-" else word for word in shlex.split(command)]
    assert made(*words).out == b"It rains .\n"


@pytest.mark.parametrize(
    "line",
    [
        "embed https://user:secret@host/a.txt",
        "evaluate m https://user:secret@host/a.conll",
        "https://user:secret@host/a.txt",
        "inspect https://user:secret@host/a.hdf5",
        "score https://host/a.txt?token=secret",
        "models pull https://secret@host/a",
        "models list https://user:secret@host/a",
        "vocab a.txt -o s3://user:secret@host/a",
        "embed 'https://user:a secret@host/a.txt'",
        "embed 'https://user:a secret as long as a sentence of words@host/a.txt'",
        "embed 'see https://user:a_secret_that_is_as_long_as_this@host/a.txt'",
        "evaluate m 'https://user:a@80 secret@host/a.conll'",
        "models list 'https://user:80 a@ secret@host/a'",
        "vocab a.txt '--output=s3://user:80 a@ secret@host/a'",
        "vocab '--output=s3://user:80 a@ secret@host/a'",
        "elmo vocab 'https://user:80 a@ secret@host/a'",
        "embed a.txt '--threads=s3://user:80 a@ secret@host/a'",
        "'https://user:a@80 secret@host/a.txt'",
        "inspect 'https://user:80 secret@host/a.hdf5'",
    ],
)
def test_a_message_about_a_url_lacks_its_password(line: str, folder: Path) -> None:
    done = elmo(*shlex.split(line))
    assert done.code
    assert "***" in done.err
    assert "secret" not in done.err
