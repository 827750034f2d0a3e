"""What an ensemble has computed, on disk: one table, a row for each trajectory, written block by block.

The table is a Zarr array `values.zarr` whose chunks are the blocks. Zarr writes a chunk to a file of its own and renames
it, so that a block is there whole or not at all, whenever the process is killed or the disk fills. A last column,
`checksum`, has for all rows of a block a number made of the run, the block's place and its values: a block that was
changed, put elsewhere or taken from another run is not read.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxhamel import _checks
from jaxhamel._files import Lock
from jaxhamel.ensemble._origin._origin import Origin

CHECKSUM = "checksum"


class BlockStore:
    """The rows of an ensemble, in a folder as well where there is one.

    **Arguments:**

    - `folder`: where; None keeps everything in memory only.
    - `columns`: names of the columns; the last one is never NaN in a row that was written.
    - `size`, `block`: rows altogether, and in a block.
    - `asked`: what decides the numbers (seed, distributions, …), as JSON; a folder that holds something else is refused.
    - `resume`: whether to go on with what the folder holds.
    - `origin`: the program that the numbers come from. `begun` is that of the run that is gone on with, None for a new one.

    In memory a row takes 8 bytes for each column, and nothing else grows.

    **Raises:** `ValueError` for a folder with another run, with any run when `resume` is False, or that another process
    writes to; the folder is this one's until `close`.
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
        _checks.check_installed("zarr", "a run with a folder", "cli")
        import zarr
        from zarr.codecs import ZstdCodec

        path, asked = folder / "values.zarr", json.loads(json.dumps(asked))
        columns = [*self.columns, CHECKSUM]
        _checks.check_no_links(path)
        if (path / "zarr.json").exists():
            disk = _of_this_package(path)
            _checks.check_same_run(folder, disk.attrs["asked"], asked, resume)
            if disk.shape != (self.size, len(columns)) or disk.attrs.get("columns") != columns:
                raise _checks.foreign_folder_error(path)
            self.begun = Origin.read(disk.attrs.get("origin"))  # pyright: ignore
            self._lock = _checks.only_writer(path)
            for index in range(self.blocks):
                self.table[self.rows(index)] = self._block(disk, index)
            return disk
        _checks.check_no_foreign_folder(path)
        with _checks.writing(folder, 0):
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _checks.only_writer(path)
            return zarr.create_array(
                path,
                shape=(self.size, len(columns)),
                chunks=(min(self.block, self.size), len(columns)),
                dtype="f8",
                compressors=ZstdCodec(checksum=True),  # pyright: ignore[reportArgumentType]
                fill_value=np.nan,
                attributes={"columns": columns, "asked": asked} | _kept(origin),
            )

    def close(self) -> None:
        """Let others write to the folder."""
        if self._lock is not None:
            self._lock.close()

    @property
    def blocks(self) -> int:
        """How many there are."""
        return -(-self.size // self.block)

    def rows(self, index: int) -> slice:
        """The rows of block `index`."""
        return slice(index * self.block, min((index + 1) * self.block, self.size))

    @property
    def missing(self) -> list[int]:
        """The blocks that are not there yet."""
        first = self.table[:: self.block, -1]
        return np.flatnonzero(np.isnan(first)).tolist()

    def write(self, index: int, values: Float[np.ndarray, "B c"]) -> None:
        """Block `index`: to disk first.

        **Raises:** `OSError` when it cannot be written, the disk being full, say; nothing written before is lost.
        """
        if self._disk is not None:
            with _checks.writing(self.folder, np.count_nonzero(~np.isnan(self.table[:, -1]))):
                sums = np.full((len(values), 1), self._checksum(index, values))
                self._disk[self.rows(index)] = np.concatenate([values, sums], axis=1)
        self.table[self.rows(index)] = values

    def __getitem__(self, index: int) -> Float[np.ndarray, "B c"]:
        """The rows of block `index`."""
        return self.table[self.rows(index)]

    def first(self, rows: int) -> dict[str, Float[np.ndarray, " N"]]:
        """The first rows, by column."""
        return dict(zip(self.columns, self.table[:rows].T, strict=True))

    def _block(self, disk, index: int) -> Any:
        """The rows of a block on disk; NaN, as if it were missing, where they are not those that were written."""
        try:
            found = np.asarray(disk[self.rows(index)])
        except OSError:
            raise
        except Exception:  # from decompression, by its kind: a machine that stopped, a bad disk
            return np.nan
        values, sums = found[:, :-1], found[:, -1]
        return values if np.all(sums == self._checksum(index, values)) else np.nan

    def _checksum(self, index: int, values: np.ndarray) -> float:
        """48 bits of the hash of the run, the block's place and its values."""
        words = np.ascontiguousarray(values, dtype="<f8")
        content = self._run + index.to_bytes(8, "big") + words.tobytes()
        return float(int.from_bytes(hashlib.sha256(content).digest()[:6], "big"))


def _kept(origin: Origin | None) -> dict[str, Any]:
    return {} if origin is None else {"origin": origin.kept()}


def _of_this_package(path: Path):
    """The table in a folder. **Raises:** `ValueError` where something else is there."""
    import zarr

    try:
        disk = zarr.open_array(path, mode="r+")
    except OSError:
        raise
    except Exception as error:  # a group, a file cut short: zarr and json have errors of their own
        raise _checks.foreign_folder_error(path) from error
    if not isinstance(disk.attrs.get("asked"), dict):
        raise _checks.foreign_folder_error(path)
    return disk
