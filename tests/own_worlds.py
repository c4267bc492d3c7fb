"""Small environments for the tests of tasks of one's own. Tests name them as a user would: `own_worlds:Walk`."""

import multiprocessing
import time

import gymnasium as gym
import numpy as np


class Walk(gym.Env):
    """A walk on a line of 11 cells, in steps of up to 1, to a goal; observations are dictionaries."""

    place = gym.spaces.Box(0.0, 10.0, (1,))
    observation_space = gym.spaces.Dict(
        observation=gym.spaces.Box(-np.inf, np.inf, (2,)), achieved_goal=place, desired_goal=place
    )
    action_space = gym.spaces.Box(-2.0, 2.0, (1,))
    resets = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        Walk.resets += 1
        self.at, self.goal, self.time = np.full(1, 5.0), np.floor(self.np_random.random(1) * 11), 0
        return self._seen(), {}

    def step(self, action):
        assert np.abs(np.asarray(action)).max() <= 2.0, action
        self.at, self.time = np.clip(self.at + np.asarray(action) / 2, 0.0, 10.0), self.time + 1
        near = bool(np.abs(self.at - self.goal)[0] < 0.5)
        return self._seen(), float(near), False, False, {"is_success": near}

    def _seen(self):
        return {"observation": np.array([self.at[0], self.time]), "achieved_goal": self.at, "desired_goal": self.goal}


class Told(Walk):
    """The same, and it tells what other goals would pay."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return float(np.abs(achieved_goal - desired_goal)[0] < 0.5)


class OutOfReach(Told):
    """Its goal is at 10, and nobody gets past 8: it never pays. It does not show the time."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal = np.full(1, 10.0)
        return self._seen(), {}

    def step(self, action):
        _, _, _, _, info = super().step(action)
        self.at = np.minimum(self.at, 8.0)
        return self._seen(), 0.0, False, False, info

    def _seen(self):
        return super()._seen() | {"observation": np.array([self.at[0], 0.0])}


class OneSided(Walk):
    """The same, but only goals below are paid."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return float(achieved_goal[0] > desired_goal[0])


class Saved(Walk):
    """The same, and it can save its state."""

    def snapshot(self):
        state = self.np_random.bit_generator.state["state"]
        words = np.array([[value >> 64, value & (2**64 - 1)] for value in (state["state"], state["inc"])], np.uint64)
        return {"at": self.at, "goal": self.goal, "time": np.array(self.time), "random": words}

    def restore(self, arrays):
        self.at, self.goal, self.time = arrays["at"].copy(), arrays["goal"].copy(), int(arrays["time"])
        (a, b), (c, d) = arrays["random"].tolist()
        state = self.np_random.bit_generator.state
        state["state"] = {"state": (a << 64) | b, "inc": (c << 64) | d}
        self.np_random.bit_generator.state = state


class Falls(Walk):
    """The same, but an episode ends without success at 0."""

    def step(self, action):
        seen, reward, _, _, info = super().step(action)
        return seen, reward, bool(self.at[0] <= 0.0), False, info


class Slow(Walk):
    """Its second reset takes a minute, in a process of its own."""

    begun = 0

    def reset(self, *, seed=None, options=None):
        self.begun += 1
        if self.begun > 1 and multiprocessing.parent_process() is not None:
            time.sleep(60.0)
        return super().reset(seed=seed, options=options)


class LastOnly(Walk):
    """It tells success in the last step only, and cuts an episode off after 30 steps by itself."""

    action_space = gym.spaces.Box(-0.1, 0.1, (1,), dtype=np.float64)

    def step(self, action):
        assert self.action_space.contains(action), action
        seen, reward, _, _, info = super().step(20.0 * np.asarray(action))
        return seen, reward, False, self.time >= 30, info if self.time >= 30 else {}


class FarAway(Walk):
    """Its goal is about 1003."""

    place = gym.spaces.Box(-np.inf, np.inf, (1,))
    observation_space = gym.spaces.Dict(
        observation=gym.spaces.Box(-np.inf, np.inf, (2,)), achieved_goal=place, desired_goal=place
    )

    def _seen(self):
        seen = super()._seen()
        return seen | {name: 1003.0 + seen[name] / 50 for name in ("achieved_goal", "desired_goal")}


class Grid(gym.Env):
    """Five cells in a row; 0 goes left, 1 right. The observation is the number of the cell, so goal space needs a function."""

    observation_space, action_space = gym.spaces.Discrete(5), gym.spaces.Discrete(2, start=3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.at = int(np.clip(self.at + (1 if action == 4 else -1), 0, 4))
        return self.at, float(self.at == 4), self.at == 4, False, {}


class Breaks(Walk):
    """It breaks after 3,500 steps in this process."""

    steps = 0

    def step(self, action):
        Breaks.steps += 1
        if Breaks.steps > 3_500:
            raise ZeroDivisionError("the motor is stuck")
        return super().step(action)


class Hangs(Walk):
    """Its third step takes a minute."""

    def step(self, action):
        if self.time == 2:
            time.sleep(60.0)
        return super().step(action)


def column(cell):
    """Goal space of `Grid`."""
    return (float(cell),)
