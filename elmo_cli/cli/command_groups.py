"""The commands of elmo in groups, with what each of them reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import click


@dataclass(frozen=True)
class CommandSummary:
    """What `elmo --help` says of a command.

    Attributes:
        sentence: what the command does, in at most 35 characters.
        reads, writes: its input and output, in one word or two each.
    """

    sentence: str
    reads: str
    writes: str

    @property
    def flow(self) -> str:
        """The input and the output, such as `text -> embeddings`."""
        return f"{self.reads} -> {self.writes}"


@dataclass(frozen=True)
class CommandGroup:
    """Commands under one heading of `elmo --help`, by name."""

    heading: str
    commands: Mapping[str, CommandSummary]


COMMAND_GROUPS = (
    CommandGroup(
        "Embed text and change the files",
        {
            "embed": CommandSummary(
                "Compute the embeddings of a text.", reads="text", writes="embeddings"
            ),
            "inspect": CommandSummary(
                "Describe and verify a file.", reads="embeddings, model", writes="facts"
            ),
            "merge": CommandSummary(
                "Join the shards of a run.", reads="shards", writes="embeddings"
            ),
            "convert": CommandSummary(
                "Change layout, dtype or layers.", reads="embeddings", writes="embeddings"
            ),
            "tokenize": CommandSummary(
                "Split raw English into tokens.", reads="raw text", writes="text"
            ),
        },
    ),
    CommandGroup(
        "Models and installation",
        {
            "models": CommandSummary(
                "List, download, convert models.", reads="model", writes="model"
            ),
            "info": CommandSummary(
                "Describe this installation.", reads="this machine", writes="facts"
            ),
        },
    ),
    CommandGroup(
        "Language model",
        {
            "vocab": CommandSummary(
                "Count the types of a text.", reads="text", writes="vocabulary"
            ),
            "pretrain": CommandSummary("Train a biLM from scratch.", reads="text", writes="model"),
            "finetune": CommandSummary(
                "Adapt a biLM to your own text.", reads="text, model", writes="model"
            ),
            "perplexity": CommandSummary(
                "Measure how well a biLM predicts.", reads="text, model", writes="figures"
            ),
        },
    ),
    CommandGroup(
        "Measure and analyze",
        {
            "score": CommandSummary(
                "Print the surprisal of each token.", reads="text, model", writes="table"
            ),
            "neighbors": CommandSummary(
                "Find nearest neighbors of a token.", reads="embeddings", writes="tokens"
            ),
            "kwic": CommandSummary(
                "List the occurrences of a word.", reads="embeddings", writes="tokens"
            ),
            "geometry": CommandSummary(
                "Measure the geometry of each layer.", reads="embeddings", writes="table"
            ),
            "probe": CommandSummary(
                "Find out what each layer encodes.", reads="embeddings, labels", writes="table"
            ),
            "usages": CommandSummary(
                "Embed all usages of some words.", reads="text, words", writes="usages"
            ),
            "change": CommandSummary(
                "Compare usages in two corpora.", reads="usages, usages", writes="table"
            ),
            "plot": CommandSummary(
                "Plot embeddings and measurements.", reads="embeddings, results", writes="plot"
            ),
        },
    ),
    CommandGroup(
        "Tasks",
        {
            "train": CommandSummary(
                "Train a task model.", reads="embeddings, labels", writes="model"
            ),
            "evaluate": CommandSummary(
                "Score the output of a task model.", reads="model, labels", writes="figures"
            ),
            "predict": CommandSummary(
                "Apply a task model to new text.", reads="model, text", writes="predictions"
            ),
        },
    ),
)
COMMAND_NAMES = tuple(name for group in COMMAND_GROUPS for name in group.commands)


def write_command_groups(formatter: click.HelpFormatter) -> None:
    """Write a section of help for each group; columns are aligned over all of them."""
    summaries = [summary for group in COMMAND_GROUPS for summary in group.commands.values()]
    name_width = max(map(len, COMMAND_NAMES))
    flow_width = max(len(summary.flow) for summary in summaries)
    for group in COMMAND_GROUPS:
        rows = []
        for name, summary in group.commands.items():
            term = f"{name:<{name_width}}  {summary.flow:<{flow_width}}"
            rows.append((term, summary.sentence))
        with formatter.section(group.heading):
            formatter.write_dl(rows, col_max=name_width + 2 + flow_width)
