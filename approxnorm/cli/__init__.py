"""The command line: ``approxnorm`` and its commands, one file each."""

from approxnorm.cli.entry import main

__all__ = ["main"]
