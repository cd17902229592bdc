"""The constrained step: Fisher product, conjugate gradient, step length, limits, line search.

    minimise   L(theta)
    subject to E_i[ KL(pi_old || pi) ] <= c_i           a `Limit` for each set of states i

    7      g(x) = (F + damping I) x                     `fisher_product`
    8      v_c <- conjgrad(v, g), of such a length that 1/2 v_c' g(v_c) = c
                                                        `constrained_step`
    9-12   while L does not improve or a limit is violated: v_c <- v_c / 2; theta <- theta + v_c
                                                        `backtrack`

The numbers are lines of the LCPO paper's Algorithm 1. An agent calls the three with a gradient, a
loss and limits of its own. Flat vectors are `ravel_pytree` of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from lcpo.core.nets import Network
from lcpo.distributions import Distribution
from lcpo.types import Array

CG_ITERATIONS = 15
CG_TOLERANCE = 1e-10
MAX_BACKTRACKS = 10
MIN_IMPROVEMENT_RATIO = 0.1

Product = Callable[[Array], Array]
Carry = TypeVar("Carry")


class Limit(NamedTuple):
    """The mean KL(old || new) on `obs` must not exceed `max_kl`."""

    obs: Array  # [M, D]
    old: Array  # [M, A, P], the old policy's parameters of the distribution
    max_kl: Array | float


def fisher_product(
    actions: Distribution, policy: Network, params: Any, obs: Array, damping: Array | float
) -> tuple[Product, Array]:
    """v -> (F + damping I) v, F the Hessian of mean KL(old || new) on `obs` at the old parameters.

    Also the old policy's outputs on `obs`, for a `Limit`. At the old parameters the Hessian of the
    KL is exactly its Gauss-Newton form, J' H J, with J the Jacobian of the network and H the
    distribution's own curvature: one forward and one backward pass through a linearised network.
    """
    _, unravel = ravel_pytree(params)
    old, jvp = jax.linearize(lambda params: policy.apply(params, obs), params)
    transpose = jax.linear_transpose(jvp, params)
    curvature = actions.curvature(old)

    def product(vector: Array) -> Array:
        (back,) = transpose(curvature(jvp(unravel(vector))) / len(obs))
        # The barrier keeps XLA from assembling the flat vector again in each place that reads it.
        return jax.lax.optimization_barrier(ravel_pytree(back)[0]) + damping * vector

    return product, old


def conjugate_gradient(product: Product, target: Array, iterations: int = CG_ITERATIONS) -> Array:
    """Solve product(x) = target from x = 0, in at most `iterations`: line 8 of Algorithm 1."""
    on_cpu = jax.default_backend() == "cpu"

    def unfinished(carry: tuple[Array, ...]) -> Array:
        return (carry[0] < iterations) & (carry[-1] >= CG_TOLERANCE)

    def iterate(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        i, x, residual, direction, rr = carry
        curved = product(direction)
        unsolved = rr >= CG_TOLERANCE
        alpha = jnp.where(unsolved, rr / jnp.dot(direction, curved), 0.0)
        x, residual = x + alpha * direction, residual - alpha * curved
        rr_new = jnp.dot(residual, residual)
        if not on_cpu:  # one kernel for the vector, one for its norm: together they are slower
            residual, rr_new = jax.lax.optimization_barrier((residual, rr_new))
        direction = residual + jnp.where(unsolved, rr_new / rr, 0.0) * direction
        return i + 1, x, residual, direction, rr_new

    start = (jnp.int32(0), jnp.zeros_like(target), target, target, jnp.dot(target, target))
    return bounded_while(unfinished, iterate, start, iterations, unroll=True)[1]


def bounded_while(
    unfinished: Callable[[Carry], Array],
    step: Callable[[Carry], Carry],
    start: Carry,
    limit: int,
    unroll: bool = False,
) -> Carry:
    """`step` while `unfinished`, at most `limit` times; after that `step` must change nothing.

    On a CPU the loop ends early. Elsewhere runs are vmapped: a loop with an early exit would wait
    for all runs, and copy all that it carries in every iteration.
    """
    if jax.default_backend() == "cpu":
        return jax.lax.while_loop(unfinished, step, start)
    return jax.lax.fori_loop(0, limit, lambda _, carry: step(carry), start, unroll=unroll)


def constrained_step(
    product: Product, gradient: Array, limit: Array | float, iterations: int = CG_ITERATIONS
) -> Array:
    """The step that descends fastest while 1/2 s' F s = limit: s = sqrt(2 limit / -g.x) x.

    x solves F x = -g. Zero where the gradient is zero.
    """
    x = conjugate_gradient(product, -gradient, iterations)
    return _scale_to_limit(x, -jnp.dot(gradient, x), limit)


def doubly_constrained_step(
    product_out: Product,
    product_in: Product,
    gradient: Array,
    limit_out: Any,
    limit_in: Any,
    iterations: int = CG_ITERATIONS,
    published_algebra: bool = False,
) -> tuple[Array, Array]:
    """The step for two quadratic constraints at once: l (x_out + r x_in), and the ratio r.

    With F_out x_out = F_in x_in = -g, r >= 0 is chosen so that both constraints are tight:
    q_in(r) / limit_in = q_out(r) / limit_out, where q(r) = 1/2 s' F s for s = x_out + r x_in.
    Where no positive root exists the second constraint is slack: the plain step, and r = 0.

    published_algebra: the two slips of the code behind the paper. It takes x_in' F_out x_out for
    x_in' F_out x_in, and repeats q_in's quadratic coefficient as its constant in the scale l.
    """
    x_out = conjugate_gradient(product_out, -gradient, iterations)
    x_in = conjugate_gradient(product_in, -gradient, iterations)
    v_out, v_in = -jnp.dot(gradient, x_out), -jnp.dot(gradient, x_in)
    # q(r) = a r^2 + b r + c. The cross terms are exact: F_in x_in = F_out x_out = -g.
    a_in, b_in, c_in = 0.5 * v_in, v_out, 0.5 * jnp.dot(x_out, product_in(x_out))
    mixed = x_out if published_algebra else x_in
    a_out, b_out, c_out = 0.5 * jnp.dot(mixed, product_out(x_in)), v_in, 0.5 * v_out
    a = a_in / limit_in - a_out / limit_out
    b = b_in / limit_in - b_out / limit_out
    c = c_in / limit_in - c_out / limit_out
    discriminant = b**2 - 4.0 * a * c
    root = jnp.sqrt(jnp.maximum(discriminant, 0.0))
    r = jnp.maximum((-b + root) / (2.0 * a), (-b - root) / (2.0 * a))
    both = (discriminant >= 0.0) & (r > 0.0) & jnp.isfinite(r)
    r = jnp.where(both, r, 0.0)
    q_in = a_in * r**2 + b_in * r + (a_in if published_algebra else c_in)
    scale = jnp.sqrt(limit_in / jnp.where(both, q_in, 1.0))
    step = jnp.where(both, scale * (x_out + r * x_in), _scale_to_limit(x_out, v_out, limit_out))
    return step, r


def _scale_to_limit(x: Array, quadratic: Array, limit: Array | float) -> Array:
    positive = quadratic > 0.0
    return jnp.where(positive, jnp.sqrt(2.0 * limit / jnp.where(positive, quadratic, 1.0)), 0.0) * x


class LineSearch(NamedTuple):
    """Outcome of a backtracking line search."""

    params: Array  # flat; the old ones where no trial was accepted
    fraction: Array  # of the full step; 0 where no trial was accepted
    loss: Array  # at the accepted point, or the old one
    kls: Array  # [number of constraints], at the accepted point, or 0


def backtrack(
    actions: Distribution,
    policy: Network,
    params: Any,
    gradient: Array,
    step: Array,
    loss: Callable[..., Array],
    limits: Sequence[Limit],
) -> tuple[Any, LineSearch]:
    """Halve `step` until the loss improves and all limits hold: the new parameters, the outcome.

    `loss(*new)` gets the new policy's outputs on the states of each limit: one pass through the
    network serves the loss and all limits.
    """
    flat, unravel = ravel_pytree(params)
    obs = jnp.concatenate([limit.obs for limit in limits])
    old = jnp.concatenate([limit.old for limit in limits])
    ends = np.cumsum([len(limit.obs) for limit in limits])[:-1]

    def evaluate(flat: Array) -> tuple[Array, Array]:
        new = policy.apply(unravel(flat), obs)
        kls = jnp.split(actions.kl(old, new), ends)
        return loss(*jnp.split(new, ends)), jnp.stack([jnp.mean(kl) for kl in kls])

    before = loss(*[limit.old for limit in limits])
    max_kls = jnp.stack([limit.max_kl for limit in limits])
    search = line_search(evaluate, flat, before, step, gradient, max_kls)
    return unravel(search.params), search


def line_search(
    evaluate: Callable[[Array], tuple[Array, Array]],
    params: Array,
    loss_old: Array,
    step: Array,
    gradient: Array,
    limits: Array,
) -> LineSearch:
    """Try fractions 1, 1/2, ..., 1/512 of `step`; `evaluate(flat params) -> (loss, kls)`.

    A trial is accepted if the loss improves by more than a tenth of the linear prediction on
    `loss_old`, that at `params`, and every KL is within its limit.
    """
    predicted = -jnp.dot(gradient, step)

    def unfinished(carry: tuple[Array, ...]) -> Array:
        i, accepted, *_ = carry
        return ~accepted & (i < MAX_BACKTRACKS)

    def attempt(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        i = carry[0]
        fraction = 0.5 ** i.astype(jnp.float32)
        loss, kls = evaluate(params + fraction * step)
        improvement = loss_old - loss
        accepted = (
            (improvement > 0.0)
            & (improvement > MIN_IMPROVEMENT_RATIO * fraction * predicted)
            & jnp.all(kls <= limits)
        )
        return i + 1, accepted, fraction, loss, kls

    start = (jnp.int32(0), jnp.bool_(False), jnp.float32(0.0), loss_old, jnp.zeros_like(limits))
    # The first trial stands before the loop: a GPU's host waits for each answer of `unfinished`.
    _, accepted, fraction, loss, kls = jax.lax.while_loop(unfinished, attempt, attempt(start))
    fraction = jnp.where(accepted, fraction, 0.0)
    return LineSearch(
        params + fraction * jnp.where(accepted, step, 0.0),
        fraction,
        jnp.where(accepted, loss, loss_old),
        jnp.where(accepted, kls, 0.0),
    )
