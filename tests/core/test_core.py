"""Each function of `core` against worked numbers, a slow loop, or a dense solve."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats as scipy_stats

from lcpo import distributions as dists
from lcpo.core import buffers, nets, ood, optim, random, returns, stats, trust_region
from lcpo.distributions import Categorical
from lcpo.errors import InputError
from lcpo.types import ContextSlice

close = np.testing.assert_allclose
RNG = np.random.default_rng(0)
NO_CONTEXT = ContextSlice(0, 0, 0)


def episodes(num_steps: int = 37, num_worlds: int = 3) -> dict[str, np.ndarray]:
    """Random rewards and values with ends of both kinds."""
    shape = (num_steps, num_worlds)
    return {
        "reward": RNG.normal(size=shape).astype(np.float32),
        "value": RNG.normal(size=shape).astype(np.float32),
        "next_value": RNG.normal(size=shape).astype(np.float32),
        "discount": RNG.uniform(0.8, 1.0, shape).astype(np.float32),
        "terminated": (RNG.random(shape) < 0.1).astype(np.float32),
        "truncated": (RNG.random(shape) < 0.1).astype(np.float32),
    }


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["plain", "jit"])
def test_advantages_and_returns_against_a_loop(transform) -> None:
    e = episodes()
    lam = 0.9
    expected_a, expected_r = np.zeros_like(e["reward"]), np.zeros_like(e["reward"])
    for n in range(e["reward"].shape[1]):
        gae, ret = 0.0, e["next_value"][-1, n]
        for t in reversed(range(len(e["reward"]))):
            r, v, v2, d, over, cut = (e[k][t, n] for k in e)
            gae = r + d * (1 - over) * v2 - v + d * lam * (1 - over) * (1 - cut) * gae
            ret = r + d * (1 - over) * (v2 if cut else ret)
            expected_a[t, n], expected_r[t, n] = gae, ret
    found = transform(returns.advantages)(
        e["reward"],
        e["value"],
        e["next_value"],
        e["discount"],
        e["terminated"],
        e["truncated"],
        lam,
    )
    close(found, expected_a, rtol=1e-4, atol=1e-5)
    found = transform(returns.returns)(
        e["reward"], e["next_value"], e["discount"], e["terminated"], e["truncated"]
    )
    close(found, expected_r, rtol=1e-4, atol=1e-5)


def test_vtrace_against_a_loop() -> None:
    """Ratios on both sides of both limits, and episodes that end either way."""
    e = episodes(40, 2)
    ratio = np.exp(np.random.default_rng(1).normal(size=(40, 2)))
    names = ("reward", "value", "next_value", "discount", "terminated", "truncated")
    arrays = [np.asarray(e[name], np.float64) for name in names]
    inputs = {name: jnp.asarray(e[name]) for name in names}
    limits = {"ratio": jnp.asarray(ratio, jnp.float32), "max_rho": 0.9, "max_c": 0.7}
    found = returns.vtrace(**inputs, **limits)
    reward, value, next_value, discount, terminated, truncated = arrays
    rho, c = np.minimum(0.9, ratio), np.minimum(0.7, ratio)
    error, targets, advantages = np.zeros(2), np.zeros((40, 2)), np.zeros((40, 2))
    for t in reversed(range(40)):
        error = np.where((terminated[t] > 0) | (truncated[t] > 0), 0.0, error)
        here = reward[t] - value[t]
        then = discount[t] * (1.0 - terminated[t])
        advantages[t] = rho[t] * (here + then * (next_value[t] + error))
        error = rho[t] * (here + then * next_value[t]) + discount[t] * c[t] * error
        targets[t] = value[t] + error
    close(found[0], targets, rtol=1e-5, atol=1e-5)
    close(found[1], advantages, rtol=1e-5, atol=1e-5)


def test_vtrace_on_policy_is_the_return() -> None:
    """Where values are consistent: that of a state is that of its predecessor's successor."""
    e = episodes(40, 2)
    following = np.concatenate([e["value"][1:], e["next_value"][-1:]])
    ended = np.maximum(e["terminated"], e["truncated"])
    next_value = jnp.asarray(np.where(ended > 0, e["next_value"], following))
    reward, value, *ends = (
        jnp.asarray(e[name]) for name in ("reward", "value", "discount", "terminated", "truncated")
    )
    target, advantage = returns.vtrace(reward, value, next_value, *ends, ratio=jnp.ones((40, 2)))
    expected = returns.returns(reward, next_value, *ends)
    close(target, expected, rtol=1e-4, atol=1e-4)
    close(advantage, expected - e["value"], rtol=1e-4, atol=1e-4)


def test_elapsed_time_discounts() -> None:
    close(returns.discounts(0.9, jnp.array([1.0, 2.0, 0.5])), [0.9, 0.81, 0.9**0.5], rtol=1e-6)


def test_running_returns_carry_across_batches() -> None:
    e = {k: jnp.asarray(v) for k, v in episodes(40, 1).items()}
    ended = jnp.maximum(e["terminated"], e["truncated"])
    whole, last = returns.running_returns(e["reward"], e["discount"], ended, jnp.zeros(1))
    first, carried = returns.running_returns(
        e["reward"][:15], e["discount"][:15], ended[:15], jnp.zeros(1)
    )
    second, last_of_two = returns.running_returns(
        e["reward"][15:], e["discount"][15:], ended[15:], carried
    )
    close(jnp.concatenate([first, second]), whole, rtol=1e-5, atol=1e-5)
    close(last_of_two, last, rtol=1e-5, atol=1e-6)


def test_running_moments_equal_those_of_all_values() -> None:
    moments, everything = stats.moments_init(), RNG.normal(3.0, 2.0, (5, 40)).astype(np.float32)
    for values in everything:
        moments = stats.moments_add(moments, values)
    close(moments.mean, everything.mean(), rtol=1e-4)
    close(moments.var, everything.var(), rtol=1e-4)
    close(moments.weight, everything.size, rtol=1e-5)


def test_unequal_action_counts_are_padded() -> None:
    outputs = jnp.asarray(RNG.normal(size=(8, 2 * 4)), jnp.float32)
    logits = dists.to_logits(outputs, (4, 2))
    actions = jax.vmap(lambda u: dists.sample(logits, u))(
        jax.random.uniform(jax.random.key(0), (500, 8, 2))
    )
    assert actions[..., 0].max() == 3
    assert actions[..., 1].max() == 1
    close(
        dists.entropy(jnp.zeros((1, 2, 4)).at[0, 1, 2:].set(dists.PADDING)), [np.log(8)], rtol=1e-6
    )
    close(Categorical((4, 2)).max_entropy, np.log(8))


def test_an_action_of_probability_zero_is_never_drawn() -> None:
    """Not at the largest u below 1, where float32 probabilities may sum to less, nor at u = 0."""
    rng = np.random.default_rng(0)
    below_one = np.nextafter(np.float32(1.0), np.float32(0.0))
    outputs = jnp.asarray(rng.normal(0.0, 3.0, (50_000, 3 * 6)), jnp.float32)
    for counts in ((6, 4, 1), (6, 6, 6)):
        logits = dists.to_logits(outputs, counts)
        found = np.asarray(dists.sample(logits, jnp.full((50_000, 3), below_one)))
        total = jnp.cumsum(jax.nn.softmax(logits), axis=-1)[..., -1]
        assert (total[:, 1] <= below_one).mean() > 0.1, "no sum is that small: this tests nothing"
        np.testing.assert_array_equal(found.max(axis=0), np.array(counts) - 1)
    impossible = jnp.array([[[-jnp.inf, 0.0, -jnp.inf, 1.0, -200.0, -jnp.inf]]])
    for u, expected in ((0.0, 1), (0.2, 1), (0.5, 3), (below_one, 3)):
        assert int(dists.sample(impossible, jnp.full((1, 1), u))[0, 0]) == expected


def test_draws_are_those_of_the_inverse_distribution_function() -> None:
    """Wherever u is not within rounding of a cumulative probability."""
    rng = np.random.default_rng(0)
    logits = jnp.asarray(rng.normal(0.0, 2.0, (20_000, 2, 5)), jnp.float32)
    uniform = jax.random.uniform(jax.random.key(0), (20_000, 2))
    p = np.exp(np.asarray(logits, np.float64))
    cumulative = np.cumsum(p / p.sum(-1, keepdims=True), axis=-1)
    gap = np.asarray(uniform, np.float64)[..., None] - cumulative
    clear = np.abs(gap[..., :-1]).min(-1) > 1e-6
    assert clear.mean() > 0.99
    found = np.asarray(dists.sample(logits, uniform))
    np.testing.assert_array_equal(found[clear], (gap[..., :-1] >= 0.0).sum(-1)[clear])


def test_actions_that_do_not_exist_count_for_nothing() -> None:
    """Dimensions of 5 and 3 actions, padded, against each by itself."""
    rng = np.random.default_rng(0)
    outputs = jnp.asarray(rng.normal(size=(2, 7, 2 * 5)), jnp.float32)
    both = dists.to_logits(outputs, (5, 3))
    apart = [both[..., :1, :], both[..., 1:, :3]]
    action = jnp.asarray(rng.integers(0, 3, (7, 2)))
    close(dists.entropy(both), sum(dists.entropy(x) for x in apart), rtol=1e-5)
    close(dists.kl(*both), sum(dists.kl(*x) for x in apart), rtol=1e-4, atol=1e-6)
    each = [dists.log_prob(x[0], action[:, d : d + 1]) for d, x in enumerate(apart)]
    close(dists.log_prob(both[0], action), sum(each), rtol=1e-5)
    gradient = jax.grad(lambda o: dists.entropy(dists.to_logits(o, (5, 3))).sum())(outputs[0])
    assert np.isfinite(gradient).all()
    assert not np.any(gradient[:, 8:])
    assert (jnp.argmax(both, axis=-1)[..., 1] < 3).all()


def test_samples_follow_the_distribution() -> None:
    logits = jnp.asarray(RNG.normal(size=(1, 1, 6)), jnp.float32)
    uniform = jax.random.uniform(jax.random.key(1), (20_000, 1))
    counts = np.bincount(np.asarray(dists.sample(logits, uniform)).ravel(), minlength=6)
    expected = np.asarray(jax.nn.softmax(logits), np.float64).ravel() * 20_000
    assert scipy_stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-3


def test_scan_keys_give_uniform_independent_numbers() -> None:
    keys = random.scan_keys(jax.random.key(0), (4000,))
    numbers = np.asarray(jax.vmap(lambda k: jax.random.uniform(k, (3,)))(keys))
    for column in numbers.T:
        assert scipy_stats.kstest(column, "uniform").pvalue > 1e-3
    correlation = np.corrcoef(np.concatenate([numbers, np.roll(numbers, 1, 0)], axis=1).T)
    assert np.abs(correlation - np.eye(6)).max() < 0.06
    children = jax.vmap(lambda k: jax.random.uniform(jax.random.split(k)[0]))(keys)
    assert abs(np.corrcoef(children, numbers[:, 0])[0, 1]) < 0.06


def test_a_keys_children_are_not_the_numbers_that_it_gives() -> None:
    key = random.scan_keys(jax.random.key(0), (1,))[0]
    given = np.asarray(jax.random.bits(key, (64,)))
    assert not np.isin(jax.random.key_data(jax.random.split(key, 16)), given).any()


def test_scan_keys_fold_in_what_they_are_given() -> None:
    """Each message gives another key, unlike the key itself."""
    key = random.scan_keys(jax.random.key(0), (1,))[0]
    folded = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(1000))
    numbers = np.asarray(jax.vmap(jax.random.uniform)(folded))
    assert len(np.unique(numbers)) > 990
    assert scipy_stats.kstest(numbers, "uniform").pvalue > 1e-3
    assert jax.random.uniform(key) not in numbers


def test_clipping_and_l2_enter_adam() -> None:
    params, grads = jnp.array([2.0, -1.0]), jnp.array([30.0, 40.0])
    optimiser = optim.adam(0.1, max_norm=0.5, eps=1e-5, weight_decay=0.01)
    after, state = optim.apply(optimiser, grads, optimiser.init(params), params)
    clipped = grads * 0.5 / (50.0 + 1e-6) + 0.01 * params
    close(after - params, -0.1 * clipped / (np.abs(clipped) + 1e-5), rtol=1e-4)
    moments = next(part for part in state if hasattr(part, "mu"))
    close(moments.mu, 0.1 * clipped, rtol=1e-5)  # the step alone hardly tells their size
    close(moments.nu, 0.001 * clipped**2, rtol=1e-5)


ACTIONS = Categorical((4,))


class Toy:
    """A small policy on random states, its dense Fisher matrix, and a gradient."""

    def __init__(self, seed: int = 0, num_states: int = 30) -> None:
        keys = jax.random.split(jax.random.key(seed), 3)
        self.network = nets.per_action(nets.mlp((3, 5, 4)), ACTIONS)
        self.policy = self.network.init(keys[0])
        self.obs = jax.random.normal(keys[1], (num_states, 3))
        self.flat, self.unravel = ravel_pytree(self.policy)
        self.gradient = jax.random.normal(keys[2], self.flat.shape) * 0.1

    def fisher(self, policy: nets.Layers | None = None) -> tuple[trust_region.Product, jax.Array]:
        """The product, with a damping of 0.1, and the logits of this policy or another."""
        return trust_region.fisher_product(
            ACTIONS, self.network, policy or self.policy, self.obs, 0.1
        )

    def logits(self, policy) -> jax.Array:
        return self.network.apply(policy, self.obs)

    def kl(self, flat: jax.Array) -> jax.Array:
        old = self.logits(self.policy)
        return jnp.mean(dists.kl(old, self.logits(self.unravel(flat))))

    def dense(self, damping: float) -> np.ndarray:
        hessian = np.asarray(jax.jit(jax.hessian(self.kl))(self.flat), np.float64)
        return hessian + damping * np.eye(len(hessian))


def test_fisher_product_is_the_hessian_of_the_kl() -> None:
    toy = Toy()
    product, logits = toy.fisher()
    found = jax.jit(jax.vmap(product))(jnp.eye(toy.flat.size))
    close(found, toy.dense(0.1), rtol=0, atol=2e-6)
    close(logits, toy.logits(toy.policy))


def test_conjugate_gradient_solves() -> None:
    toy = Toy()
    product, _ = toy.fisher()
    found = trust_region.conjugate_gradient(product, toy.gradient)
    expected = np.linalg.solve(toy.dense(0.1), toy.gradient)
    close(found, expected, rtol=0, atol=1e-3 * np.abs(expected).max())


def test_conjugate_gradient_of_nothing_is_nothing() -> None:
    zeros = jnp.zeros(7)
    assert jnp.all(trust_region.conjugate_gradient(lambda v: v, zeros) == 0.0)
    assert jnp.all(trust_region.constrained_step(lambda v: v, zeros, 0.1) == 0.0)


def test_the_constraint_is_tight_at_the_full_step() -> None:
    toy = Toy()
    product, _ = toy.fisher()
    step = trust_region.constrained_step(product, toy.gradient, 0.01)
    close(0.5 * jnp.dot(step, product(step)), 0.01, rtol=1e-3)
    assert jnp.dot(step, toy.gradient) < 0.0


def test_doubly_constrained_step_against_a_dense_solve() -> None:
    """Where both constraints bind, both are tight and the step is the dense solution's."""
    both = 0
    for seed in range(3):
        out, recent = Toy(seed), Toy(seed + 10)
        product_out, product_in = (t.fisher(out.policy)[0] for t in (out, recent))
        recent.policy, recent.flat = out.policy, out.flat
        dense_out, dense_in = out.dense(0.1), recent.dense(0.1)
        g = np.asarray(out.gradient, np.float64)
        x_out, x_in = -np.linalg.solve(dense_out, g), -np.linalg.solve(dense_in, g)
        # Limits between which both bind: the step along x_out breaks the second constraint, the
        # one along x_in does not.
        edges = [(x @ dense_in @ x) / (x @ dense_out @ x) for x in (x_in, x_out)]
        limits = 1e-3, 1e-3 * float(np.mean(edges))
        step, ratio = trust_region.doubly_constrained_step(
            product_out, product_in, out.gradient, *limits
        )
        if ratio == 0.0:
            continue
        both += 1
        s = np.asarray(step, np.float64)
        close(0.5 * s @ dense_out @ s, limits[0], rtol=2e-3)
        close(0.5 * s @ dense_in @ s, limits[1], rtol=2e-3)
        expected = x_out + float(ratio) * x_in
        expected *= np.sqrt(2 * limits[0] / (expected @ dense_out @ expected))
        close(s, expected, rtol=0, atol=2e-3 * np.abs(expected).max())
    assert both >= 2


def test_a_slack_second_constraint_leaves_the_plain_step() -> None:
    toy = Toy()
    product, _ = toy.fisher()
    step, ratio = trust_region.doubly_constrained_step(product, product, toy.gradient, 1e-3, 1.0)
    assert ratio == 0.0
    close(step, trust_region.constrained_step(product, toy.gradient, 1e-3))


def test_line_search_halves_until_all_limits_hold() -> None:
    """Loss falls linearly, KL grows quadratically: 1/4 is the first fraction under the limit."""

    def evaluate(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return -x[0], jnp.stack([0.01 * x[0], x[0] ** 2])

    arguments = (jnp.zeros(1), jnp.float32(0.0), jnp.array([2.0]), jnp.array([-1.0]))
    found = trust_region.line_search(evaluate, *arguments, jnp.array([1.0, 0.3]))
    assert found.fraction == 0.25
    close(found.params, [0.5])
    close(found.kls, [0.005, 0.25], rtol=1e-6)


def search(loss: Callable[[jax.Array], jax.Array], kl_limit: float) -> trust_region.LineSearch:
    """From 0 along a step of length 1, where the gradient promises a loss of -1; the KL is x."""

    def evaluate(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return loss(x[0]), jnp.stack([x[0]])

    start = (jnp.zeros(1), jnp.float32(0.0), jnp.ones(1), jnp.array([-1.0]))
    return trust_region.line_search(evaluate, *start, jnp.array([kl_limit]))


@pytest.mark.parametrize(("share", "fraction"), [(0.09, 0.0), (0.11, 1.0)])
def test_a_tenth_of_what_was_promised_is_asked_for(share: float, fraction: float) -> None:
    """At every fraction the loss falls by this share of the promise."""
    assert search(lambda x: -share * x, kl_limit=1.0).fraction == fraction


def test_the_promise_shrinks_with_the_step() -> None:
    """A loss that falls by 0.04 at the full step, and by 0.03 at half: 0.06 of what was promised.

    At a quarter it falls by 0.0275: 0.11.
    """
    found = search(lambda x: -0.025 - 0.01 * x, kl_limit=1.0)
    assert found.fraction == 0.25


def test_a_limit_that_is_just_met_is_met_and_ten_fractions_are_tried() -> None:
    assert search(lambda x: -x, kl_limit=1.0).fraction == 1.0
    assert search(lambda x: -x, kl_limit=1.0 / 512).fraction == 1.0 / 512
    assert search(lambda x: -x, kl_limit=1.0 / 600).fraction == 0.0


@pytest.mark.parametrize("given", [(), (8,)])
def test_conjugate_gradient_takes_fifteen_iterations(given: tuple[int, ...]) -> None:
    """Or those it is given, of 40 that it would need: the best point of that Krylov space."""
    (count,) = given or (15,)
    scale, target = np.linspace(1.0, 30.0, 40), np.ones(40)

    def product(vector: jax.Array) -> jax.Array:
        return jnp.asarray(scale) * vector

    found = trust_region.conjugate_gradient(product, jnp.asarray(target), *given)
    step = trust_region.constrained_step(product, jnp.asarray(-target), 0.01, *given)
    close(step / jnp.linalg.norm(step), found / jnp.linalg.norm(found), rtol=1e-5)

    def best(dimensions: int) -> float:
        """The least 1/2 x'Fx - b.x, in a basis of the space that is orthogonal."""
        basis = np.linalg.qr(np.vander(scale / 15.5 - 1.0, dimensions, increasing=True))[0]
        return -0.5 * float(
            (basis.T @ target) @ np.linalg.solve(basis.T * scale @ basis, basis.T @ target)
        )

    x = np.asarray(found, np.float64)
    value = 0.5 * x @ (scale * x) - target @ x
    assert best(count) - 1e-6 < value < 0.5 * (best(count) + best(count - 1))


def test_a_failed_line_search_changes_nothing() -> None:
    def evaluate(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x[0], jnp.stack([jnp.nan])

    arguments = (jnp.array([3.0]), jnp.float32(1.0), jnp.array([2.0]), jnp.array([-1.0]))
    found = trust_region.line_search(evaluate, *arguments, jnp.array([1.0]))
    assert found.params == 3.0
    assert found.fraction == 0.0


def test_reservoir_is_a_uniform_sample_of_the_past() -> None:
    """Each of 400 items is kept with probability capacity / 400, wherever it came."""
    capacity, batch, num_batches, trials = 40, 50, 8, 400

    def fill(key: jax.Array) -> jax.Array:
        reservoir = buffers.reservoir_init(capacity, (1,))
        for i, k in enumerate(jax.random.split(key, num_batches)):
            items = (i * batch + jnp.arange(batch, dtype=jnp.float32))[:, None]
            reservoir = buffers.reservoir_add(reservoir, items, k)
        return reservoir.items[:, 0]

    kept = np.asarray(jax.jit(jax.vmap(fill))(jax.random.split(jax.random.key(0), trials)))
    counts = np.bincount(kept.astype(int).ravel(), minlength=batch * num_batches)
    assert all(len(set(row)) == capacity for row in kept)
    assert scipy_stats.chisquare(counts).pvalue > 1e-3
    by_batch = counts.reshape(num_batches, batch).sum(axis=1)
    assert scipy_stats.chisquare(by_batch).pvalue > 1e-3


def test_the_later_of_two_items_in_one_slot_stays() -> None:
    """One slot: after n items it holds the last one that drew it, as one by one."""
    reservoir = buffers.reservoir_init(1, (1,))
    for trial in range(50):
        key = jax.random.key(trial)
        items = jnp.arange(20.0)[:, None]
        found = buffers.reservoir_add(reservoir, items, key).items[0, 0]
        drawn = np.array(jax.random.randint(key, (20,), 0, jnp.arange(20) + 1))
        assert int(found) == np.flatnonzero(drawn == 0)[-1]


def test_sampler_success_is_the_papers_binomial() -> None:
    """b = 200 of s = 5b draws: 5.6 % at p = 0.18, 94.2 % at p = 0.22."""
    for share, expected in {0.18: 0.056, 0.22: 0.942}.items():
        exact = scipy_stats.binom.sf(199, 1000, share)
        assert abs(exact - expected) < 1e-3
        items = (jnp.arange(10_000.0) < share * 10_000).astype(jnp.float32)[:, None]
        reservoir = buffers.Reservoir(items, jnp.int32(10_000))

        def found(key: jax.Array, reservoir=reservoir) -> jax.Array:
            return ood.sample_ood(reservoir, lambda x: 4.0 * x[:, 0], 1.0, 200, 5, key)[1]

        rate = jax.vmap(found)(jax.random.split(jax.random.key(0), 2000)).mean()
        assert abs(rate - expected) < 4 * np.sqrt(expected * (1 - expected) / 2000)


def test_anchors_are_the_first_ood_draws() -> None:
    items = jnp.arange(100.0)[:, None]
    reservoir, key = buffers.Reservoir(items, jnp.int32(100)), jax.random.key(3)
    anchors, found, share = ood.sample_ood(reservoir, lambda x: x[:, 0], 7.0, 5, 5, key)
    drawn = np.asarray(buffers.reservoir_sample(reservoir, 25, key))[:, 0]
    assert found
    close(anchors[:, 0], drawn[drawn > 49.0][:5])
    close(share, np.mean(drawn > 49.0), rtol=1e-6)


def test_enough_is_exactly_as_many_as_wanted() -> None:
    items = jnp.arange(100.0)[:, None]
    reservoir, key = buffers.Reservoir(items, jnp.int32(100)), jax.random.key(3)
    drawn = np.sort(np.asarray(buffers.reservoir_sample(reservoir, 25, key))[:, 0])
    farther = [int((drawn > value).sum()) for value in drawn]
    assert {4, 5, 6} <= set(farther)
    for value, number in zip(drawn, farther, strict=True):

        def distance(x: jax.Array, value: float = value) -> jax.Array:
            return jnp.where(x[:, 0] > value, 2.0, 0.5)

        assert ood.sample_ood(reservoir, distance, 1.0, 5, 5, key)[1] == (number >= 5)


def test_only_slots_that_hold_an_item_are_drawn() -> None:
    reservoir = buffers.reservoir_init(64, (1,))
    reservoir = buffers.reservoir_add(reservoir, jnp.arange(1.0, 5.0)[:, None], jax.random.key(0))
    drawn = buffers.reservoir_sample(reservoir, 200, jax.random.key(1))
    assert set(np.asarray(drawn).ravel()) == {1.0, 2.0, 3.0, 4.0}


def test_an_empty_reservoir_gives_no_anchors() -> None:
    reservoir = buffers.reservoir_init(10, (2,))
    _, found, share = ood.sample_ood(
        reservoir, lambda x: jnp.full(len(x), 9.0), 1.0, 4, 5, jax.random.key(0)
    )
    assert not found
    assert share == 0.0


def test_mahalanobis_survives_nearly_collinear_columns() -> None:
    """Slow wind: three lags that differ by 5e-4 beside speeds of order 1 (float64 as the truth)."""
    steps = np.cumsum(RNG.normal(0, 4.6e-4, 203)) + 2.0
    lags = np.stack([steps[2:-1], steps[1:-2], steps[:-3]], axis=1)
    recent = np.concatenate([RNG.normal(0, 3, (200, 3)), lags, np.ones((200, 1))], axis=1)
    data = recent[:50] + RNG.normal(0, 1e-3, (50, 7))
    data[:, -1] = 5.0  # a column that never varied is left out
    recent32, data32 = recent.astype(np.float32), data.astype(np.float32)
    found = ood.mahalanobis_full(ContextSlice(3, 1, 3), jnp.asarray(recent32), jnp.asarray(data32))
    used = recent32[:, :6].astype(np.float64)
    offset = data32[:, :6] - used.mean(axis=0)
    expected = np.sum(offset @ np.linalg.inv(np.cov(used.T)) * offset, axis=1) / 6
    close(found, expected, rtol=2e-2)


@pytest.mark.parametrize("value", [0.1, 1.7, -3.3])
def test_a_constant_column_is_left_out_whatever_its_value(value: float) -> None:
    """The float32 mean of 200 times 0.1 is not 0.1."""
    rng = np.random.default_rng(0)
    recent, data = (rng.normal(size=(n, 4)).astype(np.float32) for n in (200, 9))
    recent[:, 2] = value
    found = ood.mahalanobis_full(NO_CONTEXT, jnp.asarray(recent), jnp.asarray(data))
    rest = (jnp.asarray(x[:, [0, 1, 3]]) for x in (recent, data))
    close(found, ood.mahalanobis_full(NO_CONTEXT, *rest), rtol=1e-4)


def test_row_sum_filter_drops_columns_that_vary_and_divides_by_all() -> None:
    """By hand, in float64: columns 1 (covariances sum to less than 0) and 3 (constant) go."""
    rng = np.random.default_rng(0)
    recent, data = (rng.normal(size=(n, 4)) for n in (200, 9))
    recent[:, 1] = -0.6 * recent[:, 0] + 0.2 * recent[:, 1]
    sums = np.cov(recent[:, :3].T).sum(axis=1)
    np.testing.assert_array_equal(sums > 0.0, [True, False, True])
    rows = recent, data = recent.astype(np.float32), data.astype(np.float32)
    varying = ood.row_sum_filter(NO_CONTEXT, *map(jnp.asarray, rows))
    close(varying, ood.mahalanobis_full(NO_CONTEXT, *map(jnp.asarray, rows)), rtol=1e-5)
    recent[:, 3] = 0.3
    found = ood.row_sum_filter(NO_CONTEXT, *map(jnp.asarray, rows))
    used = recent[:, [0, 2]].astype(np.float64)
    offset = data[:, [0, 2]] - used.mean(axis=0)
    close(found, np.sum(offset @ np.linalg.inv(np.cov(used.T)) * offset, axis=1) / 4, rtol=1e-3)


def test_unknown_detectors_are_named() -> None:
    with pytest.raises(ValueError, match="did you mean 'mahalanobis'"):
        ood.find_detector("mahalanobi")


def test_a_detector_of_ones_own_is_a_record_or_a_function() -> None:
    mine = ood.find_detector("lcpo.core.ood:l2")
    assert mine == ood.Detector(ood.l2, needs_context=False)
    assert ood.find_detector(f"{__name__}:STRICT") is STRICT
    with pytest.raises(InputError, match="is a float: needs an"):
        ood.find_detector("lcpo.core.ood:RIDGE")


STRICT = ood.Detector(ood.l2, needs_context=True)


def test_context_entries_by_channel_and_lag() -> None:
    """Two channels of three lags from entry 2 on, the newest first."""
    context, obs = ContextSlice(2, 2, 3), jnp.arange(20.0).reshape(2, 10)
    close(context.entries(obs)[0], [2, 3, 4, 5, 6, 7])
    close(context.history(obs)[1], [[12, 13, 14], [15, 16, 17]])
    close(context.newest(obs), [[2, 5], [12, 15]])
    close(context.remove(obs)[0], [0, 1, 8, 9])
    close(context.insert(context.remove(obs), context.history(obs)), obs)
    none = ContextSlice(10, 0, 0)
    assert none.newest(obs).shape == (2, 0)
    close(none.insert(none.remove(obs), none.history(obs)), obs)
