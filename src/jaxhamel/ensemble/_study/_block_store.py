"""The results of an ensemble on disk: one table with a row for each trajectory, written block by block.

The table is a Zarr array `values.zarr` whose chunks are the blocks. Zarr writes a chunk to a temporary file and renames it,
so that a block on disk is always complete, even if the process is killed or the disk fills up. The last column, `checksum`,
holds one number per block, computed from the run, the block's index and its values. A block whose checksum does not match
(because it was changed, moved, or copied from another run) is computed again.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxhamel._files import Lock
from jaxhamel.ensemble._checks._run_folder import (
    check_installed,
    check_no_foreign_folder,
    check_no_links,
    check_same_run,
    foreign_folder_error,
    only_writer,
    writing,
)
from jaxhamel.ensemble._origin._origin import Origin

CHECKSUM = "checksum"


class BlockStore:
    """The table of an ensemble's results, in memory and optionally also in a folder.

    **Arguments:**

    - `folder`: the folder to write to; None keeps the table in memory only.
    - `columns`: names of the columns; the last one must never be NaN, since NaN there marks a row that is missing.
    - `size`, `block`: number of rows in the table, and in a block.
    - `asked`: all settings that determine the numbers (seed, distributions, …), as JSON; a folder with other settings is
      refused.
    - `resume`: whether to continue the run in the folder.
    - `origin`: the program that computes the numbers. The attribute `begun` has the origin stored in the folder of a resumed
      run; None for a new run.

    In memory a row takes 8 bytes per column, and nothing else grows.

    **Raises:** `ValueError` if the folder holds another run, if it holds any run and `resume` is False, or if another
    process is writing to it. The folder is locked for this object until `close`.
    """

    def __init__(
        self,
        folder: Path | str | None,
        columns: list[str],
        size: int,
        block: int,
        asked: dict[str, Any],
        resume: bool = False,
        origin: Origin | None = None,
    ):
        self.begun: Origin | None = None
        self.columns, self.size, self.block = columns, size, block
        self.folder, self.table = folder, np.full((size, len(columns)), np.nan)
        self._lock: Lock | None = None
        self._run = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()
        self._disk = None if folder is None else self._opened(Path(folder), asked, resume, origin)

    def _opened(self, folder: Path, asked: dict[str, Any], resume: bool, origin: Origin | None):
        """Opens the table in the folder and reads its blocks, or makes a new table; locks it for this process."""
        check_installed("zarr", "a run with a folder", "cli")
        import zarr
        from zarr.codecs import ZstdCodec

        path, asked = folder / "values.zarr", json.loads(json.dumps(asked))
        columns = [*self.columns, CHECKSUM]
        check_no_links(path)
        if (path / "zarr.json").exists():
            disk = _of_this_package(path)
            check_same_run(folder, disk.attrs["asked"], asked, resume)
            if disk.shape != (self.size, len(columns)) or disk.attrs.get("columns") != columns:
                raise foreign_folder_error(path)
            self.begun = Origin.read(disk.attrs.get("origin"))  # pyright: ignore
            self._lock = only_writer(path)
            for index in range(self.blocks):
                self.table[self.rows(index)] = self._block(disk, index)
            return disk
        check_no_foreign_folder(path)
        with writing(folder, 0):
            path.mkdir(parents=True, exist_ok=True)
            self._lock = only_writer(path)
            return zarr.create_array(
                path,
                shape=(self.size, len(columns)),
                chunks=(min(self.block, self.size), len(columns)),
                dtype="f8",
                compressors=ZstdCodec(checksum=True),  # pyright: ignore[reportArgumentType]
                fill_value=np.nan,
                attributes={"columns": columns, "asked": asked} | _origin_entry(origin),
            )

    def close(self) -> None:
        """Releases the lock on the folder, so that other processes can write to it."""
        if self._lock is not None:
            self._lock.close()

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.size // self.block)

    def rows(self, index: int) -> slice:
        """The rows of block `index`."""
        return slice(index * self.block, min((index + 1) * self.block, self.size))

    @property
    def missing(self) -> list[int]:
        """Indices of the blocks that have not been computed yet."""
        first = self.table[:: self.block, -1]
        return np.flatnonzero(np.isnan(first)).tolist()

    def write(self, index: int, values: Float[np.ndarray, "B c"]) -> None:
        """Writes block `index`: first to disk, then to memory.

        **Raises:** `OSError` if the disk cannot be written, for instance because it is full; earlier blocks are kept.
        """
        if self._disk is not None:
            with writing(self.folder, np.count_nonzero(~np.isnan(self.table[:, -1]))):
                sums = np.full((len(values), 1), self._checksum(index, values))
                self._disk[self.rows(index)] = np.concatenate([values, sums], axis=1)
        self.table[self.rows(index)] = values

    def __getitem__(self, index: int) -> Float[np.ndarray, "B c"]:
        """The rows of block `index`."""
        return self.table[self.rows(index)]

    def first(self, rows: int) -> dict[str, Float[np.ndarray, " N"]]:
        """The first `rows` rows of the table, by column."""
        return dict(zip(self.columns, self.table[:rows].T, strict=True))

    def _block(self, disk, index: int) -> Any:
        """The rows of a block on disk; NaN (that is, missing) if their checksum does not match."""
        try:
            found = np.asarray(disk[self.rows(index)])
        except OSError:
            raise
        except Exception:  # each compressor raises its own type for a damaged chunk
            return np.nan
        values, sums = found[:, :-1], found[:, -1]
        return values if np.all(sums == self._checksum(index, values)) else np.nan

    def _checksum(self, index: int, values: np.ndarray) -> float:
        """The first 48 bits of the SHA-256 hash of the run, the block's index and its values."""
        words = np.ascontiguousarray(values, dtype="<f8")
        content = self._run + index.to_bytes(8, "big") + words.tobytes()
        return float(int.from_bytes(hashlib.sha256(content).digest()[:6], "big"))


def _origin_entry(origin: Origin | None) -> dict[str, Any]:
    return {} if origin is None else {"origin": origin.kept()}


def _of_this_package(path: Path):
    """Opens the table in a folder. **Raises:** `ValueError` if the folder holds anything else."""
    import zarr

    try:
        disk = zarr.open_array(path, mode="r+")
    except OSError:
        raise
    except (
        Exception
    ) as error:  # zarr and json raise types of their own for a group or a truncated file
        raise foreign_folder_error(path) from error
    if not isinstance(disk.attrs.get("asked"), dict):
        raise foreign_folder_error(path)
    return disk
