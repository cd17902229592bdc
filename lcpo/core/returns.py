"""Returns and advantages: the only reader of terminated, truncated and elapsed.

A terminated step has no future. A truncated step has one outside the batch: the recursion stops
there and bootstraps from the value of the true successor, as at the end of the batch. All arrays
are [T, ...]. The recursions are solved by doubling: log2(T) vector operations instead of T.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from lcpo.types import Array


def discounts(gamma: Array | float, elapsed: Array) -> Array:
    """Discount of each step, gamma ** elapsed."""
    return jnp.power(gamma, elapsed)


def advantages(
    reward: Array,
    value: Array,
    next_value: Array,
    discount: Array,
    terminated: Array,
    truncated: Array,
    lam: Array | float,
) -> Array:
    """Generalised advantage estimates.

    delta_t = r_t + discount_t (1 - terminated_t) V(s'_t) - V(s_t)
    A_t = delta_t + discount_t lam (1 - ended_t) A_{t+1},    A_T = 0
    """
    alive = 1.0 - terminated
    delta = reward + discount * alive * next_value - value
    return _backward(discount * lam * alive * (1.0 - truncated), delta)


def returns(
    reward: Array, next_value: Array, discount: Array, terminated: Array, truncated: Array
) -> Array:
    """Discounted returns, bootstrapped at truncated steps and at the end of the batch.

    R_t = r_t + discount_t * (0 if terminated, V(s'_t) if truncated or last, else R_{t+1})
    """
    alive = 1.0 - terminated
    last = jnp.arange(reward.shape[0]) == reward.shape[0] - 1
    last = last.astype(jnp.float32).reshape(-1, *[1] * (reward.ndim - 1))
    cut = jnp.maximum(truncated, last)
    bootstrapped = reward + discount * alive * cut * next_value
    return _backward(discount * alive * (1.0 - cut), bootstrapped)


def vtrace(
    reward: Array,
    value: Array,
    next_value: Array,
    discount: Array,
    terminated: Array,
    truncated: Array,
    ratio: Array,
    max_rho: Array | float = 1.0,
    max_c: Array | float = 1.0,
) -> tuple[Array, Array]:
    """V-trace (Espeholt et al. 2018): value targets v and advantages of steps that mu took.

    ratio_t = pi(a_t|s_t) / mu(a_t|s_t),  rho_t = min(max_rho, ratio_t),  c_t = min(max_c, ratio_t)
    delta_t = rho_t (r_t + discount_t (1 - terminated_t) V(s'_t) - V(s_t))
    v_t = V(s_t) + e_t,    e_t = delta_t + discount_t c_t (1 - ended_t) e_{t+1},    e_T = 0
    A_t = rho_t (r_t + discount_t (1 - terminated_t) v(s'_t) - V(s_t))

    v(s'_t) is V(s'_t) + e_{t+1}, and V(s'_t) at an episode's end and at the end of the batch. Where
    pi is mu, v is the bootstrapped return.
    """
    rho, c = jnp.minimum(max_rho, ratio), jnp.minimum(max_c, ratio)
    alive = 1.0 - terminated
    goes_on = alive * (1.0 - truncated)
    delta = rho * (reward + discount * alive * next_value - value)
    error = _backward(discount * c * goes_on, delta)
    following = jnp.concatenate([error[1:], jnp.zeros_like(error[:1])])
    return value + error, delta + rho * discount * goes_on * following


def one_step(reward: Array, next_value: Array, discount: Array, terminated: Array) -> Array:
    """One-step targets r + discount (1 - terminated) V(s'): nothing but a termination ends them."""
    return reward + discount * (1.0 - terminated) * next_value


def running_returns(
    reward: Array, discount: Array, ended: Array, carried: Array
) -> tuple[Array, Array]:
    """Forward discounted return G_t = discount_t G_{t-1} + r_t, zeroed after an episode's end.

    `carried` is the value left by the batch before. Returns ([T, ...], the value to carry on).
    """
    alive = 1.0 - ended
    kept = discount * jnp.concatenate([jnp.ones_like(reward[:1]), alive[:-1]])
    total = _backward(kept[::-1], reward.at[0].add(kept[0] * carried)[::-1])[::-1]
    return total, total[-1] * alive[-1]


def _backward(a: Array, b: Array) -> Array:
    """Solve x_t = a_t x_{t+1} + b_t with x_T = 0.

    Recursive doubling: after round k, x_t is expressed through x_{t + 2^k}. The barrier keeps XLA
    from fusing all rounds, which on a GPU would compute each of the 2^k terms again.
    """
    ahead = 1
    while ahead < b.shape[0]:
        if ahead in (8, 64, 512):
            a, b = jax.lax.optimization_barrier((a, b))
        beyond = [(0, ahead)] + [(0, 0)] * (b.ndim - 1)
        b = b + a * jnp.pad(b[ahead:], beyond)
        a = a * jnp.pad(a[ahead:], beyond)
        ahead *= 2
    return b
