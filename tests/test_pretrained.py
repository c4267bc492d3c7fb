import pytest

import hrac
from hrac import cli


def test_the_ant_that_comes_with_the_package_finds_its_way(capsys):
    (evaluation,) = hrac.evaluate(hrac.pretrained("ant-maze"), episodes=10)
    assert evaluation.means["eval/success"] >= 0.8  # it was 98 % of 100 episodes
    assert evaluation.means["eval/episode_length"] < 500
    assert cli._main(["eval", "ant-maze", "--pretrained", "--episodes", "1"]) == 0
    assert "success" in capsys.readouterr().out


def test_the_other_ants_do_what_they_learned():
    (sparse,) = hrac.evaluate(hrac.pretrained("ant-maze-sparse"), episodes=20)
    assert sparse.means["eval/success"] >= 0.5  # it was 76 % of 100 episodes
    (gather,) = hrac.evaluate(hrac.pretrained("ant-gather"), episodes=20)
    assert gather.means["eval/return"] >= 1.5  # it was 2.79 over 100 episodes
    assert "success" not in str(gather)


def test_what_does_not_come_with_the_package_is_said():
    with pytest.raises(hrac.RunFolderError, match=r"for 'maze' comes with the package\. There are: ant-gather, ant-maze, "):
        hrac.pretrained("maze")
