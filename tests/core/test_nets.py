"""Networks as values: what each kind promises."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import distributions as dists
from lcpo.core import nets
from lcpo.types import Array, ContextSlice, Spec

KEY = jax.random.key(0)
SERVERS = Spec(32, ContextSlice(30, 2, 1), (9,), elements=(10, 2))
"""Ten elements of two numbers, twelve other entries."""


def size(params: object) -> int:
    return sum(x.size for x in jax.tree.leaves(params))


def test_the_order_of_elements_does_not_matter_and_all_else_does() -> None:
    network = nets.for_spec(SERVERS, (32, 16), 9)
    params, x = network.init(KEY), jax.random.normal(KEY, (4, 3, 32))
    found = network.apply(params, x)
    assert found.shape == (4, 3, 9)

    def shuffled(order: Array) -> Array:
        elements = x[..., :20].reshape(4, 3, 10, 2)[:, :, order]
        return jnp.concatenate([elements.reshape(4, 3, 20), x[..., 20:]], axis=-1)

    order = jnp.roll(jnp.arange(10), 3)  # nobody stays
    np.testing.assert_allclose(network.apply(params, shuffled(order)), found, rtol=1e-5, atol=1e-6)
    flipped = x.at[..., 20:].set(x[..., 20:][..., ::-1])
    assert np.abs(network.apply(params, flipped) - found).max() > 1e-3
    for entry in (*range(20), 25):
        moved = network.apply(params, x.at[..., entry].add(1.0))
        assert np.abs(moved - found).max() > 1e-4, f"entry {entry} is not looked at"


def test_a_deep_set_takes_the_mean_of_its_elements() -> None:
    """Ten elements that are alike say what one says."""
    ten, one = nets.deep_set((10, 2), 32, (8,), 3), nets.deep_set((1, 2), 14, (8,), 3)
    params, element = ten.init(KEY), jax.random.normal(KEY, (2,))
    rest = jax.random.normal(jax.random.key(1), (12,))
    found = ten.apply(params, jnp.concatenate([jnp.tile(element, 10), rest]))
    alone = one.apply(params, jnp.concatenate([element, rest]))
    np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-6)


def test_a_deep_set_has_the_published_size() -> None:
    """1770 parameters for the straggler's policy, 1634 for its value."""
    assert size(nets.for_actions(SERVERS, (32, 16)).init(KEY)) == 1770
    assert size(nets.for_spec(SERVERS, (32, 16), 1).init(KEY)) == 1634


def test_without_elements_it_is_an_mlp() -> None:
    plain = SERVERS._replace(elements=None)
    params = nets.for_spec(plain, (5,), 3).init(KEY)
    shapes = [(layer.w.shape, layer.b.shape) for layer in params]
    assert shapes == [((32, 5), (5,)), ((5, 3), (3,))]


def test_fresh_weights_are_uniform_and_as_small_as_a_layer_has_inputs() -> None:
    """U(-1/sqrt(inputs), 1/sqrt(inputs)), weights and biases, in every layer."""
    params = nets.mlp((100, 400, 25, 300)).init(KEY)
    for layer, inputs in zip(params, (100, 400, 25), strict=True):
        for values in layer:
            scaled = np.sort(np.ravel(values)) * inputs**0.5
            expected = 2.0 * (np.arange(len(scaled)) + 0.5) / len(scaled) - 1.0
            assert np.abs(scaled).max() <= 1.0
            # Kolmogorov and Smirnov's distance: larger in one case of ten thousand.
            assert np.abs(scaled - expected).max() < 2 * 2.25 / len(scaled) ** 0.5
        correlation = np.corrcoef(np.abs(layer.w).mean(axis=0), np.abs(layer.b))[0, 1]
        assert abs(correlation) < 4.0 / len(layer.b) ** 0.5, "a bias is drawn by itself"


def test_outputs_by_action() -> None:
    """Unequal numbers of actions: [..., A, K], and what does not exist is padded."""
    spec = Spec(2, ContextSlice(2, 0, 0), (4, 2))
    network = nets.for_actions(spec, (3,))
    logits = network.apply(network.init(KEY), jnp.ones((5, 2)))
    assert logits.shape == (5, 2, 4)
    assert (logits[:, 1, 2:] == dists.PADDING).all()
    assert (logits[:, 0] > -10.0).all()


def test_an_ensemble_is_its_members_one_by_one() -> None:
    one = nets.mlp((3, 4, 2))
    together = nets.ensemble(one, 5)
    params, x = together.init(KEY), jax.random.normal(KEY, (6, 3))
    found = together.apply(params, x)
    assert found.shape == (5, 6, 2)
    for i, key in enumerate(jax.random.split(KEY, 5)):
        np.testing.assert_allclose(found[i], one.apply(one.init(key), x), rtol=1e-6, atol=1e-7)
    assert np.abs(found[0] - found[1]).max() > 1e-2
    assert together.weight_decay == one.weight_decay


def test_tables_are_not_decayed() -> None:
    assert nets.table((3, 2), 4).weight_decay == 0.0 < nets.mlp((1, 1)).weight_decay
