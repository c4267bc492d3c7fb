"""A hundred wrong tasks: each is one sentence that says what to change, and leaves nothing behind."""

import dataclasses

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import hrac
import own_worlds
from hrac.envs.base import BatchStep, Step, rows_of
from hrac.experiments.task import Task
from hrac.spaces import Box, Discrete

VECTOR = spaces.Box(-1.0, 1.0, (3,))


class Good(gym.Env):
    """Nothing is wrong with it. The variants below replace parts of it."""

    observation_space, action_space = VECTOR, spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = np.zeros(3)
        return self.at, {}

    def step(self, action):
        self.at = np.clip(self.at + 0.1 * np.array([action[0], action[1], 0.0]), -1.0, 1.0)
        return self.at, 0.0, False, False, {}


def variant(**parts):
    return type("Variant", (Good,), parts)


def steps(result):
    """An environment whose step returns this."""
    return variant(step=lambda self, action: result)


def resets(result):
    return variant(reset=lambda self, *, seed=None, options=None: result)


def fails(name, error):
    def failing(self, *arguments, **keywords):
        raise error

    return variant(**{name: failing})


def goals(**parts):
    """A goal environment whose dictionary has these spaces."""
    known = {"observation": VECTOR, "achieved_goal": VECTOR, "desired_goal": VECTOR} | parts
    space = spaces.Dict({name: part for name, part in known.items() if part is not None})
    zeros = {name: np.zeros(3) for name in space.spaces}
    return variant(
        observation_space=space, reset=lambda self, **_: (zeros, {}), step=lambda self, _: (zeros, 0.0, False, False, {})
    )


def in_hindsight(make):
    return hrac.own_task(make, name="wrong", settings={"manager.hindsight": 0.5})


class Bare:
    """No environment."""


class OnlySteps:
    """Half of an environment."""

    step = reset = observation_space = None


def without(name):
    """A class that has everything but this."""
    members = {key: value for key, value in vars(Line).items() if key not in (name, "__dict__", "__weakref__")}
    members.pop("__dataclass_fields__", None)
    return type("Partial", (), {key: value for key, value in members.items() if not key.startswith("__")})()


@dataclasses.dataclass(frozen=True)
class Line:
    """A right environment in JAX."""

    ends_on_success: bool = True
    actions = Discrete(2)
    obs_dim, context_dim, time_limit = 1, 0, 20
    position_low, position_high = (0.0,), (10.0,)

    def reset(self, key):
        return (jnp.zeros(()), jnp.zeros((), jnp.int32)), jnp.zeros(1)

    def step(self, key, state, action):
        at, time = jnp.clip(state[0] + jnp.where(action == 1, 1.0, -1.0), 0.0, 10.0), state[1] + 1
        return Step((at, time), at[None], at, at == 10.0, time >= 20)

    def exploring(self):
        return self

    def evaluation(self):
        return self


class Batch:
    """A right environment on the host."""

    obs_dim, context_dim, time_limit = 2, 1, 20
    actions = Box((-1.0,), (1.0,))
    position_low, position_high = (-5.0,), (5.0,)

    def __init__(self, num_envs):
        self.num_envs, self.at = num_envs, np.zeros((num_envs, 2))

    @property
    def context(self):
        return np.ones((self.num_envs, 1))

    def reset(self, ids=None, seeds=None):
        rows = rows_of(ids, self.num_envs)
        self.at[rows] = 0.0
        return self.at[rows]

    def step(self, actions, ids=None):
        rows = rows_of(ids, self.num_envs)
        self.at[rows, 0] = np.clip(self.at[rows, 0] + np.ravel(actions), -5.0, 5.0)
        never = np.zeros(len(rows), bool)
        return BatchStep(self.at[rows], np.zeros(len(rows)), never, never)

    def snapshot(self):
        return {"at": self.at.copy()}

    def restore(self, snapshot):
        self.at = snapshot["at"].copy()


def on_host(**parts):
    """A task on the host whose copies have these parts."""
    members = {name: part for name, part in vars(Batch).items() if not name.startswith("__")} | {"__init__": Batch.__init__}
    copies = type("Copies", (), {name: part for name, part in (members | parts).items() if part is not None})
    task = type(
        "Hosted", (), {"ends_on_success": True, "batch": lambda self, n, t=None: copies(n), "evaluation": lambda self: self}
    )
    return own_row(task())


def in_jax(**parts):
    return own_row(type("Changed", (Line,), parts)())


def own_row(world):
    from hrac.experiments.own import CONTINUOUS, DISCRETE

    discrete = not isinstance(getattr(world, "actions", Box((0.0,), (1.0,))), Box)
    return Task("wrong", "wrong", lambda changes: world, (), DISCRETE if discrete else CONTINUOUS)


def returns(**changes):
    """A step of the copies with other results."""

    def step(self, actions, ids=None):
        return Batch.step(self, actions, ids)._replace(**changes)

    return step


HERE = "experiments.test_wrong_tasks"
GOAL = {"goal": (0, 1)}
WRONG = {
    # what is given
    "a number": (lambda: 7, "must be a task, an environment's class or a maker, got int"),
    "none": (lambda: None, "must be a task, an environment's class or a maker, got NoneType"),
    "an unknown name": (lambda: "mazze", "there is no 'mazze'.*gym:ID.*module:name.*hrac.register"),
    "an id without gym": (lambda: "Pendulum-v1", "there is no 'Pendulum-v1'.*gym:ID"),
    "an unknown id": (lambda: "gym:Pendulums-v1", "Gymnasium has no environment 'Pendulums-v1'"),
    "an id of an older version": (lambda: "gym:Pendulum-v0", "no environment 'Pendulum-v0'; it has Pendulum-v1"),
    "an id of a package that is not there": (lambda: "gym:FetchKnit-v9", r"'FetchKnit-v9'; .* pip install 'hrac\[robotics\]'"),
    "an empty id": (lambda: "gym:", "Gymnasium has no environment ''"),
    "arguments that are no JSON": (lambda: "gym:Pendulum-v1?g=3", "must have its arguments as JSON"),
    "arguments that are a list": (lambda: "gym:Pendulum-v1?[3]", "must have its arguments as JSON"),
    "unknown arguments": (lambda: 'gym:Pendulum-v1?{"h": 3}', "the maker.*failed.*unexpected keyword argument 'h'"),
    "an unknown package of an id": (lambda: "gym:no_such_package:Foo-v0", "there is no module 'no_such_package'"),
    "a module of Python before an id": (lambda: "gym:antigravity:Pendulum-v1", "not in antigravity"),
    "an unknown module": (lambda: "no_such_module:task", "there is no module 'no_such_module' in .* install it"),
    "an unknown attribute": (lambda: "own_worlds:Nothing", "own_worlds has no 'Nothing'"),
    "an unknown part": (lambda: "own_worlds:Walk.nothing", "own_worlds has no 'Walk.nothing'"),
    "a module": (lambda: "own_worlds:gym", "must be a task, an environment's class or a maker, got module"),
    "a constant": (lambda: "own_worlds:__name__", "must be a task, an environment's class or a maker, got str"),
    "an environment, not its class": (Good, "cannot be made again by its id; give a function that makes it"),
    "an environment with a limit of its own": (
        lambda: gym.wrappers.TimeLimit(gym.make("Pendulum-v1"), 50),
        "cannot be made again by its id; give a function",
    ),
    "a success that fails": (
        GOAL | {"success": lambda seen, info: info["reached"]},
        "the first copy of the environment failed in its function of success: KeyError: 'reached'",
    ),
    "aiming at a target that is not shown": (
        GOAL | {"manager_only": (2,), "settings": {"manager.target_chance": 0.5}},
        "manager.target_chance must be 0 on wrong, which shows no target",
    ),
    "aiming at what only the manager sees": (
        {"goal": (0,), "manager_only": (2,), "settings": {"manager.target_chance": 0.5}},
        "manager.target_chance must be 0 on wrong, which shows no target",
    ),
    "hindsight without a target": (
        GOAL | {"settings": {"manager.hindsight": 0.5}},
        "manager.hindsight must be 0 on wrong, which shows no target, got 0.5",
    ),
    "hindsight without goals of its own": (
        GOAL | {"goal": (0,), "target": (2,), "settings": {"manager.hindsight": 0.5}},
        "manager.hindsight must be 0 on wrong, which does not tell what other targets would pay, got 0.5",
    ),
    "hindsight without compute_reward": (
        lambda: in_hindsight(own_worlds.Walk),
        r"manager.hindsight must be 0 on Walk, or give it a method compute_reward\(achieved_goal, desired_goal, info\)",
    ),
    "hindsight where the direction counts": (
        lambda: in_hindsight(own_worlds.OneSided),
        "manager.hindsight must be 0 on OneSided, whose rewards or ends for other goals depend on more than the distance",
    ),
    "ways without a target": (
        GOAL | {"settings": {"manager.way_pull": 1.0}},
        "manager.way_pull must be 0 on wrong, which shows no target, got 1",
    ),
    "ways over too many cells": (
        {"goal": (0,), "target": (2,), "cell": (1e-4,), "settings": {"manager.way_pull": 1.0}},
        "manager.way_pull must be 0 on wrong, whose goal space has [0-9,]* cells: ways are kept for at most 2,048",
    ),
    "a wrapped environment": (
        lambda: gym.wrappers.TimeAwareObservation(gym.make("Pendulum-v1")),
        "cannot be made again by its id; give a function",
    ),
    "a class that is no environment": (lambda: Bare, "a maker, got the class Bare without reset and step"),
    "a function of Python": (lambda: "os:abort", "tasks of your own are in modules of your own, not in os"),
    "a built-in function": (lambda: print, "a maker, got builtin_function_or_method"),
    "half an environment": (lambda: OnlySteps, "which has no 'action_space'"),
    "a maker that returns none": (lambda: lambda: None, "must return a Gymnasium environment, got NoneType"),
    "a maker that fails": (lambda: lambda: 1 / 0, "the maker .* failed in its call: ZeroDivisionError"),
    "a maker with arguments": (lambda: lambda seed: Good(), "the maker .* failed in its call: TypeError"),
    # spaces
    "no goal": (lambda: Good, r"goal: name the numbers of the observation .* from 0 to 2"),
    "pictures": (
        lambda: variant(observation_space=spaces.Box(0, 255, (8, 8, 3))),
        "must be a Box of one axis.*FlattenObservation",
    ),
    "a tuple": (lambda: variant(observation_space=spaces.Tuple((VECTOR,))), "must be a Box of one axis"),
    "text": (lambda: variant(observation_space=spaces.Text(4)), "must be a Box of one axis"),
    "no space": (lambda: variant(observation_space=None), "observation_space must be a Box of one axis .* got None"),
    "a box of no numbers": (lambda: variant(observation_space=spaces.Box(0, 1, (0,))), "must be a Box of one axis"),
    "a dictionary without a goal": (lambda: goals(desired_goal=None), "a dictionary without 'desired_goal'"),
    "a dictionary without an achieved goal": (lambda: goals(achieved_goal=None), "a dictionary without 'achieved_goal'"),
    "a dictionary without an observation": (lambda: goals(observation=None), "a dictionary without 'observation'"),
    "goals of two sizes": (lambda: goals(desired_goal=spaces.Box(0, 1, (2,))), "must have the same size, got 3 and 2"),
    "a goal that is a picture": (
        lambda: goals(achieved_goal=spaces.Box(0, 1, (2, 2))),
        r"observation_space\['achieved_goal'\]",
    ),
    "a goal function for a goal environment": (
        lambda: hrac.own_task(own_worlds.Walk, name="wrong", goal=own_worlds.column),
        "goal: leave it out: the environment has an achieved_goal and a desired_goal of its own",
    ),
    "what only the manager sees of a goal environment": (
        lambda: hrac.own_task(own_worlds.Walk, name="wrong", manager_only=(0,)),
        "manager_only: leave it out",
    ),
    "two discrete actions at once": (
        lambda: variant(action_space=spaces.MultiDiscrete([2, 2])),
        "action_space must be a Box of one axis or Discrete, got MultiDiscrete",
    ),
    "actions of whole numbers": (
        lambda: variant(action_space=spaces.Box(0, 3, (2,), dtype=np.int64)),
        "action_space must be a Box of floating-point numbers or Discrete",
    ),
    "one choice": (lambda: variant(action_space=spaces.Discrete(1)), "action_space must have at least 2 choices"),
    "actions without bounds": (lambda: variant(action_space=spaces.Box(-np.inf, np.inf, (2,))), "finite bounds.*RescaleAction"),
    "actions without room": (lambda: variant(action_space=spaces.Box(1.0, 1.0, (2,))), "finite bounds, low below high"),
    "actions in a table": (lambda: variant(action_space=spaces.Box(-1, 1, (2, 2))), "action_space must be a Box of one axis"),
    "no actions": (lambda: variant(action_space=spaces.Box(-1, 1, (0,))), "action_space must be a Box of one axis"),
    # reset and step
    "reset fails": (lambda: fails("reset", KeyError("motor")), "the first copy .* failed in reset: KeyError: 'motor'"),
    "step fails": (lambda: fails("step", OSError("unplugged")), "the first copy .* failed in step: OSError: unplugged"),
    "step ends the program": (lambda: fails("step", SystemExit(3)), "the first copy .* failed in step: SystemExit: 3"),
    "a maker of a class": (lambda: lambda: Good, "make must return an environment, got the class Good; call it"),
    "reset without a seed": (lambda: variant(reset=lambda self: (np.zeros(3), {})), "failed in reset: TypeError"),
    "reset returns an observation": (lambda: resets(np.zeros(3)), r"reset must return \(observation, info\)"),
    "reset returns a list": (lambda: resets([np.zeros(3), {}]), r"reset must return \(observation, info\)"),
    "reset returns no info": (lambda: resets((np.zeros(3), None)), r"reset must return \(observation, info\)"),
    "a longer first observation": (lambda: resets((np.zeros(4), {})), "observation of reset must be 3 numbers"),
    "a nested first observation": (lambda: resets((np.zeros((3, 1)), {})), "observation of reset must be 3 numbers"),
    "a first observation of text": (lambda: resets((np.array(["a", "b", "c"]), {})), "observation of reset must be 3 numbers"),
    "no first observation": (lambda: resets((None, {})), "observation of reset must be 3 numbers"),
    "a first observation that is no number": (lambda: resets((np.full(3, np.nan), {})), "observation of reset must be finite"),
    "step returns four": (lambda: steps((np.zeros(3), 0.0, False, {})), r"step must return \(observation, reward, terminated"),
    "step returns none": (lambda: steps(None), r"step must return \(observation, reward, terminated"),
    "a shorter observation": (lambda: steps((np.zeros(2), 0.0, False, False, {})), "observation of step must be 3 numbers"),
    "an infinite observation": (
        lambda: steps((np.full(3, np.inf), 0.0, False, False, {})),
        "observation of step must be finite",
    ),
    "no reward": (lambda: steps((np.zeros(3), None, False, False, {})), "one finite number as the reward, got None"),
    "two rewards": (lambda: steps((np.zeros(3), np.zeros(2), False, False, {})), "one finite number as the reward"),
    "a reward that is no number": (
        lambda: steps((np.zeros(3), np.nan, False, False, {})),
        "one finite number as the reward, got nan",
    ),
    "a complex reward": (lambda: steps((np.zeros(3), 1j, False, False, {})), "one finite number as the reward"),
    "terminated is a number": (lambda: steps((np.zeros(3), 0.0, 0, False, {})), "True or False as terminated, got 0"),
    "truncated is none": (lambda: steps((np.zeros(3), 0.0, False, None, {})), "True or False as truncated, got None"),
    "info is a list": (
        lambda: steps((np.zeros(3), 0.0, False, False, [])),
        r"step must return \(observation, reward, terminated",
    ),
    "a goal that does not move": (
        lambda: steps((np.zeros(3), 0.0, False, False, {})),
        "goal_low must be below goal_high.*does not move",
    ),
    # what is said about it
    "a goal beyond the observation": ({"goal": (0, 3)}, r"different indices of the observation, from 0 to 2, got \[0, 3\]"),
    "a negative goal": ({"goal": (-1,)}, "different indices of the observation"),
    "a goal named twice": ({"goal": (1, 1)}, "different indices of the observation"),
    "an empty goal": ({"goal": ()}, "goal: name at least one number"),
    "a goal that is a number": ({"goal": 1}, "goal must be indices of the observation"),
    "a goal that is a name": ({"goal": "x"}, "goal must be indices of the observation"),
    "a goal between indices": ({"goal": (0.5,)}, "goal must be indices of the observation"),
    "a goal function that fails": ({"goal": lambda seen: seen["x"]}, "goal: the function failed: IndexError"),
    "a goal function of nothing": ({"goal": lambda seen: None}, "goal: the function must return a vector of finite numbers"),
    "a goal function of nan": ({"goal": lambda seen: [np.nan]}, "goal: the function must return a vector of finite numbers"),
    "a goal function of text": ({"goal": lambda seen: ["a"]}, "goal: the function failed: ValueError"),
    "a goal function of a table": ({"goal": lambda seen: np.zeros((2, 2))}, "goal: the function must return a vector"),
    "a goal function of changing size": (
        {"goal": lambda seen: seen[: 1 + int(seen[0] != 0)]},
        "vectors of one size, got 1 and 2 numbers",
    ),
    "a goal that only the manager sees": (
        {"goal": (0, 1), "manager_only": (1,)},
        "goal, target and manager_only must be different indices",
    ),
    "manager_only beyond the observation": (
        {"goal": (0, 1), "manager_only": (5,)},
        "goal, target and manager_only must be different",
    ),
    "a target of another size": ({"goal": (0, 1), "target": (2,)}, "target must be a point of goal space, 2 numbers, got 1"),
    "a target that is the goal": ({"goal": (0, 1), "target": (1, 2)}, "goal, target and manager_only must be different"),
    "low of another size": (GOAL | {"goal_low": (0.0,)}, "goal_low must be 2 finite numbers"),
    "high of another size": (GOAL | {"goal_high": (1.0, 1.0, 1.0)}, "goal_high must be 2 finite numbers"),
    "an infinite bound": (GOAL | {"goal_high": (np.inf, 1.0)}, "goal_high must be 2 finite numbers"),
    "bounds the wrong way": (GOAL | {"goal_low": (1.0, 1.0), "goal_high": (-1.0, -1.0)}, "goal_low must be below goal_high"),
    "equal bounds": (GOAL | {"goal_low": (1.0, 0.0), "goal_high": (1.0, 1.0)}, "goal_low must be below goal_high"),
    "bounds of text": (GOAL | {"goal_low": ("a", "b")}, "goal_low must be numbers, one per coordinate"),
    "bounds that leave all out": (
        GOAL | {"goal_low": (5.0, 5.0), "goal_high": (6.0, 6.0), "cell": (0.1, 0.1)},
        "bounds of goal space, .*, leave out 100% of the points .* widen them",
    ),
    "a cell of another size": (GOAL | {"cell": (1.0,)}, "cell must be 2 finite numbers"),
    "a cell of no size": (GOAL | {"cell": (0.0, 1.0)}, "cell must be positive"),
    "a negative cell": (GOAL | {"cell": (-1.0, 1.0)}, "cell must be positive"),
    "a cell that is a number": (GOAL | {"cell": 1.0}, "cell must be numbers, one per coordinate"),
    "one cell": (GOAL | {"cell": (50.0, 50.0)}, "puts all of goal space into one cell.*try"),
    "a million cells": (GOAL | {"cell": (1e-6, 1e-6)}, "makes .* cells of goal space, too many to visit; try"),
    "cells that nobody leaves": (
        {"goal": lambda seen: seen[:2] + 7.0, "goal_low": (0.0, 0.0), "goal_high": (90.0, 90.0), "cell": (20.0, 20.0)},
        "the goal does not move under random actions: all points are in one cell",
    ),
    "a limit of no steps": (GOAL | {"time_limit": 0}, "time_limit must be a whole number of steps from 1 up, got 0"),
    "a limit of half a step": (GOAL | {"time_limit": 2.5}, "time_limit must be a whole number of steps"),
    "success that is a number": (GOAL | {"success": 3}, "success must be the name of an entry of info, or a function"),
    "a setting that does not exist": (GOAL | {"settings": {"manager.speed": 3}}, r"manager\.speed: no such field"),
    "the other learner": (
        GOAL | {"settings": {"controller.learner": "a2c"}},
        "controller.learner must be 'td3', because actions are continuous",
    ),
    "a range of another size": (
        GOAL | {"settings": {"manager.subgoal_range": (1.0, 1.0, 1.0)}},
        "manager.subgoal_range must be one number or 2, one per coordinate",
    ),
    "noise of another size": (
        GOAL | {"settings": {"manager.noise_sigma": (1.0,)}},
        "manager.noise_sigma must be one number or 2, one per coordinate",
    ),
    # environments by protocol
    "in JAX without a step": (lambda: own_row(without("step")), "Partial has no .*step.*Environment must have"),
    "in JAX without evaluation": (lambda: own_row(without("evaluation")), "Partial has no .*evaluation.*Environment must have"),
    "a Gymnasium environment in a Task": (lambda: own_row(Good()), "Variant|Good has no .*use hrac.own_task"),
    "in JAX with bounds as arrays": (lambda: in_jax(position_low=np.zeros(1)), "position_low must be a tuple of numbers"),
    "in JAX with bounds the wrong way": (lambda: in_jax(position_low=(11.0,)), "position_low must be below position_high"),
    "in JAX with infinite bounds": (lambda: in_jax(position_high=(np.inf,)), "position_high must be finite"),
    "in JAX with positions outside": (
        lambda: in_jax(position_low=(-20.0,), position_high=(-10.0,)),
        "leave out 100% of the points",
    ),
    "on the host without copies": (
        lambda: own_row(
            type("Hosted", (), {"ends_on_success": True, "batch": lambda s, n, t=None: None, "evaluation": lambda s: s})()
        ),
        "batch must return an hrac.envs.base.BatchEnvironment, got NoneType",
    ),
    "on the host without a snapshot": (lambda: on_host(snapshot=None), "got Copies without snapshot"),
    "on the host with a longer observation": (
        lambda: on_host(obs_dim=3),
        r"reset: the array must have shape \(4, 3\), got \(4, 2\)",
    ),
    "on the host with another context": (lambda: on_host(context_dim=2), r"context: the array must have shape \(4, 2\)"),
    "on the host with a limit of none": (lambda: on_host(time_limit=0), "time_limit must be a whole number from 1 up, got 0"),
    "on the host with rewards that are no numbers": (
        lambda: on_host(step=returns(reward=np.full(4, np.nan))),
        "reward of step: all numbers must be finite, got nan",
    ),
    "on the host with flags as numbers": (
        lambda: on_host(step=returns(terminated=np.zeros(4))),
        "terminated of step must be 4 booleans",
    ),
    "on the host with a snapshot of nothing": (
        lambda: on_host(restore=lambda self, snapshot: setattr(self, "at", self.at + 1.0)),
        "restore must continue exactly from a snapshot",
    ),
    "on the host and broken": (
        lambda: on_host(step=lambda self, actions, ids=None: 1 / 0),
        "the environment failed: ZeroDivisionError",
    ),
}


def test_there_are_a_hundred():
    assert len(WRONG) >= 100


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_task_is_one_sentence_that_says_what_to_change(name, tmp_path, monkeypatch):
    given, message = WRONG[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hrac.experiments.tasks, "TASKS", dict(hrac.experiments.tasks.TASKS))
    with pytest.raises(hrac.HracError, match=message) as caught:
        _train(given, tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def _train(given, out):
    if isinstance(given, dict):
        return hrac.train(hrac.own_task(Good, **({"name": "wrong"} | given)), out=out, steps=20_000)
    thing = given()
    if isinstance(thing, type) and issubclass(thing, Good) and thing is not Good:
        space = thing.observation_space
        return hrac.train(hrac.own_task(thing, name="wrong", goal=None if isinstance(space, spaces.Dict) else (0, 1)), out=out)
    return hrac.train(thing, out=out, steps=20_000)
