import os
import stat

import pytest

from hrac.folder import files
from hrac.folder.files import FileError


def test_only_our_own_leftovers_are_removed(tmp_path):
    ours = [
        ".config.json.abcd_123.tmp",
        ".metrics.csv.abcdefgh.tmp",
        ".timing.csv.abcdefgh.tmp",
        ".checkpoint.safetensors.abcdefgh.tmp",
        "policy/.seed-12.safetensors.abcdefgh.tmp",
        "best/.seed-12.safetensors.abcdefgh.tmp",
    ]
    others = [
        ".notes.tmp",
        ".metrics.csv.tmp",
        ".metrics.csv.abc.tmp",
        "metrics.csv.abcdefgh.tmp",
        ".seed-0.safetensors.abcdefgh.tmp",
        "policy/.metrics.csv.abcdefgh.tmp",
        "other/.checkpoint.safetensors.abcdefgh.tmp",
        "other/project/.work.tmp",
    ]
    for name in ours + others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    files.remove_leftovers(tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(others)


def test_leftovers_are_not_looked_for_behind_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".seed-0.safetensors.abcdefgh.tmp").write_text("x")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "policy").symlink_to(tmp_path / "elsewhere")
    files.remove_leftovers(tmp_path / "run")
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1


def test_links_devices_and_pipes_are_not_opened(tmp_path):
    target, link, fifo = tmp_path / "target", tmp_path / "link", tmp_path / "fifo"
    target.write_text("precious")
    link.symlink_to(target)
    os.mkfifo(fifo)
    with pytest.raises(FileError, match="link is a symbolic link"):
        files.read(link)
    with pytest.raises(FileError, match="link is a symbolic link"):
        files.Appended(link)
    with pytest.raises(FileError, match="fifo is no regular file"):
        files.read(fifo)
    with pytest.raises(FileError, match="zero is no regular file"):
        files.read(files.Path("/dev/zero"))
    with pytest.raises(FileError, match="is no regular file"):
        files.read(tmp_path)
    assert target.read_text() == "precious"


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(FileError, match="large has 1,000,000,000,000 bytes, more than the 1,000 that"):
        files.read(path, most_bytes=1000)


def test_writing_replaces_a_link_and_leaves_what_it_leads_to(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("precious")
    link.symlink_to(target)
    files.write_atomic(link, b"new")
    assert target.read_text() == "precious"
    assert link.read_bytes() == b"new"
    assert not link.is_symlink()
    assert stat.S_IMODE(link.stat().st_mode) == 0o644


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "policy").symlink_to(tmp_path)
    with pytest.raises(FileError, match="policy is a symbolic link"):
        files.folder_within(tmp_path / "policy")


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod"])
def test_what_the_system_refuses_is_said_of_the_file(tmp_path, monkeypatch, call):
    path = tmp_path / "file"
    files.write_atomic(path, b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, call, fail)
    with pytest.raises(FileError, match="file cannot be written: No space left on device"):
        files.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
