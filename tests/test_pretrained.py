import pytest

import hrac
from hrac import cli
from hrac.training import checkpoint


def test_the_ant_that_comes_with_the_package_finds_its_way(capsys):
    (evaluation,) = hrac.evaluate(hrac.pretrained("ant-maze"), episodes=10)
    assert evaluation.means["eval/success"] >= 0.7  # it was 93 % of 100 episodes
    assert evaluation.means["eval/episode_length"] < 500
    assert cli._main(["eval", "ant-maze", "--pretrained", "--episodes", "1"]) == 0
    assert "success" in capsys.readouterr().out


def test_what_does_not_come_with_the_package_is_said():
    with pytest.raises(hrac.RunFolderError, match=r"no trained policy for 'maze' comes with the package\. There are: ant-maze"):
        hrac.pretrained("maze")


def test_threads_that_suited_the_machine_of_the_training_are_not_kept():
    path = hrac.pretrained("ant-maze")
    assert checkpoint.load(path, "policy")[1]["config"]["training"]["env_threads"] == 15
    assert hrac.load(path).config.training.env_threads is None
