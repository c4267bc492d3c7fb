import pytest

from hrac.folder import lock
from hrac.folder.files import FileError


def test_two_trainings_cannot_share_a_folder(tmp_path):
    with lock.locked(tmp_path), pytest.raises(lock.BusyFolderError, match="another process"), lock.locked(tmp_path):
        pass
    with lock.locked(tmp_path):
        pass


def test_whether_a_folder_is_in_use_can_be_asked_without_a_trace(tmp_path):
    assert not lock.held(tmp_path / "nowhere")
    assert not lock.held(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with lock.locked(tmp_path):
        assert lock.held(tmp_path)
    assert not lock.held(tmp_path)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / lock.LOCK).symlink_to(tmp_path / lock.LOCK)
    with pytest.raises(FileError, match="symbolic link"):
        lock.held(tmp_path / "linked")
