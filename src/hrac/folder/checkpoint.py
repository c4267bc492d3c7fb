"""Arrays and facts in one safetensors file: written atomically, checked by digest, never able to run code.

A file holds named arrays and one JSON text. Loading refuses, with a reason and without touching anything, a file that is
damaged, truncated, of another kind or version, or (for a pytree) of another shape than what is to be filled.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as parse_safetensors
from safetensors.numpy import save as serialise

from hrac.errors import HracError
from hrac.folder.files import write_atomic

VERSION = 1
Arrays = dict[str, NDArray[Any]]
Tree = TypeVar("Tree")


class CheckpointError(HracError, ValueError):
    """A file that cannot be used; the message says which and why."""


def save(path: Path, kind: str, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Write arrays and JSON-able facts as one file of a kind ("checkpoint", "policy")."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = {"hrac": kind, "version": VERSION, "facts": facts, "digest": _digest(kind, arrays, facts)}
    write_atomic(path, serialise(arrays, {"hrac": json.dumps(header)}))


def load(path: Path, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """Read back what `save` wrote; raises `CheckpointError`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    header = _header(path, content)
    if header.get("hrac") != kind:
        raise CheckpointError(f"{path} is a {header.get('hrac')!r} file, not a {kind!r} file")
    if header.get("version") != VERSION:
        raise CheckpointError(f"{path} has format version {header.get('version')}, this program reads version {VERSION}")
    try:
        arrays = parse_safetensors(content)
        digest = _digest(kind, arrays, header["facts"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged or incomplete: {error}") from None
    if digest != header.get("digest"):
        raise CheckpointError(f"{path} is damaged: its content does not match its digest")
    return arrays, header["facts"]


def _header(path: Path, content: bytes) -> dict[str, Any]:
    """The JSON text that `save` put into the file's metadata."""
    size = int.from_bytes(content[:8], "little")
    try:
        if len(content) < 8 or size > len(content) - 8:
            raise ValueError("it ends too early")
        header = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["hrac"])
        if not isinstance(header, dict):
            raise TypeError("its header is no dictionary")
        return header
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is no file of this program, or damaged: {type(error).__name__}: {error}") from None


def _digest(kind: str, arrays: Arrays, facts: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps([kind, VERSION, facts], sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def flatten(tree: Any, prefix: str) -> Arrays:
    """The leaves of a pytree as NumPy arrays, named by their paths."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(arrays: Arrays, like: Tree, prefix: str, source: Path) -> Tree:
    """Fill a pytree of the shapes of `like` (arrays or shape structs) from named arrays; raises `CheckpointError`."""
    expected = jax.tree_util.tree_leaves_with_path(like)
    names = [prefix + jax.tree_util.keystr(path) for path, _ in expected]
    if missing := [name for name in names if name not in arrays]:
        raise CheckpointError(f"{source} is from another configuration or version: it has no {missing[0]!r}")
    for name, (_, leaf) in zip(names, expected, strict=True):
        found = arrays[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise CheckpointError(
                f"{source} is from another configuration: {name!r} is {found.dtype}{list(found.shape)}, "
                f"{leaf.dtype}{list(leaf.shape)} is needed"
            )
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in names])
