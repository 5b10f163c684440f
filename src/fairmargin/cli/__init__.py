"""The command line: each command is one file that reads options, calls a stage and shows what came out.

Commands import the rooms they need when they run: `fairmargin --help` answers at once.
"""

from fairmargin.cli.app import main

__all__ = ["main"]
