"""bilm: what bilm-tf's `dump_bilm_embeddings` writes, a dataset a line and nothing else."""

from __future__ import annotations

from elmo_cli.store.layouts.numbered import NumberedLayout


class Bilm(NumberedLayout):
    """Named by line number."""
