"""python -m elmo_cli: the same as the command `elmo`."""

from elmo_cli.cli.main import main

if __name__ == "__main__":
    main()
