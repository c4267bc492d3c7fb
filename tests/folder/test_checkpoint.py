import json
import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest

from hrac.folder import checkpoint
from hrac.folder.checkpoint import CheckpointError
from hrac.folder.files import write_atomic

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([True, False]), "empty": np.empty((0, 2), np.int64)}
FACTS = {"env_steps": 200, "config": {"k": 10}}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "x.safetensors"
    checkpoint.save(path, "checkpoint", ARRAYS, FACTS)
    return path


def test_what_was_saved_comes_back(saved):
    arrays, facts = checkpoint.load(saved, "checkpoint")
    assert facts == FACTS
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def _refused(path, match, kind="checkpoint"):
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(CheckpointError, match=match):
        checkpoint.load(path, kind)
    assert (path.read_bytes() if path.exists() else None) == before


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.5, 0.99])
def test_a_truncated_file_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    _refused(saved, r"x\.safetensors is (no file of this program, or )?damaged")


@pytest.mark.parametrize("from_end", [1, 5, 20])
def test_a_single_flipped_bit_is_noticed(saved, from_end):
    content = bytearray(saved.read_bytes())
    content[-from_end] ^= 1
    saved.write_bytes(content)
    _refused(saved, "does not match its digest")


def test_a_changed_fact_is_noticed(saved):
    content = saved.read_bytes()
    assert b"200" in content
    saved.write_bytes(content.replace(b"200", b"300"))
    _refused(saved, "does not match its digest")


def test_a_foreign_file_is_refused(tmp_path):
    from safetensors.numpy import save

    path = tmp_path / "x.safetensors"
    path.write_bytes(save({"w": np.zeros(3, np.float32)}))
    _refused(path, "no file of this program")
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    _refused(path, "no file of this program")


def test_a_missing_file_is_named(tmp_path):
    _refused(tmp_path / "gone", "gone cannot be opened: No such file")


def test_another_kind_and_another_version_are_refused(saved, monkeypatch):
    _refused(saved, "is a 'checkpoint' file, not a 'policy' file", kind="policy")
    monkeypatch.setattr(checkpoint, "VERSION", 2)
    _refused(saved, "has format version 1, this program reads version 2")


def test_trees_are_filled_only_if_every_array_fits(tmp_path):
    tree = {"w": jnp.ones((2, 3)), "n": (jnp.zeros(2, jnp.int32),)}
    arrays = checkpoint.flatten(tree, "runs")
    again = checkpoint.unflatten(arrays, tree, "runs", tmp_path)
    np.testing.assert_array_equal(again["w"], tree["w"])
    with pytest.raises(CheckpointError, match=r"another configuration or version: it has no \"runs\['extra'\]\""):
        checkpoint.unflatten(arrays, tree | {"extra": jnp.zeros(1)}, "runs", tmp_path)
    with pytest.raises(CheckpointError, match=r"is float32\[2, 3\], float32\[3, 2\] is needed"):
        checkpoint.unflatten(arrays, tree | {"w": jnp.ones((3, 2))}, "runs", tmp_path)


def test_nothing_is_pickled(saved):
    """The file is a length, a JSON header and raw numbers."""
    content = saved.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header.pop("__metadata__")
    numbers = sum(entry["data_offsets"][1] - entry["data_offsets"][0] for entry in header.values())
    assert numbers == len(content) - 8 - size


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_the_safetensors_library_reads_the_same(saved):
    from safetensors.numpy import load_file

    for name, array in load_file(saved).items():
        np.testing.assert_array_equal(array, ARRAYS[name])
        assert array.dtype == ARRAYS[name].dtype


def test_odd_arrays_come_back(tmp_path):
    path = tmp_path / "x"
    arrays = {"columns": np.arange(6).reshape(2, 3).T, "scalar": np.asarray(3, np.uint32), "half": np.zeros(3, np.float16)}
    checkpoint.save(path, "policy", arrays, {})
    for name, array in checkpoint.load(path, "policy")[0].items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.shape == arrays[name].shape


def test_saving_copies_at_most_one_array_and_loading_holds_the_arrays_once(tmp_path):
    path, size = tmp_path / "x", 2_000_000
    arrays = {f"w{number}": np.ones((2, size), np.float32)[:, : size - number] for number in range(5)}
    one, total = 8 * size, sum(array.nbytes for array in arrays.values())
    assert _peak(lambda: checkpoint.save(path, "checkpoint", arrays, {})) < 1.1 * one
    assert _peak(lambda: checkpoint.load(path, "checkpoint")) < 1.05 * total
    assert _peak(lambda: checkpoint.load_facts(path, "checkpoint")) < 1e5


def _peak(function):
    tracemalloc.start()
    function()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda entry: entry | {"dtype": "X9"}, "X9"),
        (lambda entry: entry | {"shape": [3, 3]}, "is not of its size"),
        (lambda entry: entry | {"shape": [-2, -3]}, "is not where it should be"),
        (lambda entry: entry | {"shape": [2**70, 0]}, ""),
        (lambda entry: entry | {"shape": "ab"}, ""),
        (lambda entry: entry | {"data_offsets": [0, 10**15]}, ""),
        (lambda entry: {}, ""),
        (lambda entry: None, ""),
    ],
)
def test_a_header_that_does_not_fit_is_refused(saved, change, message):
    content = saved.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["a"] = change(header["a"])
    text = json.dumps(header).encode()
    saved.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
    _refused(saved, rf"x\.safetensors is damaged or incomplete: .*{message}")


def test_a_header_of_any_length_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:
        file.write((10**11).to_bytes(8, "little"))
        file.truncate(10**12)
    assert _peak(lambda: _refused_header(path)) < 1e6


def _refused_header(path):
    with pytest.raises(CheckpointError, match="no file of this program"):
        checkpoint.load(path, "checkpoint")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(tmp_path, bad):
    tree = {"w": np.array([1.0, bad], np.float32)}
    with pytest.raises(CheckpointError, match=r"\['w'\]\" has numbers that are not finite"):
        checkpoint.unflatten(checkpoint.flatten(tree, "runs"), tree, "runs", tmp_path)


@pytest.mark.parametrize("error", [KeyError("config"), TypeError("x"), ValueError("x"), IndexError("x"), OverflowError("x")])
def test_what_cannot_be_understood_is_one_error(tmp_path, error):
    with pytest.raises(CheckpointError, match="is from another version, or damaged"), checkpoint.understanding(tmp_path):
        raise error
