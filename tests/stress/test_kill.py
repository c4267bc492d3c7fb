"""Trainings that are killed at any moment end as if nothing had happened.

    pytest -m stress tests/stress/test_kill.py        HRAC_STRESS=1000: that many kills instead of 100

The first few are part of the ordinary tests.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small

COUNT = int(os.environ.get("HRAC_STRESS", 100))
HANDFUL = ["rename", "fsync", "write", "time"]
"""The kinds of kills; one of each is an ordinary test."""
NUMBERS = [number if number < len(HANDFUL) else pytest.param(number, marks=pytest.mark.stress) for number in range(COUNT)]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The folder of an unbroken run, how often it made each call, and how long it took, by name; made when first asked for."""
    made = {}

    def get(name):
        if name not in made:
            folder, start = tmp_path_factory.mktemp("unbroken") / name, time.monotonic()
            result = _start(name, folder, "none", 0).communicate()
            counts = dict(zip(HANDFUL, map(int, result[0].split()), strict=False))
            made[name] = folder, counts, time.monotonic() - start
        return made[name]

    return get


def _start(name, folder, call, number):
    command = [sys.executable, str(Path(__file__).parent / "killed.py"), name, str(folder), call, str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_killed_run_ends_as_if_it_had_not_been_killed(number, unbroken, tmp_path):
    rng = random.Random(number)
    name = rng.choice(list(small.RUNS)) if number >= len(HANDFUL) else "maze"
    call = HANDFUL[number % len(HANDFUL)]
    whole, counts, seconds = unbroken(name)
    folder = tmp_path / "run"
    for _ in range(rng.choice([1, 1, 2])):
        with _start(name, folder, call, rng.randint(1, counts.get(call, 1))) as child:
            if call == "time":
                time.sleep(rng.uniform(0.0, seconds))
                child.kill()
            errors = child.communicate()[1]
        # A run that goes on makes fewer calls, so that a second kill may come too late.
        assert child.returncode in (-signal.SIGKILL, 0), errors
    assert small.train(name, folder).finished
    small.assert_same(folder, whole)
    assert not list(folder.rglob("*.tmp"))
