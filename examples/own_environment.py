"""An environment of your own: `hrac train own_environment:Plane` in this folder, then `hrac eval RUN`, `hrac picture RUN`."""

import gymnasium as gym
import numpy as np


class Plane(gym.Env):
    """Go to a point of the plane."""

    point = gym.spaces.Box(-9, 9, (2,))
    observation_space = gym.spaces.Dict(observation=point, achieved_goal=point, desired_goal=point)
    action_space = gym.spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal = np.zeros(2), self.np_random.uniform(-8, 8, 2)
        return {"observation": self.at, "achieved_goal": self.at, "desired_goal": self.goal}, {}

    def step(self, action):
        self.at = np.clip(self.at + 0.5 * action, -9, 9)
        near = np.linalg.norm(self.at - self.goal) < 1
        seen = {"observation": self.at, "achieved_goal": self.at, "desired_goal": self.goal}
        return seen, float(near), False, False, {"is_success": near}
