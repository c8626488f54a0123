"""The ring keeps the last iterations, and every one of them is as likely as the others."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np

from emphatic.deep import replay


def iteration(t):
    return {"number": jnp.full(2, t), "pair": 10.0 * t + jnp.array([[0.0, 1.0], [2.0, 3.0]])}


def filled(num, capacity):
    ring = replay.empty(iteration(0), capacity)
    for t in range(num):
        ring = replay.add(ring, iteration(t), jnp.int32(t))
    return ring


def test_the_oldest_iteration_makes_room():
    kept = deque(maxlen=4)
    for t in range(7):
        kept.append(t)
        assert {int(n) for n in filled(t + 1, 4)["number"][: len(kept), 0]} == set(kept)


def test_what_was_never_stored_is_never_drawn_and_the_rest_is_uniform():
    for stored, capacity, expected in ((3, 8, range(3)), (11, 4, range(7, 11))):
        ring = filled(stored, capacity)
        drawn = replay.sample(ring, jax.random.key(0), jnp.int32(stored), 4000)["number"][::2]
        values, counts = np.unique(drawn, return_counts=True)
        assert list(values) == list(expected)
        np.testing.assert_allclose(counts / 4000, 1 / len(expected), atol=0.03)


def test_a_sample_holds_whole_iterations():
    found = replay.sample(filled(5, 5), jax.random.key(1), jnp.int32(5), 3)
    assert found["number"].shape == (6,)
    assert found["pair"].shape == (6, 2)
    for row in range(6):
        t = int(found["number"][row - row % 2])
        np.testing.assert_array_equal(found["pair"][row], iteration(t)["pair"][row % 2])


def test_single_transitions_are_drawn_from_all_workers_and_iterations():
    found = replay.sample_transitions(filled(3, 8), jax.random.key(2), jnp.int32(3), 6000)
    values, counts = np.unique(found["pair"][:, 0], return_counts=True)
    assert list(values) == [0.0, 2.0, 10.0, 12.0, 20.0, 22.0]
    np.testing.assert_allclose(counts / 6000, 1 / 6, atol=0.03)
    np.testing.assert_array_equal(found["pair"][:, 1], found["pair"][:, 0] + 1)


def test_runs_side_by_side_have_rings_of_their_own():
    rings = jax.vmap(lambda _: replay.empty(iteration(0), 4))(jnp.arange(3))
    batches = jax.vmap(iteration)(jnp.arange(3))
    rings = jax.vmap(replay.add, (0, 0, None))(rings, batches, jnp.int32(6))
    np.testing.assert_array_equal(rings["number"][:, 2, 0], [0, 1, 2])
    assert (rings["number"][:, [0, 1, 3]] == 0).all()
