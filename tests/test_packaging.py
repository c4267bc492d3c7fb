"""What the package says of itself."""

import re
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

import hrac

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_all_files_name_one_version():
    assert hrac.__version__ == PROJECT["version"]
    assert f"\nversion: {hrac.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{hrac.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_package_is_marked_as_typed():
    assert (resources.files("hrac") / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_readme_cites_the_paper_as_the_citation_file_does():
    cited = (ROOT / "CITATION.cff").read_text().partition("references:")[2]
    bibtex = re.search(r"```bibtex\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    assert re.search(r"title: (.*)", cited)[1] in bibtex
    authors = re.findall(r"family-names: (\w+), given-names: (\w+)", cited)
    assert " and ".join(f"{family}, {given}" for family, given in authors) in bibtex


WITHOUT_MUJOCO = "import sys; sys.modules['mujoco'] = None"
OLD_MUJOCO = "import sys, types; sys.modules['mujoco'] = types.SimpleNamespace(__version__='3.3.0')"
NONE = "the ants need MuJoCo 4 or newer, none is installed: pip install 'hrac[ants]'"
OLD = "the ants need MuJoCo 4 or newer, 3.3.0 is installed: pip install 'hrac[ants]'"


def after(first, *arguments):
    """Runs the program in a process in which something else has happened first."""
    code = f"{first}\nimport sys\nsys.argv[1:] = {list(arguments)}\nfrom hrac.cli import main\nmain()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("command", [["train", "ant-maze"], ["eval", "ant-gather", "--pretrained"]])
@pytest.mark.parametrize(("first", "message"), [(WITHOUT_MUJOCO, NONE), (OLD_MUJOCO, OLD)], ids=["none", "old"])
def test_the_ants_say_in_one_line_that_they_need_mujoco(first, message, command):
    ended = after(first, *command)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"error: {message}\n")


@pytest.mark.parametrize(
    "made",
    [
        "gymnasium.make('hrac/AntMaze-v0')",
        "gymnasium.make_vec('hrac/AntGather-v0', num_envs=2)",
        "hrac.evaluate('ant-maze', episodes=1)",
    ],
)
def test_python_says_so_too(made):
    code = f"{WITHOUT_MUJOCO}\nimport gymnasium, hrac\ntry:\n    {made}\nexcept hrac.HracError as error:\n    print(error)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == (f"{NONE}\n", "")


def test_all_but_the_ants_works_without_mujoco_and_tensorboard(tmp_path):
    assert "ant-maze" in after(WITHOUT_MUJOCO, "list").stdout
    neither = f"{WITHOUT_MUJOCO}; sys.modules['tensorboard'] = None"
    ended = after(neither, "train", "point-maze", "--out", str(tmp_path / "run"), *SMALL)
    assert ended.returncode == 0, ended.stderr
    assert "finished at step 600" in ended.stdout
    assert f"tensorboard --logdir {tmp_path / 'run'}   (after pip install 'hrac[tensorboard]')\n" in ended.stdout


SMALL = [
    *("--steps", "600", "--k", "4", "--manager.hidden", "16", "--controller.hidden", "16", "--adjacency.hidden", "16"),
    *("--manager.buffer-windows", "200", "--manager.start-fraction", "0.2", "--manager.batch-size", "16"),
    *("--adjacency.pretrain-env-steps", "400", "--adjacency.pretrain-epochs", "1"),
    *("--training.round-env-steps", "40", "--training.eval-every-env-steps", "200", "--training.eval-episodes", "2"),
]


WINDOWS = """
import enum, importlib, os, pkgutil, signal, subprocess, sys
import filelock, hrac, matplotlib.pyplot
for module in pkgutil.walk_packages(hrac.__path__, "hrac."):  # so that all libraries are imported, as what they are
    if module.name != "hrac.__main__":
        importlib.import_module(module.name)
for name in [name for name in sys.modules if name.partition(".")[0] == "hrac"]:
    del sys.modules[name]
sys.platform = "win32"
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "fchmod", "sysconf", "getuid", "fork", "setsid", "killpg"):
    delattr(os, name)
for name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL", "SIGALRM"):
    delattr(signal, name)
signal.Signals = enum.IntEnum("Signals", {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM})
signal.CTRL_BREAK_EVENT, subprocess.CREATE_NEW_PROCESS_GROUP = 1, 512
os.O_BINARY = os.O_NOINHERIT = 0
"""


def test_nothing_is_needed_that_windows_does_not_have(tmp_path):
    """A likeness of Windows: without the modules, functions and signals that it lacks. What it does otherwise is not shown."""
    assert "key-chest" in after(WINDOWS, "list").stdout
    run = tmp_path / "run"
    ended = after(WINDOWS, "train", "point-maze", "--out", str(run), *SMALL)
    assert ended.returncode == 0, ended.stderr
    ended = after(WINDOWS, "train", "--resume", str(run), "--steps", "800")
    assert ended.returncode == 0, ended.stderr
    assert "finished at step 800" in ended.stdout


def test_a_lock_and_links_are_respected_without_the_means_of_unix(tmp_path):
    (tmp_path / "precious").write_text("x")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".lock").symlink_to(tmp_path / "precious")
    checks = f"""
from pathlib import Path
from hrac.folder import lock
folder = Path({str(tmp_path)!r})
with lock.locked(folder):
    print(lock.held(folder))
    try:
        with lock.locked(folder):
            print("twice")
    except lock.BusyFolderError as error:
        print(error)
print(lock.held(folder))
try:
    lock.held(folder / "linked")
except lock.FileError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", WINDOWS + checks], capture_output=True, text=True)
    link = f"{tmp_path / 'linked' / '.lock'} is a symbolic link: it is not followed"
    assert ended.stdout.splitlines() == ["True", f"another process trains in {tmp_path}", "False", link], ended.stderr
