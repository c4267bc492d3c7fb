"""Names of tasks that are not in the package: `gym:ID` for Gymnasium's, `module:name` for what a module of yours defines.

A run folder keeps such a name, so that another process finds the task again. It imports the module to do so.
"""

import contextlib
import contextvars
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from hrac.envs.base import Environment, HostTask
from hrac.envs.look import TaskError
from hrac.experiments import own
from hrac.experiments.known import KNOWN
from hrac.experiments.task import Task

GYM = "gym:"
PLUGINS = ("gymnasium_robotics", "minigrid", "ale_py")
"""Packages whose environments are registered when they are imported."""
ROBOTICS = ("PointMaze_", "AntMaze_", "Fetch")
"""How some names of Gymnasium-Robotics begin."""

_typed: set[str] = set()
"""Names that the user gave, not a file."""
_importing: contextvars.ContextVar[str | None] = contextvars.ContextVar("importing", default=None)


def is_reference(name: str) -> bool:
    """Whether a name says where a task is found."""
    return ":" in name


def folder_name(name: str) -> str:
    """A task's name as a part of a folder's name."""
    return re.sub(r"[^\w.-]+", "-", name.removeprefix(GYM))[:60]


@functools.cache
def find(name: str) -> Task:
    """The task that a name refers to; raises `TaskError`."""
    if name.startswith(GYM):
        return _gymnasium_task(name)
    module, _, attribute = name.rpartition(":")
    found = _imported(module, name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise TaskError(f"task: {module} has no {attribute!r}; {name} must name a task, an environment's class or a maker")
        found = getattr(found, part)
    if inspect.isfunction(found) and name not in _typed and not _in_this_folder(found):
        raise TaskError(
            f"task: {name} is a function of an installed package, and a run folder names it: such functions are called only "
            "from this folder; name an environment's class or a task instead, or register it first (hrac.register)"
        )
    return as_task(found, name)


def trust(name: str) -> None:
    """The user has given this name, so that what it names may be called, whatever it is."""
    _typed.add(name)


def _in_this_folder(function: Any) -> bool:
    file = Path(inspect.getfile(function)).resolve()
    return file.is_relative_to(Path.cwd().resolve()) and "site-packages" not in file.parts


def as_task(thing: Any, name: str) -> Task:
    """A task, an environment in JAX, a Gymnasium class or a function that makes an environment, as a task of this name."""
    if isinstance(thing, Task):
        return dataclasses.replace(thing, name=name)
    if isinstance(thing, Environment | HostTask) and not isinstance(thing, type):
        return Task(name, "an environment of your own", lambda changes: thing, (), _settings_of(thing))
    if isinstance(thing, gymnasium.Env | VectorEnv):
        raise TaskError(f"task: give the class of {type(thing).__name__}, or a function that makes it: more copies are needed")
    environment = isinstance(thing, type) and hasattr(thing, "reset") and hasattr(thing, "step")
    if not (environment or inspect.isfunction(thing) or isinstance(thing, functools.partial)):
        kind = f"the class {thing.__name__} without reset and step" if isinstance(thing, type) else type(thing).__name__
        raise TaskError(f"task: {name} must be a task, an environment's class or a maker, got {kind}")
    return own.task(thing, name=name, summary=(inspect.getdoc(thing) or "an environment of your own").splitlines()[0])


def _settings_of(env: Environment | HostTask) -> dict[str, Any]:
    """Settings that suit the actions of an environment."""
    one = env.batch(1, 1) if isinstance(env, HostTask) else env
    return own.settings_for(one.actions)


def reference_of(thing: Any) -> str | None:
    """The name under which another process finds a task, a class or a function; None if there is no such name."""
    if isinstance(thing, gymnasium.Env):
        return _gymnasium_name(thing)
    if isinstance(thing, type) or inspect.isfunction(thing):
        if "<" in thing.__qualname__:
            return None
        places = [(sys.modules.get(thing.__module__), thing.__qualname__)]
    else:
        modules = [module for module in list(sys.modules.values()) if getattr(module, "__file__", None)]
        places = [(module, name) for module in modules for name, value in list(vars(module).items()) if value is thing]
    names = [f"{module}:{name}" for place, name in places if place is not None and (module := _module_name(place))]
    return min(names, key=len, default=None)


def _module_name(module: Any) -> str | None:
    """The name by which a module can be imported again; that of a script is the name of its file."""
    if module.__name__ != "__main__":
        return str(module.__name__)
    if getattr(module, "__spec__", None) is not None:
        return str(module.__spec__.name)
    file = getattr(module, "__file__", None)
    return Path(file).stem if file and Path(file).suffix == ".py" else None


def _gymnasium_name(env: gymnasium.Env[Any, Any]) -> str | None:
    spec = env.spec
    if spec is None or spec.additional_wrappers:
        return None
    if spec.max_episode_steps != gymnasium.spec(spec.id).max_episode_steps:  # a limit of its own is not in the name
        return None
    keywords = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
    try:
        return f"{GYM}{spec.id}" + (f"?{json.dumps(keywords, sort_keys=True)}" if keywords else "")
    except TypeError:
        return None


def refuse_while_importing() -> None:
    """Raise if a module starts a training while it is imported for its task."""
    if (name := _importing.get()) is not None:
        module = name.rpartition(":")[0]
        raise TaskError(
            f'task: {module} starts a training when it is imported; put that under `if __name__ == "__main__":` so that {name} '
            "can be found"
        )


@contextlib.contextmanager
def _importing_for(name: str) -> Iterator[None]:
    token = _importing.set(name)
    try:
        yield
    finally:
        _importing.reset(token)


def _imported(module: str, name: str) -> Any:
    if (first := module.partition(".")[0]) in (*sys.stdlib_module_names, "hrac"):
        raise TaskError(f"task: {name}: tasks of your own are in modules of your own, not in {first}")
    here = str(Path.cwd())
    if here not in sys.path:  # a command has not put it there, unlike `python -m`
        sys.path.append(here)
    try:
        with _importing_for(name):
            return importlib.import_module(module)
    except TaskError:
        raise
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            raise TaskError(
                f"task: {name}: there is no module {error.name!r} in {here} or among the installed packages; go to the folder "
                "that has it, or install it"
            ) from None
        raise TaskError(f"task: {module} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise TaskError(f"task: {module} cannot be imported: {type(error).__name__}: {error}") from error


def _gymnasium_task(name: str) -> Task:
    place, _, text = name.removeprefix(GYM).partition("?")
    package, _, identity = place.rpartition(":")
    if package:
        _imported(package, name)
    try:
        keywords = json.loads(text) if text else {}
        if not isinstance(keywords, dict):
            raise ValueError("no dictionary")
    except ValueError:
        raise TaskError(f'task: after "?" {name} must have its arguments as JSON, such as {{"time": 3}}') from None
    make = _maker(identity, keywords)

    def make_vector(count: int) -> Any:
        mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
        try:
            return gymnasium.make_vec(identity, count, mode, autoreset_mode="Disabled", **keywords)
        except TypeError:  # it cannot be told how to reset
            return gymnasium.make_vec(identity, count, mode, **keywords)

    vector = make_vector if gymnasium.spec(identity).vector_entry_point is not None else None
    said = {"summary": f"Gymnasium's {identity}"} | KNOWN.get(identity, {})
    return own.task(make, name=name, make_vector=vector, **said)


def _maker(identity: str, keywords: dict[str, Any]) -> Callable[[], gymnasium.Env[Any, Any]]:
    """A function that makes a registered environment; raises `TaskError` if none has this id."""
    for plugin in ("", *PLUGINS):
        with contextlib.suppress(ImportError):
            if plugin:
                importlib.import_module(plugin)
        if identity in gymnasium.registry:
            break
    else:
        raise TaskError(f"task: Gymnasium has no environment {identity!r}; {_advice(identity)}")

    def make() -> gymnasium.Env[Any, Any]:
        return gymnasium.make(identity, disable_env_checker=True, **keywords)

    return make


def _advice(identity: str) -> str:
    """What to do about an id that Gymnasium does not know."""
    name, _, version = identity.rpartition("-v")
    if version.isdigit() and (others := [known for known in gymnasium.registry if known.rpartition("-v")[0] == name]):
        return f"it has {', '.join(others)}"
    if identity.startswith(ROBOTICS) and importlib.util.find_spec("gymnasium_robotics") is None:
        return "in a virtual environment of its own, pip install 'hrac[robotics]'"
    return "import its package by gym:PACKAGE:ID, or install it"
