"""The command line: each command is one file that reads options, calls the package and shows the result.

Commands import other packages when they run, so that `fairmargin --help` starts quickly.
"""

import signal
import threading

__all__ = ["main"]


def main() -> None:
    """Run the `fairmargin` command.

    Ctrl-C while the commands are imported, or at exit, ends the process without a traceback, since nothing can be lost.
    In between it raises KeyboardInterrupt, which the commands handle.
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
