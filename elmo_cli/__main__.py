"""python -m elmo_cli: the same as the command `elmo`."""

from elmo_cli.cli.main import command

if __name__ == "__main__":
    command()
