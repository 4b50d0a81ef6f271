"""Words of messages: counts, shortened texts and lists, cells of columns."""

from __future__ import annotations

import pytest

from elmo_cli.messages import (
    columns_line,
    format_bytes,
    plural,
    shorten_list,
    shortened,
    url_without_secrets,
    without_secrets,
)


@pytest.mark.parametrize(
    ("n", "words"), [(0, "0 tokens"), (1, "1 token"), (2, "2 tokens"), (1200, "1,200 tokens")]
)
def test_numbers_have_their_nouns(n: int, words: str) -> None:
    assert plural(n, "token") == words


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [
        ((1 << 20) - 1, "1024.0 KiB"),
        (1 << 20, "1.0 MiB"),
        (1 << 30, "1.0 GiB"),
        (1 << 40, "1.0 TiB"),
    ],
)
def test_bytes_have_the_largest_unit_below_them(n_bytes: int, words: str) -> None:
    assert format_bytes(n_bytes) == words


def test_long_texts_and_lists_are_shortened() -> None:
    assert shortened("x" * 40) == "x" * 40
    assert shortened("x" * 41) == "x" * 40 + "…"
    assert shorten_list(["a", "b", "c"]) == "a, b, c"
    assert shorten_list(["a", "b", "c", "d"]) == "a and 3 more"


def test_a_cell_of_columns_is_on_one_line_and_otherwise_as_it_is() -> None:
    cells = ("a\\b", "\t\n\r", "\x00\x1f\x7f\x9f", "\u2028\u2029", "é\u00a0日")
    escaped = ("a\\b", r"\t\n\r", r"\x00\x1f\x7f\x9f", r"\u2028\u2029", "é\u00a0日")
    assert columns_line(*cells) == "\t".join(escaped) + "\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("shards/a:b@c", "shards/a:b@c"),
        ("s3://bucket/a@b/", "s3://bucket/a@b/"),
        ("sftp://user:password@host/a/", "sftp://***@host/a/"),
        ("https://token@host/a", "https://***@host/a"),
        ("s3://key:s/e@c@bucket/", "s3://***@bucket/"),
        ("https://host/a?token=secret", "https://host/a?***"),
        (
            "`elmo x 'https://h?t=1&s=2' -o s3://k:s@b/`; see",
            "`elmo x 'https://h?***' -o s3://***@b/`; see",
        ),
        ("https://u:p@h/a?t=s: not found, a@b", "https://***@h/a?***: not found, a@b"),
        ("https:/user:secret@h/a: no such file", "https:/***@h/a: no such file"),
        ("is that https://a/b? see c", "is that https://a/b? see c"),
        ("no 'sftp://u:a secret@h/b'; see c", "no 'sftp://***@h/b'; see c"),
        ("https://h: not found, a@b", "https://h: not found, a@b"),
        ("http://127.0.0.1:80/a: no, a@b", "http://127.0.0.1:80/a: no, a@b"),
        ("http://h:8080 ends, a@b", "http://h:8080 ends, a@b"),
    ],
)
def test_urls_are_shown_without_secrets(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert without_secrets(shown) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("sftp://us er:a se@cr:et? @host/a b@c?d e", "sftp://***@c?***"),
        ("sftp://user:80 secret@host/a b/", "sftp://***@host/a b/"),
        ("s3://a secret@host/a@b", "s3://***@host/a@b"),
        ("s3://bucket/a@b/", "s3://bucket/a@b/"),
        ("https://host/a b?token=a secret", "https://host/a b?***"),
        ("https://host/a?", "https://host/a?"),
        ("model at https://u:p@h", "model at https://***@h"),
        ("a b", "a b"),
    ],
)
def test_a_password_of_a_url_may_have_any_characters(name: str, shown: str) -> None:
    assert url_without_secrets(name) == shown
    assert url_without_secrets(shown) == shown
