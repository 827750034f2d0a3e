"""Writes files under a temporary name and renames them when they are complete; and locks a folder for one writer."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from errno import EACCES, EAGAIN, EEXIST, ELOOP
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

PARTIAL = ".partial"


@contextlib.contextmanager
def written(path: Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Opens a file that replaces `path` once it is complete and on disk; UTF-8 unless `binary`.

    A link at `path` is replaced, not followed. If the block ends in an error, `path` is unchanged.

    **Raises:** `FileExistsError` if `path` exists and is not a file.
    """
    _check_replaceable(path)
    partial = path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}{PARTIAL}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    text: dict[str, Any] = {} if binary else {"encoding": "utf-8", "newline": ""}
    try:
        with open(os.open(partial, flags, 0o666), "wb" if binary else "w", **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def write_text(path: Path, text: str) -> None:
    """Writes text as a file, completely or not at all. Surrogates, which UTF-8 cannot encode, become escapes."""
    with written(path, binary=True) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def remove_partial(folder: Path) -> None:
    """Removes the incomplete files that a killed process has left, known by the names that `written` gives them."""
    for left in folder.glob(f".*.{12 * '[0-9a-f]'}{PARTIAL}"):
        with contextlib.suppress(OSError):
            left.unlink()


def sync(folder: Path) -> None:
    """Flushes the names of a folder's files to disk."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def real(path: Path | str) -> Path:
    """The absolute path with links resolved; links that form a circle are followed as far as possible.

    (`Path.resolve` raises `RuntimeError` for a circle before Python 3.13.)
    """
    return Path(os.path.realpath(path))


def made(folder: Path) -> Path:
    """Makes a folder inside the folder of results, if it is absent, and returns it.

    **Raises:** `OSError` if a link stands in its place, since nothing may be written through a link.
    """
    if folder.is_symlink():
        raise OSError(
            ELOOP, f"{folder.name} is a symbolic link, which is not followed", str(folder)
        )
    folder.mkdir(exist_ok=True)
    return folder


class Lock:
    """The lock for the only writer of a folder, until `close` or the end of the process.

    **Raises:** `BlockingIOError` if another process has the lock. On a file system without locks nothing is locked.
    """

    def __init__(self, folder: Path):
        self._descriptor = None if fcntl is None else os.open(folder, os.O_RDONLY)
        if fcntl is None or self._descriptor is None:
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            if error.errno in (EAGAIN, EACCES):
                raise BlockingIOError(EAGAIN, "another run is writing there", str(folder)) from None

    def close(self) -> None:
        """Releases the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    __del__ = close


def _check_replaceable(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise FileExistsError(EEXIST, f"{path.name} is there and is not a file", str(path))
