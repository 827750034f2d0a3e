"""Starts the command line: the command `jaxhamel`, and `python -m jaxhamel`."""

import os


def main() -> None:
    """Runs the command line. From the first line on, Ctrl-C ends the process without a traceback.

    Python's own handler of SIGINT raises `KeyboardInterrupt`, in the middle of an import as well. The system's default
    replaces it before anything slow is imported; the command's handler follows (`jaxhamel.cli._interrupt`), and restores
    the default when it has finished. A process that ignores SIGINT, as in a shell's background, continues to ignore it.
    """
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        from jaxhamel.cli import main as command
    except KeyboardInterrupt:
        os._exit(130)
    command()


if __name__ == "__main__":
    main()
