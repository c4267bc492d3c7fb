"""Errors that a user can mend have one base class; all others are bugs and show where they come from."""

import importlib
import pkgutil

import pytest

import hrac
from hrac import cli
from hrac.errors import HracError


def test_all_error_classes_of_the_package_have_one_base():
    for module in pkgutil.walk_packages(hrac.__path__, "hrac."):
        if module.name != "hrac.__main__":
            importlib.import_module(module.name)
    own = {cls for cls in _subclasses(Exception) if cls.__module__.startswith("hrac.")}
    assert len(own) > 8
    assert {cls for cls in own if not issubclass(cls, HracError)} == set()


def _subclasses(cls):
    return {cls}.union(*(_subclasses(sub) for sub in type.__subclasses__(cls)))


@pytest.mark.parametrize("bug", [RuntimeError, RecursionError, type("SomeError", (ValueError,), {}), KeyError])
def test_a_bug_shows_its_traceback(bug, monkeypatch):
    def broken(_):
        raise bug("internal")

    monkeypatch.setitem(cli.COMMANDS, "list", broken)
    with pytest.raises(bug):
        cli._main(["list"])


@pytest.mark.parametrize("error", [HracError("mend it"), OSError("mend it")])
def test_what_a_user_can_mend_is_one_line(error, monkeypatch, capsys):
    def refused(_):
        raise error

    monkeypatch.setitem(cli.COMMANDS, "list", refused)
    assert cli._main(["list"]) == 2
    assert capsys.readouterr().err == "error: mend it\n"
