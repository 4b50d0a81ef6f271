"""elmo pretrain."""

from __future__ import annotations

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    argument,
    input_options,
    json_option,
    quiet_option,
    text_names,
)
from elmo_cli.cli.pretrain_options import pretrain_options, text_options


@click.command(cls=GroupedCommand, short_help="Train a biLM from scratch.", no_args_is_help=True)
@argument("texts", nargs=-1, metavar="TEXT…", callback=text_names)
@pretrain_options
@input_options
@text_options
@quiet_option
@json_option
@click.pass_context
def pretrain(ctx: click.Context, /, **given: object) -> None:
    """Train a biLM from scratch and write it as a model folder.

    TEXT is a text file, plain or compressed (.gz, .xz). Training stops at the first limit that is
    reached; the folder contains the model from the first evaluation on. Ctrl-C saves everything.
    Several processes train one model when torchrun starts them: each reads --batch-size streams of
    its own. --resume needs no TEXT: the folder keeps it as numbers.

    \b
    Examples:
      elmo pretrain news.txt -o model/ --heldout dev.txt --max-seconds 3600
      elmo pretrain raw/*.txt.xz --tokenize -o model/ --max-epochs 10
      elmo pretrain -o model/ --resume --max-seconds 7200
      elmo pretrain --recipe model/recipe.json -o again/
      elmo pretrain raw/*.txt.xz --tokenize -o model/ --max-seconds 3600 --prepare
      torchrun --nproc-per-node 4 -m elmo_cli pretrain news.txt -o model/ --max-epochs 10
    """
    from elmo_cli.cli.pretraining import pretrain_command

    pretrain_command(ctx)
