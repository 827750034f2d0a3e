"""Reads arrays from .npz files that may be damaged or come from another program; it unpickles nothing."""

import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

MOST_BYTES = 2**30  # the most bytes of all arrays in a file
# The errors that unreadable files raise: damaged, encrypted, of an unknown compression, or with headers nested too deeply.
_UNREADABLE = (
    OSError, ValueError, KeyError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class SavedArrays:
    """The arrays of an open file, by name."""

    def __init__(self, file: zipfile.ZipFile):
        self._file = file
        self.names = [name.removesuffix(".npy") for name in file.namelist()]

    def read(self, name: str) -> np.ndarray:
        """The array with this name. **Raises:** an error of `zipfile` or NumPy; `ValueError` for an array of objects."""
        with self._file.open(f"{name}.npy") as entry:
            if np.lib.format.read_magic(entry) != (1, 0):
                raise ValueError(f"{name} is in another format")
            shape, _, dtype = np.lib.format.read_array_header_1_0(entry)
            size = self._file.getinfo(f"{name}.npy").file_size
            if dtype.hasobject or math.prod(shape) * dtype.itemsize > size:
                raise ValueError(f"{name} is not an array of numbers")
        with self._file.open(f"{name}.npy") as entry:
            return np.lib.format.read_array(entry, allow_pickle=False)


@contextmanager
def saved_arrays(path: Path) -> Iterator[SavedArrays]:
    """Opens a file of arrays; each array is read by `SavedArrays.read`.

    **Raises:** `ValueError` with the reason on one line, in place of every error of the file, also of `read`.
    """
    try:
        with zipfile.ZipFile(path) as file:
            size = sum(entry.file_size for entry in file.infolist())
            if size > MOST_BYTES:
                raise ValueError(f"it holds {size:,} bytes; it may hold {MOST_BYTES:,}")
            yield SavedArrays(file)
    except _UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(reason if len(reason) <= 200 else f"{reason[:197]}...") from None
