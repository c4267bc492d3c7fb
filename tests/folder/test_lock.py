import pytest

from hrac.folder import lock


def test_two_trainings_cannot_share_a_folder(tmp_path):
    with lock.locked(tmp_path), pytest.raises(lock.BusyFolderError, match="another process"), lock.locked(tmp_path):
        pass
    with lock.locked(tmp_path):
        pass
