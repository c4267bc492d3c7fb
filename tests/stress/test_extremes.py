"""Every number of the configuration at its extremes: a training that goes its way, or one line that says why not.

pytest -m stress tests/stress/test_extremes.py        HRAC_STRESS_SECONDS=60: how long each may take (default 20)
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from hrac.config import Config

SECONDS = float(os.environ.get("HRAC_STRESS_SECONDS", 20))


def _bounds(learner):
    """Dotted names with the lowest and the highest value that the schema allows, with the fields of one learner."""
    schema = TypeAdapter(Config).json_schema()
    for group, about in schema["properties"].items():
        if "$ref" not in about and group != "controller":
            continue
        definition = learner if group == "controller" else about["$ref"].rsplit("/", 1)[1]
        for name, field in schema["$defs"][definition]["properties"].items():
            for form in field.get("anyOf", [field]):
                one = form.get("items", form)
                if "maximum" in one:
                    many = "items" in form
                    yield f"{group}__{name}", [one["minimum"]] * many or one["minimum"]
                    yield f"{group}__{name}", [one["maximum"]] * (16 * many) or one["maximum"]
    yield from (("k", 2), ("k", 1000))


def _case(run, name, value):
    ordinary = run == "maze" and name in ("manager__batch_size", "manager__buffer_windows")
    return pytest.param(run, name, value, marks=() if ordinary else pytest.mark.stress, id=f"{run}-{name}-{value}")


@pytest.mark.parametrize(
    ("run", "name", "value"),
    [
        _case(run, name, value)
        for run, learner in (("maze", "A2C"), ("point-maze", "TD3"), ("ant-maze", "TD3"))
        for name, value in _bounds(learner)
    ],
)
def test_an_extreme_number_is_refused_in_one_line_or_goes_its_way(run, name, value, tmp_path):
    script, out = Path(__file__).parent / "extreme.py", tmp_path / "run"
    command = [sys.executable, str(script), run, name, json.dumps(value), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            errors = child.communicate(timeout=SECONDS)[1]
        except subprocess.TimeoutExpired:  # it goes its way
            child.kill()
            errors = child.communicate()[1]
    assert child.returncode in (0, 2, -signal.SIGKILL), errors
    assert "Traceback" not in errors
    if child.returncode == 2 and "The last good checkpoint" not in errors:
        assert not out.exists(), errors
