"""What weight decay does to a manager that is hardly ever rewarded: `python benchmarks/quiet_critic.py [--seeds 3]`.

The published code gives Adam the gradient of the weight decay too (L2). Adam makes steps of one size whatever a gradient's
size is, so where the loss says nothing, the decay takes every weight to zero. Here the manager of Ant Gather learns by itself,
from observations of ants shaken at random and rewards that are made up: none at first, then, in one window of ten, +1 or -1,
the more likely +1 the more the subgoal points to where apples rather than bombs are ahead. What the critic should learn is
known, so it can be said how well the slope of its value along the subgoal agrees with it.
"""

import argparse
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from hrac.agents import manager, td3
from hrac.compiled import jit_learner
from hrac.config import replace
from hrac.envs.ant.gather import AntGather
from hrac.experiments import tasks
from hrac.spaces import Box

SUBGOALS = Box((-10.0, -10.0), (10.0, 10.0))
REACH = 2.0
"""How far the subgoals lie that are rewarded; about as far as adjacent ones."""
RARE = 0.1
BATCH = 128
ENDS = 0.02
"""Windows that are an episode's last."""


class Experience(NamedTuple):
    """Observations before and after steps, and in [-1, 1] whether apples (1) or bombs (-1) are ahead."""

    obs: Float[Array, "n obs"]
    after: Float[Array, "n obs"]
    ahead: Float[Array, " n"]


def shaken(ants: int = 256, resets: int = 6, steps: int = 10) -> Experience:
    """What ants see when torques are random."""
    task, rng = AntGather(), np.random.default_rng(0)
    env, rows = task.batch(ants), []
    env.reset(seeds=np.arange(ants))
    for _ in range(resets):
        obs = env.reset()
        for _ in range(steps):
            before, obs = obs, env.step(rng.uniform(*env.actions.limits, (ants, 8))).obs
            rows.append((before, obs))
    before, after = (np.concatenate(part).astype(np.float32) for part in zip(*rows, strict=True))
    apples, bombs = before[:, -1 - 2 * task.bins : -1 - task.bins], before[:, -1 - task.bins : -1]
    direction = np.cos(2 * np.pi * np.arange(task.bins) / task.bins)
    return Experience(jnp.asarray(before), jnp.asarray(after), jnp.tanh(3 * (apples - bombs) @ direction))


def windows(key: PRNGKeyArray, seen: Experience, rewarded: Float[Array, ""]) -> td3.Transition:
    """A minibatch for the manager."""
    which, where, what, end = jax.random.split(key, 4)
    i = jax.random.randint(which, (BATCH,), 0, len(seen.obs))
    subgoal = jax.random.uniform(where, (BATCH, 2), minval=-REACH, maxval=REACH)
    apple = 0.5 + 0.5 * seen.ahead[i] * subgoal[:, 0] / REACH
    drawn = jax.random.uniform(what, (2, BATCH))
    reward = rewarded * jnp.where(drawn[0] < RARE, jnp.where(drawn[1] < apple, 1.0, -1.0), 0.0)
    return td3.Transition(seen.obs[i], subgoal, reward, seen.after[i], jax.random.uniform(end, (BATCH,)) > ENDS)


def agreement(state: td3.TD3State, seen: Experience) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Correlation of the critic's slope along the subgoal's x with what is ahead, and the mean size of its weights."""
    some = jax.random.uniform(jax.random.key(0), (len(seen.obs), 2), minval=-REACH, maxval=REACH)
    slope = jax.vmap(jax.grad(td3.value, 2), (None, 0, 0))(state.critics[0], seen.obs, some)[:, 0]
    weights = [jnp.abs(leaf).ravel() for leaf in jax.tree.leaves(state.critics[0])]
    return jnp.corrcoef(slope, seen.ahead)[0, 1], jnp.mean(jnp.concatenate(weights))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=5_000, help="without rewards, and again with them")
    options = parser.parse_args()
    if options.seeds < 1 or options.updates < 1:
        parser.error("--seeds and --updates must be at least 1")
    seen = shaken()
    print(
        "| weight decay | layer norms | seed | mean weight at first | after silence | after rewards | agreement |\n|"
        + "---|" * 7
    )
    for decay, norms in ((1e-4, False), (0.0, False), (1e-4, True)):
        changes = {"manager.critic_weight_decay": decay, "manager.critic_layer_norm": norms}
        config = replace(tasks.config_for("ant-gather"), changes)
        settings = manager.settings(config)

        def learn(state: td3.TD3State, key: PRNGKeyArray, rewarded: Array, settings: td3.Settings = settings) -> td3.TD3State:
            def one(state: td3.TD3State, key: PRNGKeyArray) -> tuple[td3.TD3State, None]:
                draw, update = jax.random.split(key)
                return td3.update(update, state, windows(draw, seen, rewarded), SUBGOALS, None, settings)[0], None

            return jax.lax.scan(one, state, jax.random.split(key, options.updates))[0]

        learn_compiled = jit_learner(learn)
        for seed in range(options.seeds):
            first, silent, loud = jax.random.split(jax.random.key(seed), 3)
            state = td3.init(first, seen.obs.shape[1], 2, settings)
            sizes = [agreement(state, seen)[1]]
            for key, rewarded in ((silent, 0.0), (loud, 1.0)):
                state = learn_compiled(state, key, jnp.asarray(rewarded))
                sizes.append(agreement(state, seen)[1])
            shown = " | ".join(f"{float(size):.0e}" for size in sizes)
            case = f"{decay:g} | {'yes' if norms else 'no'} | {seed}"
            print(f"| {case} | {shown} | {float(agreement(state, seen)[0]):.2f} |", flush=True)


if __name__ == "__main__":
    main()
