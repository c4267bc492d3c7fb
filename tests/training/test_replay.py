from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac.training import replay


class Item(NamedTuple):
    number: jax.Array
    pair: jax.Array


def _items(numbers):
    numbers = jnp.asarray(numbers, jnp.float32)
    return Item(numbers, jnp.stack([numbers, -numbers], axis=1))


def _buffer(capacity=4):
    return replay.create(Item(jnp.zeros(()), jnp.zeros(2)), capacity)


def test_only_the_items_to_keep_are_stored_in_order():
    buffer = replay.extend(_buffer(), _items([1, 2, 3]), jnp.array([True, False, True]))
    assert (int(buffer.size), int(buffer.head)) == (2, 2)
    np.testing.assert_array_equal(buffer.items.number[:2], [1, 3])
    np.testing.assert_array_equal(buffer.items.pair[1], [3, -3])


def test_the_oldest_items_give_way():
    buffer = replay.extend(_buffer(), _items([1, 2, 3]), jnp.ones(3, bool))
    buffer = replay.extend(buffer, _items([4, 5, 6]), jnp.array([True, True, False]))
    assert (int(buffer.size), int(buffer.head)) == (4, 1)
    np.testing.assert_array_equal(buffer.items.number, [5, 2, 3, 4])


def test_nothing_to_keep_changes_nothing():
    before = replay.extend(_buffer(), _items([1, 2]), jnp.ones(2, bool))
    after = replay.extend(before, _items([8, 9]), jnp.zeros(2, bool))
    jax.tree.map(np.testing.assert_array_equal, before, after)


def test_samples_are_uniform_over_what_is_stored():
    buffer = replay.extend(_buffer(), _items([1, 2, 3]), jnp.ones(3, bool))
    drawn = np.asarray(replay.sample(jax.random.key(0), buffer, (3000, 2)).number)
    assert drawn.shape == (3000, 2)
    counts = np.bincount(drawn.astype(int).ravel(), minlength=5)
    assert counts[0] == counts[4] == 0
    np.testing.assert_allclose(counts[1:4] / 6000, 1 / 3, atol=0.02)


def test_more_items_than_room_is_an_error():
    with pytest.raises(ValueError, match="5 items at once do not fit into a buffer of 4"):
        replay.extend(_buffer(), _items([1, 2, 3, 4, 5]), jnp.ones(5, bool))
