"""The command line: each command is one file that reads options, calls a stage and shows what came out."""

from fairmargin.cli.app import main

__all__ = ["main"]
