"""The content of a report, and the file that it is written to."""

import base64
import hashlib
import itertools
import json
import re
import shutil
import types

import numpy as np
import pytest

import hrac
from hrac import cli
from hrac.config import ConfigError
from hrac.envs.grid import Maze
from hrac.folder.files import FileError
from hrac.folder.opening import RunFolderError
from hrac.nets import MLP
from hrac.reports import data, episodes, page
from hrac.reports.reading import read
from hrac.scenes.story import tell
from reports.report_runs import LAYOUT, renamed, with_policies, written

RETURNS = [(seed, step, "eval/return", value) for seed, value in enumerate((9.0, 1.0, 2.0, 3.0)) for step in (0, 10_000)]


def collected(*folders):
    return data.collect([read(folder) for folder in folders], [], [])


def data_of(path):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def test_a_curve_is_the_interquartile_mean_with_its_interval_and_all_seeds(tmp_path):
    (group,) = collected(written(tmp_path / "run", RETURNS))["groups"]
    chart = group["charts"]["eval/return"]
    assert (group["task"], group["label"], chart["steps"], chart["seeds"]) == ("maze", "hrac", [0, 10_000], [0, 1, 2, 3])
    assert chart["middle"] == [2.5, 2.5]  # without 1 and 9
    assert chart["values"] == [[9.0, 9.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    low, high = chart["interval"]
    assert 1.0 <= low[0] < 2.5 < high[0] <= 9.0
    assert "eval/success" not in group["charts"]


def test_folders_of_one_method_are_one_curve_unless_their_settings_differ(tmp_path):
    rows = [(seed, 0, "eval/return", 1.0) for seed in (0, 1)]
    first = written(tmp_path / "a", rows)
    more = written(tmp_path / "b", [(2, 0, "eval/return", 4.0)])
    other = written(tmp_path / "c", [(3, 0, "eval/return", 4.0)], changes={"manager.eta": 5.0})
    together = collected(first, more)
    assert [group["label"] for group in together["groups"]] == ["hrac"]
    assert together["groups"][0]["charts"]["eval/return"]["middle"] == [2.0]  # (1 + 1 + 4) / 3
    assert together["refusals"] == []
    apart = collected(first, other)
    assert [group["label"] for group in apart["groups"]] == ["hrac (a)", "hrac (c)"]
    assert "differ in manager.eta" in apart["refusals"][0]
    assert [row[1] for row in apart["comparison"]["tables"][0]["rows"]] == ["hrac (a)", "hrac (c)"]


def test_labels_name_the_groups(tmp_path):
    folders = [
        written(tmp_path / name, [(seed, 0, "eval/return", 1.0)], changes={"manager.eta": eta})
        for seed, (name, eta) in enumerate({"a": 20.0, "b": 5.0, "c": 1.0}.items())
    ]
    path = hrac.report(folders, tmp_path / "report.html", labels=("other", "small", "small"))
    content = data_of(path)
    assert [(group["label"], group["charts"]["eval/return"]["seeds"]) for group in content["groups"]] == [
        ("other", [0]),
        ("small", [1, 2]),
    ]
    assert [row[1] for row in content["comparison"]["tables"][0]["rows"]] == ["other", "small"]
    with pytest.raises(ConfigError, match="labels: 3 are needed, one per run, got 1"):
        hrac.report(folders, tmp_path / "report.html", labels=("x",))


def test_folders_without_a_common_step_leave_out_that_metric_only(tmp_path):
    extra = [
        written(tmp_path / f"{seed}", [(seed, 0, "eval/return", 1.0), (seed, 10 * seed, "adjacency/loss", 1.0)])
        for seed in (1, 2)
    ]
    (group,) = collected(*extra)["groups"]
    assert list(group["charts"]) == ["eval/return"]


def test_the_table_is_that_of_compare(tmp_path):
    folders = [written(tmp_path / name, RETURNS, name) for name in ("hrac", "hiro")]
    assert collected(*folders)["comparison"]["tables"] == [table._asdict() for table in hrac.compare(folders).tables()]


def test_settings_are_compared_with_those_of_the_method(tmp_path):
    changes = {"manager.eta": 5.0, "training.total_env_steps": 60_000}
    run = collected(written(tmp_path / "run", RETURNS, changes=changes))["runs"][0]
    assert run["differences"] == [("manager.eta", "20.0", "5.0")]  # a shorter run changes no number


def test_settings_that_differ_by_rounding_are_the_same(tmp_path):
    for eta, told in ((20.00000001, []), (20.001, [("manager.eta", "20.0", "20.001")])):
        run = collected(written(tmp_path / str(eta), RETURNS, changes={"manager.eta": eta}))["runs"][0]
        assert run["differences"] == told


def test_a_policy_of_the_package_is_called_so_and_has_its_own_seed_only(tmp_path):
    (run,) = collected("maze")["runs"]
    told = dict(run["facts"])
    assert (run["name"], told["place"], told["seeds"]) == (*["maze from the package"] * 2, str(hrac.load("maze").seed))
    assert run["differences"] == []
    copy = shutil.copy(hrac.pretrained("maze"), tmp_path / "mine.safetensors")
    (run,) = collected(copy)["runs"]
    assert (run["name"], dict(run["facts"])["place"]) == ("mine.safetensors", str(copy))


def test_what_was_run_is_told(tmp_path):
    about = {"device": "cuda:0", "commit": "0123456789abcdef", "python": "3.11.7", "versions": {"jax": "0.8", "mujoco": None}}
    timing = [(0, 5.0, 0.0), (100_000, 65.0, 1666.7), (200_000, 125.0, 1666.7)]
    folder = written(tmp_path / "run", [*RETURNS, (0, 200_000, "train/return", 1.0)], about=about, timing=timing)
    run = collected(folder)["runs"][0]
    told = dict(run["facts"])
    assert told["task"] == "maze"
    assert told["steps per seed"] == "200,000 of 1,000,000"
    assert (told["hardware"], told["commit"], told["versions"]) == ("cuda:0", "0123456789", "jax 0.8")
    assert told["time"] == "2 min"
    assert list(run["time"]["phases"].values()) == [5.0, 60.0, 60.0]  # learning starts at step 100,000
    assert run["time"]["speed"] == [1666.7, 1666.7]


def test_endings_are_shares_of_the_last_evaluations(tmp_path):
    shares = {"success": 0.5, "failed_stuck": 0.3, "failed_out_of_time": 0.2}
    rows = [(0, step, f"eval/{name}", value if step else 0.0) for name, value in shares.items() for step in (0, 1000)]
    rows += [(0, step, "eval/return", 0.0) for step in (0, 1000)]
    told = collected(written(tmp_path / "a", rows))["groups"][0]["endings"]
    assert told == {"success": 0.5, "stuck": 0.3, "out of time": 0.2}
    some = [row for row in rows if "failed" not in row[2]]
    told = collected(written(tmp_path / "b", some))["groups"][0]["endings"]
    assert told == {"success": 0.5, "no success, cause not logged": 0.5}
    assert collected(written(tmp_path / "c", RETURNS))["groups"][0]["endings"] is None


def test_numbers_that_are_not_finite_leave_a_gap_and_a_reason(tmp_path):
    rows = [(0, 0, "eval/return", "nan"), (0, 10, "eval/return", 1.0)]
    content = collected(written(tmp_path / "run", rows))
    assert content["groups"][0]["charts"]["eval/return"]["middle"] == [None, 1.0]
    assert content["comparison"] is None
    assert "is no finite number" in content["refusals"][0]
    page.as_json(content)  # which refuses what is no JSON


def test_a_damaged_folder_is_shown_as_far_as_it_can_be_read(tmp_path):
    whole = written(tmp_path / "whole", RETURNS, "hiro", timing=[(0, 1.0, 1.0)])
    cut = written(tmp_path / "cut", RETURNS, timing=[(0, 1.0, 1.0)])
    (cut / "config.json").write_text('{"config": {"ta')
    (cut / "metrics.csv").write_text("seed,step,name,value\n0,0,eval/return,1.5\n0,10,eval/return,2.")
    (cut / "timing.csv").unlink()
    content = collected(whole, cut)
    assert [(group["task"], group["label"]) for group in content["groups"]] == [("maze", "hiro"), ("unknown task", "cut")]
    assert content["groups"][1]["charts"]["eval/return"]["middle"] == [1.5]
    assert len(content["problems"]) == 3
    for problem, words in zip(
        content["problems"], ("config.json is not a readable", "ends in the middle of a line", "has no timing.csv"), strict=True
    ):
        assert words in problem


def test_a_folder_without_numbers_says_so(tmp_path):
    content = collected(written(tmp_path / "begun", []))
    assert any("has no numbers yet" in problem for problem in content["problems"])
    assert content["groups"][0]["charts"] == {}
    assert content["comparison"] is None


def test_true_steps_are_given_from_the_cells_that_were_visited():
    policy = types.SimpleNamespace(task=Maze(LAYOUT))
    truth = episodes._truth(policy, np.array([(1.0, 1.2), (1.0, 0.9), (3.0, 1.0)]))
    assert truth["exact"]
    assert [truth["cells"][cell] for cell in truth["from"]] == [[1, 1], [3, 1]]
    steps = np.frombuffer(base64.b64decode(truth["steps"]), "<u2").reshape(2, -1)
    assert steps[0].tolist() == [0, 1, 2, 3, 6, 5, 4]  # (1, 1), (1, 2), (1, 3), (2, 3), (3, 1), (3, 2), (3, 3)
    assert episodes._truth(types.SimpleNamespace(task=object()), np.zeros((1, 2))) is None


def test_the_network_is_sent_number_by_number():
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    sent = episodes.embedding_of(MLP((weights,), (np.ones(3, np.float32),)))
    assert sent["target"] is None
    (layer,) = sent["source"]
    assert layer["inputs"] == 2
    assert np.frombuffer(base64.b64decode(layer["weight"]), "<f4").tolist() == [0, 1, 2, 3, 4, 5]
    assert episodes.embedding_of(None) is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return with_policies(tmp_path_factory.mktemp("report") / "run", RETURNS)


def test_a_report_has_the_episodes_of_each_policy(run, tmp_path):
    path = hrac.report(run, tmp_path / "new" / "report.html", episodes=1)
    assert path.stat().st_size < 5_000_000
    content = data_of(path)
    assert content["problems"] == []
    assert [policy["seed"] for policy in content["policies"]] == [0, 1]
    policy = hrac.load(run, 1)
    episode, sketches = policy.player.watch(0)
    (sent,) = content["policies"][1]["episodes"]
    np.testing.assert_allclose(sent["positions"][:-1], policy.setup.space.phi(episode.obs))
    np.testing.assert_allclose(sent["positions"][-1], policy.setup.space.phi(episode.next_obs[-1]))
    np.testing.assert_allclose([window["target"] for window in sent["windows"]], episode.subgoal[::4], atol=1e-4)
    assert sent["maps"][0]["extent"] == list(sketches[0].extent)
    tale = tell(policy.player, "")
    assert sent["ending"] == tale.ending
    assert [(window["start"], window["arrived"]) for window in sent["windows"]] == [
        (window.start, window.arrived) for window in tale.windows
    ]


def test_the_best_policies_are_shown_by_all_commands_that_show_episodes(run, tmp_path, capsys):
    newest, best = (
        data_of(hrac.report(run, tmp_path / "r.html", episodes=1, best=wanted))["policies"] for wanted in (False, True)
    )
    assert [policy["best"] for policy in newest + best] == [None, None, 10_000, 10_000]
    assert best[0]["embedding"] != newest[0]["embedding"]
    assert cli._main(["report", str(run), "--best", "--out", str(tmp_path / "again.html")]) == 0
    assert data_of(tmp_path / "again.html")["policies"][1]["embedding"] == best[1]["embedding"]
    capsys.readouterr()
    assert cli._main(["video", str(run), "--best", "--text"]) == 0
    assert capsys.readouterr().out.startswith("maze, hrac, seed 0, best at step 10,000")
    assert cli._main(["picture", str(run), "--best", "--out", str(tmp_path / "best.png")]) == 0


def test_five_seeds_of_full_size_fit_into_five_megabytes(run, tmp_path):
    steps, sizes = range(0, 1_000_000, 10_000), (2, 128, 128, 128, 32)
    names = [name for metrics in data.SECTIONS.values() for name in metrics]
    rows = [(seed, step, name, np.sin(seed + step)) for seed in range(5) for step in steps for name in names]
    (policy,) = data_of(hrac.report(run, tmp_path / "small.html", episodes=1))["policies"][:1]
    pairs = list(itertools.pairwise(sizes))
    network = MLP(tuple(map(np.ones, pairs)), tuple(np.ones(outputs) for _, outputs in pairs))
    played = [policy | {"seed": seed, "embedding": episodes.embedding_of(network)} for seed in range(5)]
    text = page.page(data.collect([read(written(tmp_path / "run", rows))], played, []))
    assert 2_000_000 < len(text) < 5_000_000


def test_a_policy_that_cannot_be_read_is_named_and_the_others_are_shown(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "policy" / "seed-0.safetensors").write_bytes(b"damaged")
    content = data_of(hrac.report(copy, tmp_path / "report.html", episodes=1))
    assert [policy["seed"] for policy in content["policies"]] == [1]
    assert any("seed-0.safetensors" in problem for problem in content["problems"])


def damaged(content, rng):
    """A file's bytes with one damage of some kind."""
    at = int(rng.integers(len(content)))
    noise = rng.bytes(int(rng.integers(1, 9)))
    match rng.integers(4):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + noise + content[at:]
        case 2:
            return content[:at] + noise + content[at + len(noise) :]
        case _:
            return content[:at] + content[at + 20 :]


@pytest.mark.parametrize("cases", [25, pytest.param(1000, marks=pytest.mark.stress)])
def test_no_damage_stops_a_report(run, tmp_path, cases):
    rng, copy = np.random.default_rng(cases), tmp_path / "copy"
    shutil.copytree(run, copy)
    names = [path.relative_to(run) for path in sorted(run.rglob("*")) if path.is_file()]
    for _ in range(cases):
        name = names[rng.integers(len(names))]
        (copy / name).write_bytes(damaged((run / name).read_bytes(), rng))
        content = data_of(hrac.report(copy, tmp_path / "report.html", episodes=0))
        assert len(content["groups"]) == 1
        (copy / name).write_bytes((run / name).read_bytes())


def test_a_task_without_a_map_has_no_player(run, tmp_path, monkeypatch):
    from hrac.worlds.episodes import Player

    watch = Player.watch
    monkeypatch.setattr(Player, "watch", lambda self, seed, look: (watch(self, seed)[0], []))
    content = data_of(hrac.report(run, tmp_path / "report.html", episodes=1))
    assert content["policies"] == []
    assert "maze has no map" in content["problems"][0]


def test_an_environment_that_breaks_costs_its_episodes_only(run, tmp_path, monkeypatch):
    from hrac.worlds.episodes import Player

    def breaks(self, seed, look):
        raise RuntimeError("the robot is gone")

    monkeypatch.setattr(Player, "watch", breaks)
    content = data_of(hrac.report(run, tmp_path / "report.html"))
    assert content["problems"] == [f"{run}, seed 0: no episode could be played: RuntimeError: the robot is gone"]
    assert content["groups"][0]["charts"]["eval/return"]["middle"] == [2.5, 2.5]


def test_names_cannot_end_the_data_or_run_a_script(tmp_path):
    evil = '</script><img src=x onerror="alert(1)"><!--'
    folder = renamed(written(tmp_path / "<b>run", RETURNS), task=evil, method=evil)
    text = hrac.report(folder, tmp_path / "report.html").read_text()
    assert "<img" not in text
    assert text.count("</script>") == 3
    assert data_of(tmp_path / "report.html")["groups"][0]["task"] == evil


def test_only_the_scripts_of_the_package_may_run(tmp_path):
    text = hrac.report(written(tmp_path / "run", RETURNS), tmp_path / "report.html").read_text()
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    allowed = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    assert len(scripts) == 2
    for script in scripts:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in allowed
    assert "default-src 'none'" in allowed


def test_mistakes_are_answered_in_a_sentence(tmp_path, capsys):
    with pytest.raises(ConfigError, match="at least one run folder"):
        hrac.report([])
    folder = written(tmp_path / "run", RETURNS)
    with pytest.raises(ConfigError, match=r"out must end in \.html, got 'x\.pdf'"):
        hrac.report(folder, "x.pdf")
    with pytest.raises(ConfigError, match="episodes must be from 0 to 20, got 21"):
        hrac.report(folder, tmp_path / "r.html", episodes=21)
    with pytest.raises(RunFolderError, match="nowhere does not exist: name run folders, policy files or"):
        hrac.report("nowhere", tmp_path / "r.html")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError, match=r"is no run folder: it has no config\.json"):
        hrac.report(tmp_path / "empty", tmp_path / "r.html")
    (tmp_path / "link.html").symlink_to(tmp_path / "target")
    with pytest.raises(FileError, match="is a symbolic link"):
        hrac.report(folder, tmp_path / "link.html")
    assert cli._main(["report", str(folder), "--out", str(tmp_path / "r.html")]) == 0
    assert f"written: {tmp_path / 'r.html'} (" in capsys.readouterr().out
