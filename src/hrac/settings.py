"""The groups of settings a run depends on, as frozen dataclasses. Impossible values raise here, combinations in `config`.

Defaults are the paper's (Tables 1 and 3) unless a field says otherwise; `docs/departures.md` says why where they are not.
Names carry units: `..._env_steps` count environment steps of one run (one seed), `..._gradient_steps` count updates.
"""

import math
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

Positive = Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=1e-12, le=1)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Steps = Annotated[int, Field(ge=1, le=2_000_000_000)]
Few = Annotated[int, Field(ge=1, le=10_000)]
Hidden = Annotated[tuple[Few, ...], Field(max_length=16)]

STRICT = ConfigDict(extra="forbid", strict=True)

Coordinate: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Coordinates: TypeAlias = Annotated[tuple[Coordinate, ...], Field(min_length=1, max_length=100)]
"""One number per coordinate of goal space."""
PositiveCoordinates: TypeAlias = Annotated[tuple[Positive, ...], Field(min_length=1, max_length=100)]
NonNegativeCoordinates: TypeAlias = Annotated[tuple[NonNegative, ...], Field(min_length=1, max_length=100)]


@dataclass(frozen=True, config=STRICT)
class ManagerConfig:
    """The high level: TD3 over subgoals, with the adjacency loss."""

    subgoals: Literal["absolute", "relative", "task", "none"] = "absolute"
    """What the manager's output means: a position in goal space, or a displacement from the present one (paper, Sec. 2). Two
    values leave the manager out. "task": the target of the task is the subgoal. "none": there are no subgoals."""

    subgoal_range: Positive | PositiveCoordinates | None = None
    """Relative subgoals are within +- this, in all coordinates or in each (paper: 10 on the ants). None: the extent of the
    map."""

    candidates: Few = 20
    """Noisy subgoals to explore with. A random one of those judged adjacent is taken (published code: 20). 1: plain noise."""

    noise_sigma: NonNegative | NonNegativeCoordinates = 3.0
    """Standard deviation of the exploration noise, in units of goal space (Table 1: 3.0 Maze, 5.0 Key-Chest; Table 2: 1.0)."""

    target_chance: Fraction = 0.0
    """Chance that a subgoal to explore with is the target of the task, or its direction, on tasks that show one (ours; paper:
    0). It finds rewards that are paid at the target only."""

    hindsight: Fraction = 0.0
    """Share of the windows in a minibatch whose target of the task is replaced by a point that was reached later in the
    episode, with the rewards that this target would have paid (ours; paper: 0). It learns from episodes that missed their
    target. Only on tasks that show one and know what other targets pay."""

    eta: NonNegative = 20.0
    """Weight of the adjacency loss (Eq. 12; Tables 1 and 2). 0 leaves the manager unconstrained, but for a search."""

    non_adjacent_penalty: NonNegative = 0.0
    """Subtracted from the manager's reward for a subgoal that the adjacency network judges not adjacent (paper, NegReward: 1,
    with `eta` 0). 0: none."""

    hinge: Positive = 1.0
    """Embedding distance beyond which a subgoal is penalised (Eq. 13: epsilon_k = 1.0; published code: 1.1)."""

    actor_learning_rate: Rate = 1e-4
    """Adam, Tables 1 and 2."""

    critic_learning_rate: Rate = 1e-3
    """Adam, Tables 1 and 2."""

    buffer_windows: Steps = 10_000
    """Replay capacity in windows of k steps (Table 1: 10,000 Maze, 20,000 Key-Chest; Table 2: 200,000)."""

    start_fraction: Fraction = 0.5
    """Both levels start to learn when this share of the buffer is filled; until then subgoals are uniform (published code)."""

    batch_size: Count = 64
    """Windows in one minibatch (Table 1: 64; Table 2: 128)."""

    soft_update_rate: Rate = 0.001
    """How far the target networks move towards the learned ones after each update (Table 1: 0.001; Table 2: 0.005)."""

    value_every_gradient_steps: Count = 2
    """The actor's value term is applied once per this many updates, its adjacency term at each (Table 1: 2; Table 2: 1)."""

    updates_per_window: Annotated[int, Field(ge=1, le=1000)] = 1
    """Gradient steps for every k steps of the environment, or for every k updates of a TD3 controller (paper: 1). More learn
    more from few steps, and take longer (ours)."""

    way_pull: NonNegative = 0.0
    """Weight of how far a subgoal is from the next cell on the way to the task's target, over the adjacency table and by the
    adjacency network (ours). Like `eta`, it weighs in every update. 0: no pull."""

    discount: Fraction = 0.99
    """gamma, per window (Tables 1 and 2)."""

    reward_scale: Positive = 1.0
    """Multiplies the summed environment reward (Tables 1 and 2: 0.1 in Ant Maze, 1 elsewhere)."""

    bootstrap_at_time_limit: bool = False
    """Whether a window cut by the time limit bootstraps from its last state (paper: finite horizon, no)."""

    critic_loss: Literal["squared", "huber"] = "squared"
    """Error of the critics (published code: squared on the grid worlds, Huber on the ants)."""

    critic_weight_decay: NonNegative = 0.0
    """L2 penalty on the critics' parameters (published code: none on the grid worlds, 1e-4 on the ants)."""

    critic_layer_norm: bool = False
    """Whether the critics have layer norms before each ReLU (ours)."""

    value_scale: Literal["plain", "mean", "slope"] = "plain"
    """The actor's value term: the critic's value (paper); that divided by its mean absolute value over the minibatch; or that
    multiplied so that it rises as steeply with the subgoal as the learned distance does. With "slope", `eta` is how much
    stronger the adjacency loss pulls than the value in an update that has both, whatever the rewards and the map are (ours)."""

    search_candidates: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Noisy subgoals (`noise_sigma`), of which the actor's loss looks at those within the hinge. The one of most value draws
    the actor, unless the actor's own is within it and as good. A better one need not lie uphill (ours). 0: none (paper)."""

    target_noise_sigma: NonNegative = 0.0
    """Standard deviation of the noise on the slow actor (published code: none on the grid worlds, 0.2 on the ants)."""

    target_noise_clip: NonNegative = 0.5
    """That noise is clipped to +- this (published code)."""

    correction_candidates: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Random subgoals tried in HIRO's off-policy correction, in addition to the stored one and the displacement achieved
    (ants: 10). 0: no correction."""

    output_penalty: NonNegative = 0.0
    """Weight of the squared output of the actor before it is squashed, in the actor's loss (ours). It keeps subgoals away from
    the limits of their range, where squashing has almost no gradient. 0: none (paper)."""

    hidden: Hidden = (300, 300)
    """Hidden layers of actor and critics (paper, Network Architecture)."""

    @property
    def learns(self) -> bool:
        """Whether there is a manager."""
        return self.subgoals in ("absolute", "relative")

    @property
    def start_windows(self) -> int:
        """Windows in the buffer when learning starts."""
        return math.ceil(self.start_fraction * self.buffer_windows)


@dataclass(frozen=True, config=STRICT)
class ControllerSettings:
    """The low level, on the intrinsic reward: the settings that its learners have in common."""

    subgoals_shown_as: Literal["given", "displacement"] = "given"
    """What the controller sees of an absolute subgoal: the point (published code), or its displacement from the agent."""

    sees_position: bool = True
    """Whether the position is among its inputs. If not, zeros replace its first two coordinates (published code: not on the
    ants). A height is seen (as in HIRO's code)."""

    sees_context: bool = False
    """Whether the numbers that set the task of an episode, such as a target, are among its inputs (paper: no)."""

    learning_rate: Rate = 1e-4
    """Adam, for the actor, and in A2C for the critic too (Tables 1 and 2)."""

    discount: Fraction = 0.99
    """gamma, per step (Table 1: 0.99; Table 2: 0.95); in A2C within one window."""

    intrinsic_reward: Literal["reached", "distance", "environment"] = "reached"
    """1 within `reach_radius` of the subgoal, else 0; or minus the distance to it (paper, HRAC details: ants); or the reward of
    the environment times `manager.reward_scale`."""

    reach_radius: Positive = 0.5
    """The subgoal is reached within this distance of it (paper, HRAC details: 0.5 on the grid worlds; published code: sqrt(2)
    on the ants)."""

    reach_measure: Literal["coordinate", "euclidean"] = "coordinate"
    """How that distance is measured: in each coordinate (grid worlds), or in a straight line (ants)."""

    hidden: Hidden = (300, 300)
    """Hidden layers of actor and critics (paper, Network Architecture)."""


@dataclass(frozen=True, config=STRICT)
class A2C(ControllerSettings):
    """A controller for discrete actions: one update per round (grid worlds)."""

    learner: Literal["a2c"] = "a2c"
    """The name of this learner."""

    entropy_weight: NonNegative = 0.01
    """Table 1."""

    bootstraps: bool = False
    """Whether returns go on past the end of a window, by the critic's value there (published code: no)."""

    hindsight: Fraction = 0.0
    """Chance that a new subgoal is replaced by a point that was visited earlier in the episode (paper, HRL-HER: 0.2)."""


@dataclass(frozen=True, config=STRICT)
class TD3(ControllerSettings):
    """A controller for continuous actions: updates on minibatches of stored steps (ants)."""

    learner: Literal["td3"] = "td3"
    """The name of this learner."""

    critic_learning_rate: Rate = 1e-3
    """Adam, for the critics (Table 2)."""

    buffer_steps: Steps = 200_000
    """Replay capacity (Table 2)."""

    batch_size: Count = 128
    """Steps in one minibatch (Table 2)."""

    soft_update_rate: Rate = 0.005
    """How far the target networks move towards the learned ones after each update (Table 2)."""

    noise_sigma: NonNegative = 1.0
    """Standard deviation of the exploration noise, in units of the action (Table 2)."""

    target_noise_sigma: NonNegative = 0.2
    """Standard deviation of the noise on the slow actor, in units of the action (published code)."""

    target_noise_clip: NonNegative = 0.5
    """That noise is clipped to +- this (published code)."""

    critic_weight_decay: NonNegative = 1e-4
    """L2 penalty on the critics' parameters (published code)."""

    reward_scale: Positive = 1.0
    """Multiplies the intrinsic reward, in the critics' targets only (paper: 1)."""

    action_share: Annotated[float, Field(ge=0.01, le=1)] = 1.0
    """The share of the environment's range of actions, around its middle, that is used (ours; paper: 1). With 0.5 torques that
    may be from -30 to 30 are from -15 to 15."""

    hindsight: Fraction = 0.0
    """Share of the steps in a minibatch whose subgoal is replaced by a point that was reached in the next k steps of the
    episode (HRL-HER: 0.8, as in the original HER)."""

    ends_with_window: bool = False
    """Whether the last step of a subgoal's window is terminal for the controller (published code: on Gather)."""

    updates_per_env_step: Annotated[float, Field(ge=1e-6, le=1000)] = 1.0
    """Gradient steps per environment step; the manager makes 1/k as many, times its `updates_per_window` (paper: 1)."""


ControllerConfig: TypeAlias = A2C | TD3
"""The low level. Its type chooses the learner."""


@dataclass(frozen=True, config=STRICT)
class AdjacencyConfig:
    """The k-step adjacency relation and the network distilled from it (Table 3)."""

    source: Literal["table", "oracle", "trajectories", "none"] = "table"
    """Where labelled pairs come from: the k-step relation of what was explored (paper), the environment's true distances, or
    stored trajectories directly. "none": adjacency is not learned and constrains nothing."""

    directed: bool = False
    """Whether adjacency depends on the direction, for environments where a way back may be longer than the way there. Only what
    was reached from a cell within k steps is adjacent to it then, and two networks embed the two ends of a pair (paper,
    Implementation Details). Off: a pair is adjacent if either was reached from the other."""

    epsilon: Positive = 1.0
    """epsilon_k of Eq. 11: adjacent cells are drawn within this embedding distance."""

    delta: Positive = 0.2
    """delta of Eq. 11: other pairs are pushed beyond epsilon + delta."""

    cell_size: Positive = 1.0
    """Edge length of the cells of goal space (paper: 1)."""

    learning_rate: Rate = 2e-4
    """Adam, Table 3."""

    batch_size: Annotated[int, Field(ge=2, le=1_000_000, multiple_of=2)] = 64
    """Pairs in one minibatch (Table 3): half adjacent, half not, weighted back to uniform pairs."""

    pretrain_env_steps: Steps = 50_000
    """Steps of random behaviour before anything is learned (Table 3). They count as environment steps of the run."""

    pretrain_epochs: Count = 50
    """Table 3. An epoch is as many pairs as there are unordered pairs of explored cells (ordered ones if `directed`)."""

    update_every_env_steps: Steps = 50_000
    """How often the relation is extended and the network fine-tuned (Table 3)."""

    update_epochs: Count = 25
    """Table 3."""

    max_gradient_steps: Steps = 20_000
    """Most updates in one training of the network, which limits its time on large tables (ours)."""

    hidden: Hidden = (128, 128, 128)
    """Hidden layers of the embedding (paper, Network Architecture; published code)."""

    embedding_dim: Few = 32
    """Size of the embedding (paper, Network Architecture)."""

    @property
    def threshold(self) -> float:
        """A pair is judged adjacent when its embedding distance is below this."""
        return self.epsilon + self.delta / 2


@dataclass(frozen=True, config=STRICT)
class TrainingConfig:
    """How long a run is, how it is divided into rounds, and when it is evaluated and saved."""

    total_env_steps: Steps = 1_000_000
    """Length of a run, the pre-training of the adjacency network included (as the published code counts)."""

    round_env_steps: Count = 200
    """Steps of one run between updates. Then follow one controller update (A2C) or `updates_per_env_step` per step (TD3), and
    1/k manager updates per step (A2C) or per controller update (TD3), times `manager.updates_per_window`."""

    envs_per_run: Count = 1
    """Copies of the environment that share one run's round."""

    eval_every_env_steps: Steps = 10_000
    """Steps between evaluations, which are logged."""

    checkpoint_every_env_steps: Steps = 50_000
    """Steps between checkpoints (one is also written at the end and on Ctrl-C). It changes no result."""

    eval_episodes: Count = 100
    """Episodes of one evaluation, without exploration noise, with a random stream of their own."""

    env_threads: Few | None = None
    """Environments on the host: threads that step them. None: one per core. It changes no result."""

    quiet_share: Fraction = 0.0
    """Chance that an episode after a success, once learning has started, is played without exploration noise, as in evaluation
    (ours; paper: 0). None is where training does not tell success. Discrete actions are drawn from the policy as always."""

    averaging_env_steps: Annotated[int, Field(ge=0, le=2_000_000_000)] = 0
    """What is evaluated and saved as a policy: the actors with their weights averaged over about this many of the last steps,
    or over the last tenth of those learned from if that is less (ours). 0: the newest actors (paper). It changes nothing of
    what is learned."""

    overlap: bool = False
    """Collect a round while the device still learns from the one before, with policies that are one round older.
    A thread hands it over, so JAX's settings must be global (`jax.config.update`), not those of a `with` statement."""


@dataclass(frozen=True, config=STRICT)
class EnvConfig:
    """Changes to the task's environment. None keeps the task's own value. A field that the task does not use must be None."""

    layout: Annotated[str, Field(max_length=1_000_000)] | None = None
    """A map of your own, one line per row: # wall, . free, A start; in Maze also G, in Key-Chest K and C. Grid worlds may have
    one-way doors, ^ v < >, which are entered and left only in the direction of the arrow."""

    time_limit: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Steps after which an episode is cut off (paper: 200 in Maze, 500 in the others)."""

    random_action_prob: Fraction | None = None
    """Grid worlds: chance that a step's action is replaced by a uniformly random one (paper: 0.25)."""

    random_start: bool | None = None
    """Grid worlds: start in a uniformly random free cell instead of A (paper: off in Maze, on in Key-Chest)."""

    block_size: Positive | None = None
    """Mazes of blocks: edge length of a block."""

    success_radius: Positive | None = None
    """Mazes of blocks: success means nearer to the target than this (paper: 5 in Ant Maze)."""

    goal: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, max_length=100)] | None = None
    """Environments of your own: indices of the observation that are goal space."""

    goal_low: Coordinates | None = None
    """Environments of your own: lowest point of goal space. None: measured with random actions."""

    goal_high: Coordinates | None = None
    """Environments of your own: highest point of goal space. None: measured with random actions."""

    cell: PositiveCoordinates | None = None
    """Environments of your own: size of a cell in each coordinate of goal space. All lengths of other settings are in cells.
    None: measured with random actions."""

    success: Annotated[str, Field(max_length=100)] | None = None
    """Environments of your own: the entry of `info` that says whether an episode has succeeded. None: is_success or success, if
    there is one."""

    stepping: Literal["sync", "async", "vector"] | None = None
    """Environments of your own: copies are stepped one after the other (sync), in processes (async), or by the environment's
    own vector form (vector). None: sync."""

    step_seconds: Positive | None = None
    """Environments of your own, with the stepping "async": how many seconds a step may take. None: for ever."""

    sigma: NonNegative | None = None
    """Ants: standard deviation of the noise added to (x, y) after each step (paper: 0; 0.01, 0.05, 0.1)."""
