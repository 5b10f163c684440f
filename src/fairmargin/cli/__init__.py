"""The command line: each command is one file that reads options, calls a stage and shows what came out.

Commands import the packages that they need when they run, so that `fairmargin --help` answers at once.
"""

import signal
import threading

__all__ = ["main"]


def main() -> None:
    """Run the `fairmargin` command.

    Ctrl-C while the commands are imported, or when all is done, ends the process at once: nothing could be lost, and a
    traceback would help nobody. In between it raises KeyboardInterrupt, which the commands answer.
    """
    ours = threading.current_thread() is threading.main_thread()
    ours = ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a background job ignores Ctrl-C
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fairmargin.cli.app import app

    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        app()
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
