"""Online goal-conditioned hierarchical reinforcement learning with k-step adjacency constraints."""

from hrac.api import load, resume, run, train

__all__ = ["load", "resume", "run", "train"]
