"""The actions of an environment, and what a network's output means among them. For NumPy and JAX alike.

Shapes are trailing axes: a function for one action works for any number of actions.
"""

from typing import Any, NamedTuple, TypeAlias

from jaxtyping import Float, Int

AnyArray: TypeAlias = Any
"""A NumPy or a JAX array."""


class Box(NamedTuple):
    """Vectors between two bounds."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    share: float = 1.0
    """The share of this range, around its middle, that an agent uses."""

    @property
    def outputs(self) -> int:
        """How many numbers a network outputs for an action."""
        return len(self.low)

    @property
    def limits(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Lowest and highest action of an agent."""
        if self.share == 1:
            return self.low, self.high
        ends = list(zip(self.low, self.high, strict=True))
        cut = [(1 - self.share) / 2 * (high - low) for low, high in ends]
        return (
            tuple(low + less for (low, _), less in zip(ends, cut, strict=True)),
            tuple(high - less for (_, high), less in zip(ends, cut, strict=True)),
        )

    def bounds(self, like: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Lowest and highest action of an agent, as arrays that broadcast against `like` (..., action)."""
        xp, axes = like.__array_namespace__(), (1,) * (like.ndim - 1)
        low, high = (xp.asarray(bound, dtype=xp.float32).reshape(*axes, -1) for bound in self.limits)
        return low, high

    def squash(self, raw: Float[AnyArray, "*n action"]) -> Float[AnyArray, "*n action"]:
        """A network's output as an action: tanh over the range."""
        xp, (low, high) = raw.__array_namespace__(), self.bounds(raw)
        return (low + high) / 2 + (high - low) / 2 * xp.tanh(raw)

    def mismatch(self, raw: Float[AnyArray, "*n action"], taken: Float[AnyArray, "*n action"]) -> Float[AnyArray, "*n"]:
        """How badly a network's output explains an action that was taken: the squared distance."""
        return raw.__array_namespace__().sum((self.squash(raw) - taken) ** 2, axis=-1)

    def choose(self, raw: Float[AnyArray, "*n action"], noise: AnyArray | None) -> Float[AnyArray, "*n action"]:
        """The action, with noise added to it within the range."""
        action = self.squash(raw)
        return action if noise is None else raw.__array_namespace__().clip(action + noise, *self.bounds(raw))


class Discrete(NamedTuple):
    """One of several choices."""

    choices: int

    @property
    def outputs(self) -> int:
        """How many numbers a network outputs for an action."""
        return self.choices

    def mismatch(self, raw: Float[AnyArray, "*n action"], taken: Int[AnyArray, "*n"]) -> Float[AnyArray, "*n"]:
        """How badly a network's output explains an action that was taken: minus the logarithm of its probability."""
        xp = raw.__array_namespace__()
        most = xp.max(raw, axis=-1, keepdims=True)
        total = xp.log(xp.sum(xp.exp(raw - most), axis=-1)) + most[..., 0]
        return total - xp.take_along_axis(raw, taken[..., None], axis=-1)[..., 0]

    def choose(self, raw: Float[AnyArray, "*n action"], noise: AnyArray | None) -> Int[AnyArray, "*n"]:
        """The action. With Gumbel noise on the logits it is a draw from their softmax, without noise the most likely one."""
        xp = raw.__array_namespace__()
        return xp.argmax(raw if noise is None else raw + noise, axis=-1).astype(xp.int32)


Actions: TypeAlias = Box | Discrete
"""The possible actions of an environment."""
