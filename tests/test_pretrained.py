import numpy as np
import pytest

import hrac
from hrac import cli
from hrac.api import Evaluation


def test_the_ant_that_comes_with_the_package_finds_its_way(capsys):
    (evaluation,) = hrac.evaluate(hrac.pretrained("ant-maze"), episodes=10)
    assert evaluation.means["eval/success"] >= 0.8  # it was 100 % of 100 episodes
    assert evaluation.means["eval/episode_length"] < 500
    assert cli._main(["eval", "ant-maze", "--pretrained", "--episodes", "1"]) == 0
    assert "success" in capsys.readouterr().out


def test_the_other_ants_do_what_they_learned():
    (sparse,) = hrac.evaluate(hrac.pretrained("ant-maze-sparse"), episodes=20)
    assert sparse.means["eval/success"] >= 0.9  # it was 99 % of 100 episodes
    (gather,) = hrac.evaluate(hrac.pretrained("ant-gather"), episodes=20)
    assert gather.means["eval/return"] >= 3.5  # it was 4.72 over 100 episodes
    assert "success" not in str(gather)
    (key_chest,) = hrac.evaluate(hrac.pretrained("key-chest"), episodes=20)
    assert key_chest.means["eval/return"] >= 5.9  # it was 6.00 over 100 episodes
    (maze,) = hrac.evaluate(hrac.pretrained("maze"), episodes=20)
    assert maze.means["eval/return"] >= 5.7  # it was 5.80 over 100 episodes
    causes = [sparse.means[f"eval/{name}"] for name in ("success", "failed_fallen", "failed_stuck", "failed_out_of_time")]
    assert sum(causes) == pytest.approx(1.0)
    assert sparse.means["eval/subgoal_length"] > sparse.means["eval/window_displacement"] > 0.3


def test_an_evaluation_says_why_episodes_failed():
    means = {"eval/return": 0.5, "eval/episode_length": 9.0, "eval/fallen": 0.25}
    returns = np.zeros(4)
    assert str(Evaluation(3, 4, returns, means)) == (
        "seed 3: return 0.500 +- 0.000, length 9.0, 25.0% on their backs at the end (4 episodes)"
    )
    means |= {"eval/success": 0.5, "eval/failed_fallen": 0.25, "eval/failed_stuck": 0.0, "eval/failed_out_of_time": 0.25}
    assert str(Evaluation(3, 4, returns, means)) == (
        "seed 3: return 0.500 +- 0.000, success 50.0%, length 9.0, failed: 25.0% on the back, 25.0% out of time (4 episodes)"
    )


def test_what_does_not_come_with_the_package_is_said():
    with pytest.raises(hrac.RunFolderError, match=r"for 'ant-w' comes with the package\. There are: ant-gather, ant-maze, "):
        hrac.pretrained("ant-w")
