"""The learning of a round of Ant Maze by itself, on made-up experience: `python benchmarks/learning_alone.py VARIANT`.

A variant is `hrac-plus`, or names joined by +: `hrac` (the paper's settings), `controller` or `manager` (only that level
learns), `no-correction`, `half` (the correction's products in bfloat16), `beside` (actors learn from the critics as they were
before the update, so that neither waits for the other), `once` (the slopes of the manager's loss are computed once), `joint` (a
loop of 120 times three updates of the controller and one of the manager, which corrects by the controller of the same turn),
`options` (with the options of XLA that `hrac.compiled` chooses).

Several variants may be started at once, with a folder that they share and their number: they are compiled at the same time, and
measured one after the other.
"""

import argparse
import fcntl
import time
from pathlib import Path

import jax
import jax.numpy as jnp

from hrac import config as configs
from hrac.agents import agent as agents
from hrac.agents import controller as controllers
from hrac.agents import correction, td3
from hrac.agents import manager as managers
from hrac.compiled import learner_options
from hrac.experiments import tasks
from hrac.nets import soft_update
from hrac.runs import over_runs
from hrac.training import learn as learning
from hrac.training.state import traced_part
from hrac.worlds.make import make_setup
from hrac.worlds.streams import Stream, run_keys

COPIES, K = 40, 10
SMALL = {"training.envs_per_run": COPIES, "manager.buffer_windows": 20_000, "manager.start_fraction": 0.01}


def beside(key, state, batch, actions, excess, settings, with_value=True, pull=None):
    """`td3.update`, with the actor's step made from the critics as they were."""
    fast, critic_metrics = td3.update_critics(key, state, batch, actions, settings)
    slow, actor_metrics = td3.update_actor(state, batch, actions, excess, settings, with_value, pull, None)
    state = fast._replace(actor=slow.actor, actor_opt=slow.actor_opt)
    state = state._replace(
        target_actor=soft_update(state.target_actor, state.actor, settings.soft_update_rate),
        target_critics=soft_update(state.target_critics, state.critics, settings.soft_update_rate),
    )
    return state, critic_metrics | actor_metrics


whole_actor_loss = td3.actor_loss


def once(actor, critic, batch, actions, excess, settings, with_value=True, pull=None, noise=None):
    """`td3.actor_loss`, whose gradient is made of the slopes that scale it."""
    if excess is None or settings.value_scale != "slope":
        return whole_actor_loss(actor, critic, batch, actions, excess, settings, with_value, pull, noise)

    def terms(obs):
        action = td3.act(actor, obs, actions)
        fixed = jax.lax.stop_gradient(action)
        by_value = jax.grad(td3.value, argnums=2)(critic, obs, fixed)
        beyond, by_excess = jax.value_and_grad(excess, argnums=1)(obs, fixed)
        return action, by_value, beyond, by_excess

    action, by_value, beyond, by_excess = jax.vmap(terms)(batch.obs)
    times = jnp.mean(jnp.linalg.norm(by_excess, axis=-1))
    by = jnp.maximum(jnp.mean(jnp.linalg.norm(by_value, axis=-1)), td3.FLAT)
    penalised = jnp.where((beyond > 0)[:, None], by_excess, 0.0)
    direction = jax.lax.stop_gradient(settings.penalty_weight * penalised - by_value * times / by)
    loss = jnp.mean(jnp.sum(direction * action, axis=-1))
    return loss, {"saturation": td3.saturation(action, actions), "penalty": jnp.mean(jax.nn.relu(beyond))}


def half(draws, controller, batch, setup):
    """`correction.correct` in bfloat16, all candidates at once."""
    space, actions = setup.space, setup.actions
    candidates = jnp.concatenate([batch.whole.action[:, None], correction._achieved(batch, setup)[:, None], draws], axis=1)
    start = space.phi(batch.whole.obs)[:, None, :]
    origin = space.transition(jnp.zeros_like(space.phi(batch.obs)), start, space.phi(batch.obs))
    sums = controller.first(space.controller_input(batch.obs, origin))
    by_candidate = candidates @ controller.weights[0][-space.goal_dim :]
    small = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), controller)

    def error(added):
        out = small.after_first((sums + added[:, None]).astype(jnp.bfloat16)).astype(jnp.float32)
        return jnp.sum(jnp.where(batch.inside, actions.mismatch(out, batch.action), 0.0), axis=1)

    errors = jax.lax.map(error, jnp.swapaxes(by_candidate, 0, 1), batch_size=candidates.shape[1])
    return jax.vmap(lambda options, wrong: options[jnp.argmin(wrong)])(candidates, errors.T)


def joint(key, agent, steps, windows, setup):
    """`agents._learn` as one loop over both levels."""
    key_controller, key_manager = jax.random.split(key)
    high_cfg, every = setup.cfg.manager, 3
    excess = managers.too_far(agent.actors.embedding, setup)
    low_settings, high_settings = controllers.settings(setup.cfg.controller), managers.settings(setup.cfg)

    def one_low(low, drawn):
        return td3.update(drawn[0], low, drawn[1], setup.actions, None, low_settings)

    def one_high(high, actor, drawn):
        key, batch = drawn
        key_draw, key_update = jax.random.split(key)
        window = batch.whole
        if high_cfg.correction_candidates > 0:
            draws = correction.draw_candidates(key_draw, batch, setup)
            window = window._replace(action=managers.correct(draws, actor, batch, setup))
        return td3.update(key_update, high, window, setup.space, excess, high_settings, True, None)

    def turn(levels, drawn):
        low, high = levels
        before, numbers = low.actor, []
        for index in range(every):
            low, metrics = one_low(low, jax.tree.map(lambda leaf, i=index: leaf[i], drawn[0]))
            numbers.append(metrics)
        high, metrics = one_high(high, before, drawn[1])
        return (low, high), (jax.tree.map(lambda *all_: sum(all_) / every, *numbers), metrics)

    updates, turns = len(steps.reward), len(windows.inside)
    low_drawn = (jax.random.split(key_controller, updates), steps)
    high_drawn = (jax.random.split(key_manager, turns), windows)
    folded = jax.tree.map(lambda leaf: leaf[: turns * every].reshape(turns, every, *leaf.shape[1:]), low_drawn)
    levels = (td3.joined(agent.controller), td3.joined(agent.manager))
    (low, high), (of_low, of_high) = jax.lax.scan(turn, levels, (folded, high_drawn))
    low, _ = jax.lax.scan(one_low, low, jax.tree.map(lambda leaf: leaf[turns * every :], low_drawn))
    metrics = {f"controller/{name}": jnp.mean(value) for name, value in of_low.items()}
    metrics |= {f"manager/{name}": jnp.mean(value) for name, value in of_high.items()}
    return agent._replace(controller=td3.apart(low), manager=td3.apart(high)), metrics


def patched(parts):
    """Replace what the variant replaces; returns its method and settings."""
    if "controller" in parts:
        managers.learn = lambda key, manager, *others: (manager, {})
    if "manager" in parts:
        controllers.learn = lambda key, controller, *others: (controller, {})
    if "beside" in parts:
        td3.update = beside
    if "once" in parts:
        td3.actor_loss = once
    if "half" in parts:
        managers.correct = half
    if "joint" in parts:
        agents._learn = joint
    changes = {"manager.correction_candidates": 0} if "no-correction" in parts else {}
    return "hrac" if "hrac" in parts else "hrac-plus", changes


def filled(key, run):
    """A run whose replay is full of random numbers."""
    replay = run.replay
    places = len(replay.steps.reward)
    keys = jax.random.split(key, 5)
    clock = (jnp.arange(places, dtype=jnp.int32) // COPIES) % K
    steps = replay.steps._replace(
        obs=jax.random.normal(keys[0], replay.steps.obs.shape),
        next_obs=jax.random.normal(keys[1], replay.steps.obs.shape),
        subgoal=jax.random.normal(keys[2], replay.steps.subgoal.shape),
        action=10 * jax.random.normal(keys[3], replay.steps.action.shape),
        clock=clock,
        last=clock == K - 1,
    )
    ends = (jax.random.randint(keys[4], replay.window_ends.shape, K, places // (COPIES * K) - K) * K + K - 1) * COPIES
    counts = {"step_count": jnp.asarray(places, jnp.int32), "window_count": jnp.asarray(len(ends), jnp.int32)}
    return run._replace(replay=replay._replace(steps=steps, window_ends=ends, **counts))


def measure(variant, seeds, rounds, folder, count):
    """Compile, wait for the others, then time the rounds."""
    parts = set(variant.split("+"))
    method, changes = patched(parts)
    config = configs.replace(tasks.config_for("ant-maze", method), SMALL | {"seeds": tuple(range(seeds))} | changes)
    config = tasks.resolve(config)
    setup = make_setup(tasks.make_env(config), traced_part(config))
    starts = run_keys(config.seeds, Stream.INIT)
    runs = jax.jit(lambda keys, runs: over_runs(filled, keys, runs))(starts, learning.init_runs(starts, setup=setup))
    keys = run_keys(config.seeds, Stream.LEARN)

    def one_run(index, key, run):
        agent, metrics = learning.learn(jax.random.fold_in(key, index), run, setup)
        return run._replace(agent=agent), metrics

    options = learner_options(jax.default_backend()) if "options" in parts else None
    step = jax.jit(
        lambda index, keys, runs: over_runs(lambda key, run: one_run(index, key, run), keys, runs),
        donate_argnums=2,
        compiler_options=options,
    )
    start = time.perf_counter()
    compiled = step.lower(jnp.asarray(0), keys, runs).compile()
    print(f"{variant}: compiled in {time.perf_counter() - start:.1f} s", flush=True)
    (folder / f"{variant}.ready").touch()
    deadline = time.monotonic() + 130
    while len(list(folder.glob("*.ready"))) < count and time.monotonic() < deadline:
        time.sleep(0.2)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        handed, whole = [], []
        for index in range(rounds):
            start = time.perf_counter()
            runs, metrics = compiled(jnp.asarray(index), keys, runs)
            handed.append(time.perf_counter() - start)
            jax.block_until_ready(runs.agent)
            whole.append(time.perf_counter() - start)
    middle = [1e3 * sorted(times[4:])[len(times[4:]) // 2] for times in (whole, handed)]
    losses = {name: round(float(jnp.mean(value)), 3) for name, value in metrics.items() if "critic_loss" in name}
    print(f"{variant}: median {middle[0]:.1f} ms, of it handing over {middle[1]:.1f} ms, {losses}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--folder", type=Path, default=Path("runs/learning-alone"), help="what several variants share")
    parser.add_argument("--count", type=int, default=1, help="how many variants share it")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    measure(given.variant, given.seeds, given.rounds, given.folder, given.count)
