import pytest

import hrac
from hrac import cli


def test_the_ant_that_comes_with_the_package_finds_its_way(capsys):
    (evaluation,) = hrac.evaluate(hrac.pretrained("ant-maze"), episodes=10)
    assert evaluation.means["eval/success"] >= 0.8  # it was 98 % of 100 episodes
    assert evaluation.means["eval/episode_length"] < 500
    assert cli._main(["eval", "ant-maze", "--pretrained", "--episodes", "1"]) == 0
    assert "success" in capsys.readouterr().out


def test_what_does_not_come_with_the_package_is_said():
    with pytest.raises(hrac.RunFolderError, match=r"no trained policy for 'maze' comes with the package\. There are: ant-maze"):
        hrac.pretrained("maze")
