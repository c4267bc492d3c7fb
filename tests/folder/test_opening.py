import multiprocessing
import os

import pytest

from hrac.folder import opening
from hrac.folder.files import FileError
from hrac.folder.lock import BusyFolderError
from hrac.folder.opening import RunFolderError


def _content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "name", ["metrics.csv", "timing.csv", "checkpoint.safetensors", "policy", "best", "tensorboard", "events.out.tfevents.1.x"]
)
def test_a_new_run_writes_over_nothing(tmp_path, name):
    (tmp_path / name).write_text("somebody's")
    with pytest.raises(RunFolderError, match=f"holds a {name} without a config.json"), opening.new(tmp_path):
        pass
    assert _content(tmp_path) == {name: b"somebody's"}


@pytest.mark.parametrize("name", ["config.json", "metrics.csv", "policy"])
def test_a_link_that_leads_nowhere_is_not_overlooked(tmp_path, name):
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunFolderError), opening.new(tmp_path):
        pass


def test_a_folder_with_other_things_may_be_used(tmp_path):
    (tmp_path / "notes").write_text("x")
    with opening.new(tmp_path) as folder:
        (folder / "config.json").write_text("{}")
    assert set(_content(tmp_path)) == {"notes", "config.json", ".lock"}


@pytest.mark.parametrize("existed", [True, False])
def test_a_start_that_fails_leaves_nothing_behind(tmp_path, existed):
    wanted = tmp_path / "a" / "b"
    if existed:
        wanted.mkdir(parents=True)
        (wanted / "notes").write_text("x")
    before = _content(tmp_path)

    def start():
        with opening.new(wanted) as folder:
            (folder / "config.json").write_text("{}")
            (folder / "metrics.csv").write_text("seed,step,name,value\n")
            (folder / "timing.csv").write_text("step,seconds,steps_per_second\n")
            (folder / "events.out.tfevents.1").write_text("x")
            (folder / "policy").mkdir()
            raise MemoryError

    with pytest.raises(MemoryError):
        start()
    assert _content(tmp_path) == before


def test_what_was_learned_before_an_error_stays(tmp_path):
    def start():
        with opening.new(tmp_path / "run") as folder:
            (folder / "config.json").write_text("{}")
            (folder / "metrics.csv").write_text("seed,step,name,value\n0,400,eval/return,1.0\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        start()
    assert (tmp_path / "run" / "config.json").exists()


def test_default_names_are_unique(tmp_path):
    names = []
    for _ in range(3):
        with opening.new(tmp_path / "maze-hrac-1", unique=True) as folder:
            (folder / "config.json").write_text("{}")  # as of a run that has ended
            names.append(folder.name)
    assert names == ["maze-hrac-1", "maze-hrac-1-2", "maze-hrac-1-3"]


def _start(folder, barrier, results):
    barrier.wait()
    try:
        with opening.new(folder):
            (folder / "config.json").write_text(str(os.getpid()))
            results.put("won")
    except (RunFolderError, BusyFolderError):
        results.put("lost")


def test_of_two_starts_in_one_folder_one_wins(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    for number in range(5):
        barrier, results = spawn.Barrier(2), spawn.Queue()
        workers = [spawn.Process(target=_start, args=(tmp_path / str(number), barrier, results)) for _ in range(2)]
        for worker in workers:
            worker.start()
        assert sorted(results.get(timeout=60) for _ in workers) == ["lost", "won"]
        for worker in workers:
            worker.join()


def test_a_lock_that_is_a_link_empties_nothing(tmp_path):
    (tmp_path / "precious").write_text("x")
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text("{}")
    (run / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(FileError, match="lock is a symbolic link"), opening.existing(run):
        pass
    assert (tmp_path / "precious").read_text() == "x"


def test_a_lock_file_that_was_removed_is_no_lock(tmp_path, monkeypatch):
    """Another process opened it, then the holder gave up and removed it."""
    from hrac.folder import lock

    original = lock.fcntl.flock

    def removed(file, how):
        (tmp_path / ".lock").unlink()
        original(file, how)

    monkeypatch.setattr(lock.fcntl, "flock", removed)
    with pytest.raises(BusyFolderError), lock.locked(tmp_path):
        pass


def test_what_is_no_run_folder_gets_no_lock(tmp_path):
    with pytest.raises(RunFolderError, match="is no run folder"), opening.existing(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
