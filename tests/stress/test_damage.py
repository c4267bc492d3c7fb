"""Damaged, foreign and hostile files: each is refused in one line or harmless, and nothing outside is touched.

    pytest -m stress tests/stress/test_damage.py        HRAC_STRESS_FILES=10000: that many instead of 1,000

The first few are part of the ordinary tests.
"""

import json
import os
import random
import shutil

import numpy as np
import pytest
import small

import hrac
from hrac import cli
from hrac.folder import checkpoint

COUNT = int(os.environ.get("HRAC_STRESS_FILES", 1000))
HANDFUL = 30
RUN = os.environ.get("HRAC_STRESS_RUN", "maze")
"""One of `small.RUNS`."""
NUMBERS = [number if number < HANDFUL else pytest.param(number, marks=pytest.mark.stress) for number in range(COUNT)]
POLICIES = ["policy/seed-0.safetensors", "best/seed-0.safetensors"]
FILES = ["checkpoint.safetensors", *POLICIES, "config.json", "metrics.csv", "timing.csv", ".lock"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    small.train(RUN, folder, seeds=1)
    return folder


def _bytes(rng, path):
    """Other bytes: flipped, cut off, cut out, doubled, zeroed or all new."""
    content = path.read_bytes() or b"x"
    here, there = sorted(rng.choices(range(len(content)), k=2))
    flipped = bytearray(content)
    for _ in range(rng.choice([1, 1, 10, 100])):
        flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    parts = [
        bytes(flipped),
        content[:here],
        content[:here] + content[there:],
        content[:there] + content[here:],
        content[:here] + bytes(there - here) + content[there:],
        rng.randbytes(len(content)),
        b"",
    ]
    path.write_bytes(rng.choice(parts))


def _content(rng, path):
    """A file that is whole, with other content than it should have."""
    kind = "policy" if path.parent.name in ("policy", "best") else "checkpoint"
    arrays, facts = checkpoint.load(path, kind)
    name, odd = rng.choice(list(arrays)), [None, -1, 10**30, 1.5, "x", [], {}, True]
    changes = [
        lambda: arrays.pop(name),
        lambda: arrays.update({name: arrays[name][..., None]}),
        lambda: arrays.update({name: arrays[name].astype(np.float16)}),
        lambda: arrays.update({name: np.zeros(rng.randrange(5))}),
        lambda: arrays.update({name: np.full_like(arrays[name], np.nan if arrays[name].dtype.kind == "f" else 1)}),
        lambda: facts.update({rng.choice(list(facts)): rng.choice(odd)}),
        lambda: facts["config"].update({rng.choice(list(facts["config"])): rng.choice(odd)}),
        lambda: facts["config"]["training"].update({"envs_per_run": rng.choice(odd)}),
        lambda: facts.pop(rng.choice(list(facts))),
    ]
    rng.choice(changes)()
    checkpoint.save(path, kind, arrays, facts)


def _text(rng, path):
    """A configuration with an odd value."""
    tree = json.loads(path.read_text())
    group = rng.choice([tree, tree["config"], tree["config"]["manager"], tree["config"]["training"]])
    group[rng.choice(list(group))] = rng.choice([None, -1, 10**30, 1e300, "x", [], {}, True])
    path.write_text(json.dumps(tree))


def _form(rng, path):
    """Something that is no regular file."""
    path.unlink(missing_ok=True)
    outside = path.parent.parent / "outside" / "precious"
    make = [lambda: path.symlink_to(outside), lambda: path.symlink_to("/dev/zero"), lambda: os.mkfifo(path), path.mkdir]
    rng.choice(make)()


def _damage(rng, folder):
    path = folder / rng.choice(FILES)
    ways = [_bytes, _form]
    if path.suffix == ".safetensors":
        ways += [_content, _content]
    elif path.suffix == ".json":
        ways += [_text, _text]
    rng.choice(ways)(rng, path)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_damaged_run_folder_is_refused_or_goes_on(number, whole, tmp_path):
    rng = random.Random(number)
    folder, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(whole, folder)
    outside.mkdir()
    (outside / "precious").write_text("seed,step,name,value\n")
    _damage(rng, folder)
    before = small.everything(outside)
    refusal = ""
    for use in (
        lambda: hrac.load(folder),
        lambda: hrac.load(folder, best=True),
        lambda: hrac.resume(folder, steps=small.STEPS + 40, display=hrac.Silent()),
    ):
        try:
            use()
        except hrac.ConfigError:
            pass  # one line for each field
        except hrac.HracError as error:
            refusal = str(error)
        assert "\n" not in refusal
        assert len(refusal) < 2000
    assert small.everything(outside) == before
    assert {path.name for path in tmp_path.iterdir()} == {"run", "outside"}
    assert not list(folder.rglob("*.tmp"))


def test_the_program_says_so_too(whole, tmp_path, capsys):
    path = tmp_path / "policy"
    path.write_bytes((whole / "policy" / "seed-0.safetensors").read_bytes()[:-1])
    assert cli._main(["eval", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
