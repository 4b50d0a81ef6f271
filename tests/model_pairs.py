"""Pairs of a biLM and its oracle, with the same made-up weights."""

from __future__ import annotations

from collections.abc import Callable

from oracle import Oracle

from elmo_cli.model.bilm import BiLM

MakePair = Callable[..., tuple[BiLM, Oracle]]
"""What the fixture `paired` gives: from the content of an options.json to a pair."""
