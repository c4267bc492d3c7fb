"""A sweep on a real Ray cluster of this machine."""

import importlib.util
import secrets
import tempfile

import pytest
import tiny_sweep
from tiny_sweep import Killer, Quiet

from hrac.sweeps import board, cluster, run
from hrac.sweeps.status import State

INSTALLED = importlib.util.find_spec("ray") is not None
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("ray"),
    pytest.mark.skipif(not INSTALLED, reason="Ray is not installed: pip install 'hrac[ray]'"),
]


@pytest.fixture(scope="module")
def ray():
    """A cluster with two CPUs that talks over loopback only, with a token of its own, so that none is written to the home."""
    short = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)  # a path to sockets
    with short as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        import ray  # it reads these variables now

        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=80_000_000,
            _node_ip_address="127.0.0.2",  # Ray replaces 127.0.0.1 by an address that others can reach
            _temp_dir=folder,
        )
        yield ray
        ray.shutdown()


def test_a_cell_whose_worker_is_killed_goes_on_elsewhere_and_nothing_is_lost_or_run_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(board, "SECONDS_BETWEEN_LOOKS", 0.05)
    cells = killed, _ = tiny_sweep.plan(tmp_path / "sweep", steps=6000)
    killer = Killer(killed.name, 800)
    outcomes, _ = run.run(cells, engine="ray", face=killer)
    assert killer.killed_at is not None
    assert [outcome.status.state for outcome in outcomes] == [State.FINISHED, State.FINISHED]
    assert [len(tiny_sweep.processes(cell)) for cell in cells] == [2, 1]
    assert "goes on from step " in tiny_sweep.log(killed)
    assert "goes on from step 0\n" not in tiny_sweep.log(killed)
    for cell in cells:
        assert (cell.folder / "metrics.csv").read_bytes() == tiny_sweep.unbroken(cell, tmp_path / cell.name)

    run.run(cells, engine="ray", face=Quiet())
    assert [len(tiny_sweep.processes(cell)) for cell in cells] == [2, 1]


def test_cells_that_are_cancelled_write_checkpoints(tmp_path):
    (tmp_path / "sweep").mkdir()
    cells = tiny_sweep.plan(tmp_path / "sweep", steps=1_000_000, etas=(5.0, 10.0, 20.0))
    passed = []
    face = Quiet(lambda outcomes: passed.append(all(outcome.status.numbers.step >= 400 for outcome in outcomes[:2])))
    shown = board.Board(cells, face)
    cluster.run(cells, shown, lambda: any(passed))
    assert [outcome.status.state for outcome in shown.outcomes()] == [State.STOPPED, State.STOPPED, State.NOT_STARTED]
    assert all("stopped at step" in tiny_sweep.log(cell) for cell in cells[:2])


def test_a_cell_that_fails_is_reported_and_what_fits_nowhere_is_said(tmp_path, ray):
    (cell,) = tiny_sweep.plan(tmp_path / "sweep", etas=(5.0,))
    cell.folder.mkdir(parents=True)
    (cell.folder / "metrics.csv").write_text("somebody's")
    face = Quiet()
    outcomes, _ = run.run([cell], engine="ray", face=face)
    assert outcomes[0].status.state == State.FAILED
    assert "holds a metrics.csv without a config.json" in outcomes[0].status.error
    cluster._warn_if_too_large(ray, board.Board([cell], face), 3.0, 0.0)
    assert face.said == ["no machine of the cluster has 3 CPUs and 0 GPUs: cells wait until there is one"]
