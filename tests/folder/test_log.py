import pytest

from hrac.folder import files, log, tensorboard
from hrac.folder.files import FileError
from hrac.folder.log import LogError, Row, RunLog
from hrac.folder.tensorboard import TensorBoard

ROW = Row(0, 400, "eval/return", 1.5)


def test_a_damaged_table_is_named(tmp_path):
    path = tmp_path / "metrics.csv"
    for content, message in (
        (b"seed,step,name,value\n\xff\xfe\n", r"metrics\.csv is no text"),
        (b"seed,step,name,value\n0,1,x,1\x00\n", r"metrics\.csv"),
        (b'seed,step,name,value\n"' + b"x" * 200_000 + b'"\n', r"metrics\.csv is no table"),
        (b"seed,step,name,value\n0,1,x\n", r"metrics\.csv, line 2 is not seed,step,name,value"),
        (b"a,b\n1,2\n", r"metrics\.csv, line 2 is not"),
    ):
        path.write_bytes(content)
        with pytest.raises(LogError, match=message):
            log.read(tmp_path)


def test_what_stands_before_the_damage_is_salvaged(tmp_path):
    path, good = tmp_path / "metrics.csv", b"seed,step,name,value\n0,400,eval/return,1.5\n"
    for content, damage in (
        (good, None),
        (good + b"0,800,eval/return,1.", "ends in the middle of a line"),  # perhaps of 1.75
        (good + b"0,800\n0,1200,eval/return,2\n", "line 3 is not seed,step,name,value"),
        (good + b"\xff\xfe\n", "line 3 is not"),
    ):
        path.write_bytes(content)
        salvaged = log.salvage(tmp_path)
        assert salvaged.rows == [ROW]
        assert salvaged.damage is None if damage is None else damage in salvaged.damage
    path.unlink()
    with pytest.raises(LogError, match=r"has no metrics\.csv"):
        log.salvage(tmp_path)


def test_times_are_read_as_they_were_written(tmp_path):
    with pytest.raises(LogError, match=r"has no timing\.csv"):
        log.read_timing(tmp_path)
    written = RunLog(tmp_path)
    written.write_timing(400, 2.5, 160.0)
    written.close()
    assert log.read_timing(tmp_path) == [(400, 2.5, 160.0)]
    (tmp_path / "timing.csv").write_text("step,seconds,steps_per_second\n400,two,160\n")
    with pytest.raises(LogError, match=r"timing\.csv is not a table of times"):
        log.read_timing(tmp_path)


def test_a_full_disk_is_said_of_the_file_and_ends_without_noise(tmp_path, monkeypatch, capfd):
    written = RunLog(tmp_path)

    for file in (written._metrics, written._timing):
        monkeypatch.setattr(file, "_file", _Full(file._file))
    with pytest.raises(FileError, match=r"metrics\.csv cannot be written: No space left on device"):
        written.write([ROW])
    with pytest.raises(FileError, match=r"timing\.csv cannot be written: No space left on device"):
        written.write_timing(1, 1.0, 1.0)
    written.close()
    assert capfd.readouterr() == ("", "")


class _Full:
    """A file on a disk without space."""

    def __init__(self, file):
        self._file = file

    def write(self, _):
        raise OSError(28, "No space left on device")

    def close(self):
        self._file.close()


def test_files_that_are_links_are_not_written_through(tmp_path):
    (tmp_path / "precious").write_text("seed,step,name,value\n0,1,x,1.0\n")
    run = tmp_path / "run"
    run.mkdir()
    (run / "metrics.csv").symlink_to(tmp_path / "precious")
    with pytest.raises(FileError, match="is a symbolic link"):
        RunLog(run, keep=10, step=400)
    with pytest.raises(FileError, match="is a symbolic link"):
        log.read(run)
    assert (tmp_path / "precious").read_text() == "seed,step,name,value\n0,1,x,1.0\n"


def test_two_logs_of_one_second_have_two_files_for_tensorboard(tmp_path):
    for _ in range(3):
        TensorBoard(tmp_path, {}).write([ROW])
    assert len(list((tmp_path / "tensorboard" / "seed-0").glob("events.*"))) == 3


def test_the_files_of_tensorboard_are_not_written_through_links_and_a_full_disk_is_named(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / "tensorboard").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="tensorboard is a symbolic link"):
        TensorBoard(tmp_path / "run", {}).write([ROW])
    assert not list((tmp_path / "elsewhere").iterdir())
    monkeypatch.setattr(tensorboard, "Appended", _FullFile)
    with pytest.raises(FileError, match=r"events\.out\.tfevents\..* cannot be written: No space left on device"):
        TensorBoard(tmp_path, {}).write([ROW])


class _FullFile(files.Appended):
    def __init__(self, path, new):
        super().__init__(path, new)
        self._file = _Full(self._file)
