"""The console entry: exit statuses, and errors and warnings as single lines on stderr."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from approxnorm.errors import ApproxNormError

FAILURE = 2  # the same as for a usage error
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
BROKEN_PIPE = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on ``arguments`` (sys.argv's, if absent) and return the exit status.

    0: done. 1: a comparison found a difference. 2: bad usage or bad input, told in one line on
    stderr. 130: interrupted. Anything else that goes wrong is a bug and keeps its traceback.
    """
    from typer import Abort

    from approxnorm.cli.app import app
    from approxnorm.cli.usage import UsageError, sentence

    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        _never_fail_to_encode(stream)
    with warnings.catch_warnings(), _unwinding_on_signals():
        _warn_in_one_line()
        try:
            given = None if arguments is None else list(arguments)
            # Not standalone: Typer would print usage errors itself, in a box of many lines.
            status = app(args=given, prog_name="approxnorm", standalone_mode=False)
            return status if isinstance(status, int) else 0
        except UsageError as error:
            return _fail(sentence(error))
        except SystemExit as exit_:
            return _status(exit_)
        except ApproxNormError as error:
            return _fail(str(error))
        except (Abort, KeyboardInterrupt):
            return INTERRUPTED
        except BrokenPipeError:
            return BROKEN_PIPE
        except OSError as error:
            if error.strerror is None:
                raise
            return _fail(f"{error.filename or 'the operating system says'}: {error.strerror}")
        finally:
            _flush()


def _status(exit_: SystemExit) -> int:
    if exit_.code is None:
        return 0
    return exit_.code if isinstance(exit_.code, int) else FAILURE


def _fail(message: str) -> int:
    if message:  # else help was printed, as for no arguments at all
        sys.stderr.write(f"approxnorm: {_one_line(message)}\n")
    return FAILURE


def _one_line(message: str) -> str:
    """File names and keys may hold line breaks."""
    return " ".join(line.strip() for line in message.splitlines())


def _open_closed_streams() -> None:
    """With ``>&-`` Python has no stream at all; what is written then goes nowhere."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


@contextmanager
def _unwinding_on_signals() -> Iterator[None]:
    """On SIGTERM and SIGHUP leave as from an error, so that nothing half-written stays.

    The status is 128 + the signal's number, as shells have it.
    """

    def leave(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # Python allows handlers in the main thread only
    former = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _never_fail_to_encode(stream: Any) -> None:
    """Names from files may hold what the terminal's encoding lacks."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


def _warn_in_one_line() -> None:
    """Each warning once and without its source line; libraries' deprecations not at all."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = _one_line(str(message))
        if text not in shown:
            shown.add(text)
            sys.stderr.write(f"approxnorm: warning: {text}\n")

    warnings.simplefilter("ignore")
    for category in (UserWarning, RuntimeWarning):
        warnings.simplefilter("always", category)
    warnings.showwarning = show


def _flush() -> None:
    """Flush stdout here, where a reader that went away can still be met quietly."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer must not be tried again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
