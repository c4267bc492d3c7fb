"""Settings of trainings that take seconds, for tests that ask whether something trains, not how well."""

TWO_TD3 = {
    "k": 4,
    "manager__hidden": (16, 16),
    "manager__buffer_windows": 200,
    "manager__start_fraction": 0.2,
    "manager__batch_size": 16,
    "controller__hidden": (16, 16),
    "controller__batch_size": 16,
    "controller__buffer_steps": 500,
    "adjacency__hidden": (16,),
    "adjacency__pretrain_env_steps": 400,
    "adjacency__pretrain_epochs": 1,
    "training__round_env_steps": 40,
    "training__envs_per_run": 2,
    "training__eval_every_env_steps": 400,
    "training__eval_episodes": 2,
}
"""For points and ants."""
