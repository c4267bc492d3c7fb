"""Arrays and facts in one safetensors file: written atomically, checked by digest, never able to run code.

A file holds named arrays and one JSON text. Loading refuses, with a reason and without touching anything, a file that is
damaged, truncated, of another kind or version, or (for a pytree) of other shapes than expected.
"""

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

from hrac.config import RESUMABLE, Config, ConfigError, differences
from hrac.errors import HracError
from hrac.folder.files import FileError, atomic, naming, open_to_read

VERSION = 1
MOST_HEADER_BYTES = 100_000_000
"""The limit of the safetensors format."""
DTYPES = {
    "BOOL": np.dtype(np.bool_),
    **{f"{letter}{8 * size}": np.dtype(f"{letter.lower()}{size}") for letter in "IU" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"f{size}") for size in (2, 4, 8)},
}
"""NumPy types by their names in the file."""
Arrays = dict[str, NDArray[Any]]
Tree = TypeVar("Tree")


class CheckpointError(HracError, ValueError):
    """A file that cannot be used; the message says which and why."""


def save(path: Path, kind: str, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Write arrays and JSON-able facts as one file of a kind ("checkpoint", "policy"), without a copy of them in memory.

    The format is simple enough to write here; the safetensors library would rename a temporary file of its own.
    """
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # so that all are aligned
    header = {"hrac": kind, "version": VERSION, "facts": facts, "digest": _digest(kind, arrays, facts)}
    entries: dict[str, Any] = {"__metadata__": {"hrac": json.dumps(header)}}
    kinds, end = {dtype: name for name, dtype in DTYPES.items()}, 0
    for name in names:
        array, start = arrays[name], end
        end += array.nbytes
        entries[name] = {"dtype": kinds[array.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    with atomic(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            file.write(_bytes_of(arrays[name]))


def load(path: Path, kind: str, most_bytes: int | None = None) -> tuple[Arrays, dict[str, Any]]:
    """Read a file that `save` wrote; raises `CheckpointError`. It needs memory for the arrays only."""
    with _opened(path, most_bytes) as file:
        header, entries = _header(file, path, kind)
        try:
            arrays = _arrays(file, entries)
            digest = _digest(kind, arrays, header["facts"])
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise CheckpointError(f"{path} is damaged or incomplete: {error}") from None
    if digest != header.get("digest"):
        raise CheckpointError(f"{path} is damaged: its content does not match its digest")
    return arrays, header["facts"]


def load_facts(path: Path, kind: str) -> dict[str, Any]:
    """The facts alone, from the start of the file. The digest is not checked. Raises `CheckpointError`."""
    with _opened(path, None) as file, understanding(path):
        return dict(_header(file, path, kind)[0]["facts"])


@contextlib.contextmanager
def understanding(path: Path) -> Iterator[None]:
    """Turns errors in reading a file's content into `CheckpointError`: a complete file may be another version's, or made up."""
    try:
        yield
    except CheckpointError:
        raise
    except ConfigError as error:
        raise CheckpointError(f"{path}: {'; '.join(str(error).splitlines())}") from None
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise CheckpointError(f"{path} is from another version, or damaged: {what}") from error


def require_same(saved: Config, wanted: Config, path: Path) -> None:
    """A resumed run may be longer or have other learning rates, but no other changes; raises `CheckpointError`."""
    if different := [name for name in differences(saved, wanted) if name not in RESUMABLE]:
        raise CheckpointError(f"{path} is from another configuration: {', '.join(different)} differ")


@contextlib.contextmanager
def _opened(path: Path, most_bytes: int | None) -> Iterator[IO[bytes]]:
    try:
        with naming(path, "read"), open_to_read(path, most_bytes) as file:
            yield file
    except FileError as error:
        raise CheckpointError(str(error)) from None


def _header(file: IO[bytes], path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON text of `save` in the file's metadata, checked for kind and version, and the places of the arrays."""
    try:
        size = int.from_bytes(file.read(8), "little")
        if size > min(os.fstat(file.fileno()).st_size - 8, MOST_HEADER_BYTES):
            raise ValueError("it ends too early")
        entries = json.loads(file.read(size))
        header = json.loads(entries.pop("__metadata__")["hrac"])
        found, version = header.get("hrac"), header.get("version")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} is no file of this program, or damaged: {type(error).__name__}: {error}") from None
    if found != kind:
        raise CheckpointError(f"{path} is a {found!r} file, not a {kind!r} file")
    if version != VERSION:
        raise CheckpointError(f"{path} has format version {version}, this program reads version {VERSION}")
    return header, entries


def _arrays(file: IO[bytes], entries: dict[str, Any]) -> Arrays:
    """The arrays after the header, without gaps between them; raises `ValueError`."""
    arrays, start = {}, 0
    left = os.fstat(file.fileno()).st_size - file.tell()
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        if begin != start or any(type(n) is not int or n < 0 for n in (end, *shape)):
            raise ValueError(f"{name!r} is not where it should be")
        if end - begin != math.prod(shape) * dtype.itemsize or end > left:
            raise ValueError(f"{name!r} is not of its size")
        arrays[name] = np.empty(shape, dtype)
        if file.readinto(_bytes_of(arrays[name])) != end - begin:  # type: ignore[attr-defined]
            raise ValueError(f"{name!r} is cut off")
        start = end
    if start != left:
        raise ValueError("it has more bytes than its header says")
    return arrays


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """The bytes of an array in C order, without a copy if it is contiguous."""
    return memoryview(np.asarray(array, order="C").reshape(-1).view(np.uint8))  # type: ignore[arg-type]


def _digest(kind: str, arrays: Arrays, facts: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps([kind, VERSION, facts], sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(_bytes_of(array))
    return digest.hexdigest()


def flatten(tree: Any, prefix: str) -> Arrays:
    """The leaves of a pytree as NumPy arrays, named by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(arrays: Arrays, like: Tree, prefix: str, source: Path) -> Tree:
    """Fill a pytree of the shapes of `like` (arrays or shape structs) from named arrays; raises `CheckpointError`."""
    expected = {prefix + jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(like)}
    require_alike(arrays, expected, source)
    for name in expected:
        if arrays[name].dtype.kind == "f" and not np.isfinite(arrays[name]).all():
            raise CheckpointError(f"{source} cannot be used: {name!r} has numbers that are not finite")
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in expected])


def require_alike(arrays: Arrays, like: Mapping[str, Any], source: Path) -> None:
    """All names of `like` (arrays or shape structs) are there, of the same types and shapes; raises `CheckpointError`."""
    if missing := [name for name in like if name not in arrays]:
        raise CheckpointError(f"{source} is from another configuration or version: it has no {missing[0]!r}")
    for name, wanted in like.items():
        found = arrays[name]
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise CheckpointError(
                f"{source} is from another configuration: {name!r} is {found.dtype}{list(found.shape)}, "
                f"{wanted.dtype}{list(wanted.shape)} is needed"
            )
