import jax.numpy as jnp
import numpy as np
import pytest

from hrac.spaces import Box, Discrete

BOX = Box((-30.0, 0.0), (30.0, 10.0))


@pytest.mark.parametrize("xp", [np, jnp])
def test_actions_are_squashed_to_their_range(xp):
    raw = xp.asarray([[0.0, 0.0], [100.0, -100.0]], dtype=xp.float32)
    np.testing.assert_allclose(BOX.squash(raw), [[0.0, 5.0], [30.0, 0.0]])


@pytest.mark.parametrize("xp", [np, jnp])
def test_a_share_of_the_range_is_around_its_middle(xp):
    """Half of -30 to 30 is -15 to 15, of 0 to 10 it is 2.5 to 7.5; noise does not leave it."""
    raw = xp.asarray([[0.0, 0.0], [100.0, -100.0]], dtype=xp.float32)
    half = BOX._replace(share=0.5)
    np.testing.assert_allclose(half.squash(raw), [[0.0, 5.0], [15.0, 2.5]])
    np.testing.assert_allclose(half.choose(raw, raw), [[0.0, 5.0], [15.0, 2.5]])


@pytest.mark.parametrize("xp", [np, jnp])
def test_noise_on_an_action_stays_within_its_range(xp):
    raw, noise = xp.zeros((3, 2), dtype=xp.float32), xp.asarray([[1.0, 2.0], [40.0, -6.0], [0.0, 0.0]], dtype=xp.float32)
    np.testing.assert_allclose(BOX.choose(raw, noise), [[1.0, 7.0], [30.0, 0.0], [0.0, 5.0]])
    np.testing.assert_allclose(BOX.choose(raw, None), [[0.0, 5.0]] * 3)


@pytest.mark.parametrize("xp", [np, jnp])
def test_gumbel_noise_makes_a_draw_of_the_likeliest_choice(xp):
    logits = np.log([0.2, 0.5, 0.3]).astype(np.float32)
    gumbel = np.random.default_rng(0).gumbel(size=(20_000, 3)).astype(np.float32)
    many = xp.asarray(np.broadcast_to(logits, gumbel.shape))
    drawn = np.asarray(Discrete(3).choose(many, xp.asarray(gumbel)))
    np.testing.assert_allclose(np.bincount(drawn) / len(drawn), [0.2, 0.5, 0.3], atol=0.015)
    np.testing.assert_array_equal(Discrete(3).choose(many[:2], None), [1, 1])


def test_what_an_output_says_of_an_action_that_was_taken():
    """Squared distance to tanh(raw) * 2; log(e^1 + e^2 + e^3) - raw = 3.4076 - raw."""
    box = Box((-2.0, -2.0), (2.0, 2.0))
    np.testing.assert_allclose(box.mismatch(np.array([[0.0, 0.0]]), np.array([[1.0, 2.0]])), [5.0])
    for xp in (np, jnp):
        raw = xp.asarray([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], dtype=xp.float32)
        np.testing.assert_allclose(Discrete(3).mismatch(raw, xp.asarray([0, 2])), [2.4076, 0.4076], rtol=1e-4)
