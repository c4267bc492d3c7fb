"""Policies: one small file per seed with what is needed to act, and the object that is loaded from it."""

import dataclasses
import functools
import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import jax
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass

from hrac import config as configs
from hrac.agents import agent as agents
from hrac.agents.decide import Actors, Setup, SubgoalState, carry_on, decide
from hrac.config import Config
from hrac.envs.base import Environment, HostTask
from hrac.envs.view import View
from hrac.folder import checkpoint, files
from hrac.folder.files import BEST, POLICIES, folder_within
from hrac.settings import STRICT
from hrac.spaces import Box, Discrete
from hrac.worlds.episodes import Player
from hrac.worlds.host import action_noise
from hrac.worlds.make import Interface, fallen_of, make_setup, setup_for

Bound: TypeAlias = Annotated[tuple[Annotated[float, Field(allow_inf_nan=False)], ...], Field(max_length=100_000)]
Indices: TypeAlias = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=100_000)]


@dataclass(frozen=True, config=STRICT)
class Translation:
    """A `View` in a file."""

    goal: Indices | None
    cell: Bound
    centre: Bound
    manager_only: Indices
    action_low: Bound | None
    action_high: Bound | None
    action_type: Literal["float16", "float32", "float64"]
    first_choice: int
    states: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    first_state: int = 0
    target: Indices | None = None


MOST_BYTES = 2_000_000_000
"""Limit for a policy file: far more than the largest possible networks."""


@dataclass(frozen=True, config=STRICT)
class EnvironmentFacts:
    """What a policy has to know of its environment to act in it."""

    choices: Annotated[int, Field(ge=2, le=1_000_000)] | None
    """Discrete actions; None: continuous ones."""
    action_low: Bound
    action_high: Bound
    obs_dim: Annotated[int, Field(ge=1, le=1_000_000)]
    context_dim: Annotated[int, Field(ge=0, le=1_000_000)]
    position_low: Bound
    position_high: Bound
    own: bool
    """Whether the environment is not one of the package's, so that observations must be translated."""
    translation: Translation | None
    """How; None: as the task says."""

    def __post_init__(self) -> None:
        if len(self.position_low) != len(self.position_high) or len(self.action_low) != len(self.action_high):
            raise ValueError("bounds have different lengths")

    @property
    def interface(self) -> Interface:
        """For the setup of an agent."""
        actions = Box(self.action_low, self.action_high) if self.choices is None else Discrete(self.choices)
        return Interface(actions, self.obs_dim, self.context_dim, self.position_low, self.position_high)

    @property
    def view(self) -> View | None:
        """The translation."""
        return None if self.translation is None else View(**dataclasses.asdict(self.translation))


ENVIRONMENT_FACTS = TypeAdapter(EnvironmentFacts)
SCORED = TypeAdapter(dict[str, Annotated[float, Field(allow_inf_nan=False)]])


def _seen(setup: Setup, view: View | None) -> dict[str, Any]:
    actions, space = setup.actions, setup.space
    box = isinstance(actions, Box)
    return {
        "choices": None if box else actions.outputs,
        "action_low": actions.low if isinstance(actions, Box) else (),
        "action_high": actions.high if isinstance(actions, Box) else (),
        "obs_dim": setup.obs_dim,
        "context_dim": space.context,
        "position_low": space.low,
        "position_high": space.high,
        "own": view is not None,
        "translation": None if view is None or callable(view.goal) or callable(view.target) else view._asdict(),
    }


def path_of(folder: Path, seed: int, best: bool = False) -> Path:
    """The path of a seed's newest or best policy in a run folder."""
    return folder / (BEST if best else POLICIES) / file_name(seed)


def file_name(seed: int) -> str:
    """The name of a seed's policy file."""
    return f"seed-{seed}.safetensors"


def save(
    folder: Path,
    actors: Actors,
    config: Config,
    setup: Setup,
    view: View | None,
    scores: Mapping[int, Mapping[str, float]] | None = None,
) -> None:
    """Write policies into a folder, from the actors of all runs: of every seed, or of those that `scores` tell something of."""
    folder_within(folder)
    for index, seed in enumerate(config.seeds):
        if scores is not None and seed not in scores:
            continue
        single = jax.tree.map(lambda leaf, i=index: leaf[i], actors)
        facts = {"seed": seed, "config": configs.to_dict(config), "seen": _seen(setup, view)}
        facts |= {} if scores is None else {"scored": dict(scores[seed])}
        checkpoint.save(folder / file_name(seed), "policy", checkpoint.flatten(tuple(single), "agent"), facts)


class Saved(NamedTuple):
    """The content of a policy file."""

    arrays: checkpoint.Arrays
    config: Config
    """Without `env_threads`."""
    seed: int
    seen: EnvironmentFacts | None
    """None: the file is from a version that did not write it."""
    scored: dict[str, float]
    """The step and the scores of the evaluation that a best policy was chosen by; empty: it is a newest one."""


def read(path: Path) -> Saved:
    """The content of a policy file. Raises `CheckpointError`."""
    arrays, facts = checkpoint.load(path, "policy", MOST_BYTES)
    with checkpoint.understanding(path):
        config = configs.replace(configs.from_dict(facts["config"]), {"training.env_threads": None})
        if type(seed := facts["seed"]) is not int or seed not in config.seeds:
            raise ValueError(f"seed {seed!r} is not one of its configuration's seeds")
        seen = ENVIRONMENT_FACTS.validate_json(json.dumps(facts["seen"])) if "seen" in facts else None
        return Saved(arrays, config, seed, seen, SCORED.validate_python(facts.get("scored", {})))


def actors_from(arrays: checkpoint.Arrays, path: Path, setup: Setup) -> Actors:
    """The saved actors, whose shapes must fit the configuration. Raises `CheckpointError`."""
    like = jax.eval_shape(lambda: agents.init(jax.random.key(0), setup).actors)  # shapes only: nothing is computed
    return Actors(*checkpoint.unflatten(arrays, tuple(like), "agent", path))


class Policy:
    """A trained agent for a plain Gymnasium loop. It counts the steps of a subgoal itself.

    Call `reset()` at the start of an episode and `act(observation)` at each step. Its environment is made only when it is
    needed: to evaluate and to draw.
    """

    def __init__(self, saved: Saved, path: Path, make: Callable[[], Environment | HostTask]) -> None:
        self.config, self.seed, self.scored, self._make = saved.config, saved.seed, saved.scored, make
        self._seen = seen = saved.seen
        self.setup = make_setup(self.task, saved.config) if seen is None else setup_for(seen.interface, saved.config)
        self.actors = actors_from(saved.arrays, path, self.setup)
        self._rng = np.random.default_rng(saved.seed)
        self.reset()

    def __repr__(self) -> str:
        parts = [self.config.task, self.config.method, f"seed {self.seed}"]
        if "step" in self.scored:
            parts += [f"best of its run, at step {self.scored['step']:,.0f}"]
            parts += [f"{name.removeprefix('eval/')} {value:.2f}" for name, value in self.scored.items() if name != "step"]
        return f"Policy({', '.join(parts)})"

    @functools.cached_property
    def task(self) -> Environment | HostTask:
        """The task that it was trained on."""
        return self._make()

    @functools.cached_property
    def view(self) -> View | None:
        """How it sees an environment of one's own; None: the environment is one of the package's."""
        if self._seen is None or not self._seen.own:
            return None
        task: Any = self.task if self._seen.view is None else None  # a function of goal space is in the task only
        return self._seen.view or task.view

    @property
    def player(self) -> Player:
        """Plays whole episodes with this policy."""
        space = self.setup.space._replace(fallen=fallen_of(self.task))  # a policy file does not know it
        return Player(self.task, self.actors, self.setup._replace(space=space))

    @property
    def title(self) -> str:
        """Its name in pictures."""
        best = f", best at step {self.scored['step']:,.0f}" if "step" in self.scored else ""
        return f"{self.config.task}, {self.config.method}, seed {self.seed}{best}"

    def draw(self, path: str | Path, episode: int = 0, panels: int = 6) -> None:
        """Play an episode and write its picture (.png, .pdf or .svg): at most so many panels, chosen by what happens."""
        from hrac.scenes import picture, story

        picture.draw(story.tell(self.player, self.title, episode), files.to_write(path, picture.FORMATS), panels)

    def record(self, path: str | Path, episode: int = 0, simulation: bool = True) -> None:
        """Play an episode and write its film (.gif, or .mp4 with the extra `video`).

        `episode` is the random seed of the episode. `simulation` shows MuJoCo's view of an ant beside the map, where OpenGL
        works.
        """
        from hrac.scenes import film

        film.record(self.player, self.title, files.to_write(path, film.FORMATS), episode, warnings.warn, simulation)

    def reset(self, seed: int | None = None) -> None:
        """Start an episode: a new subgoal is due. With a seed, the actions that are drawn can be repeated."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._state = SubgoalState(np.zeros(self.setup.space.goal_dim, np.float32), np.zeros((), np.int32))
        self._obs: NDArray[np.float32] | None = None

    @property
    def target(self) -> NDArray[np.float32]:
        """The point of goal space that the present subgoal stands for, in the environment's units."""
        obs = np.zeros(self.setup.obs_dim, np.float32) if self._obs is None else self._obs
        point = self.setup.space.target(self._state.subgoal, self.setup.space.phi(obs))
        return point if self.view is None else self.view.outside(point).astype(np.float32)

    def act(self, observation: Any) -> Any:
        """The action for an observation: an array, or a dictionary of a goal environment.

        It is an integer if actions are discrete, else an array.
        """
        obs = self._read(observation)
        if self._obs is not None:
            window_over = np.asarray(self._state.clock == self.config.k - 1)
            self._state = carry_on(self._state, self._obs, obs, window_over, self.setup.space)
        box = isinstance(self.setup.actions, Box)
        noise = None if box else action_noise(self._rng, (self.setup.actions.outputs,), self.setup)
        subgoal, action = decide(self.actors, self._state, obs, self.setup, noise)
        self._state, self._obs = self._state._replace(subgoal=subgoal), obs
        if self.view is not None:
            return self.view.act(action, self.setup.actions)
        return action if box else int(action)

    def _translated(self, view: View, observation: Any) -> NDArray[np.float64]:
        if view.goal is None and not isinstance(observation, dict):
            raise ValueError(f"observation must be a dictionary of a goal environment, got {type(observation).__name__}")
        try:
            return np.concatenate(view.read(observation))
        except IndexError as error:
            raise ValueError(f"observation has too few numbers: {error}") from None

    def _read(self, observation: Any) -> NDArray[np.float32]:
        """An observation as the networks see it; raises `ValueError`."""
        keys = {"observation", "desired_goal"} | ({"achieved_goal"} if self.view else set())
        dictionary = isinstance(observation, dict)
        if dictionary and (missing := keys - observation.keys()):
            raise ValueError(f"observation has no {', '.join(sorted(missing))}")
        if self.view is not None:
            observation = self._translated(self.view, observation)
        elif dictionary:
            observation = np.concatenate([observation["observation"], observation["desired_goal"]])
        context, size = self.setup.space.context, self.setup.obs_dim
        obs = np.asarray(observation, np.float32)
        if obs.shape != (size,):
            form = "" if context == 0 else ' (or a dictionary with "observation" and "desired_goal")'
            raise ValueError(f"observation must have shape ({size},){form}, got {obs.shape}")
        if not np.isfinite(obs).all():
            raise ValueError(f"observation must be finite, got {obs}")
        return obs
