"""The URL of a folder in a store, and what of it may be shown."""

from __future__ import annotations

import re
from urllib.parse import unquote

# From `://` to the last `@`, for a key may hold `/` and `@` itself; and what follows a `?`.
_SECRET = re.compile(r"(?<=://).*:.*(?=@)|(?<=\?).+")


def is_url(output: str) -> bool:
    """Whether an output is for fsspec, and no path of this machine."""
    return "://" in output


def shown(output: str) -> str:
    """A path or a URL as messages show it: without name and password."""
    return _SECRET.sub("***", output) if is_url(output) else output


def without_secrets(text: str, url: str) -> str:
    """What a driver says, without the name and password that it was given in `url`.

    Nor pieces of them: a driver that takes a `/` in them for the end of the host names one.
    """
    for found in _SECRET.findall(url):
        pieces = [piece for form in (found, unquote(found)) for piece in re.split("[:/@]", form)]
        for secret in filter(None, (found, unquote(found), *sorted(pieces, key=len)[::-1])):
            text = text.replace(secret, "***")
    return text


def has_secret(url: str) -> bool:
    """Whether there is something in a URL that is not to be shown."""
    return bool(_SECRET.search(url))
