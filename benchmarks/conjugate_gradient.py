"""What float32 costs conjugate gradient: `python benchmarks/conjugate_gradient.py`.

Fisher matrices of the Pendulum's policy (9-64-64-15, 200 states, damping 0.1), whose weights are
multiplied to make it surer of itself, so that they are ill-conditioned. The error of a solution is
that against 15 iterations in float64, in the norm of the matrix. Prints, for each way to solve,
the geometric mean of the error and the largest, and the time of a solution beside the library's.

library          `trust_region.conjugate_gradient`
hessian          the product is the published code's: the KL differentiated twice
replaced         the residual is computed anew in the middle, at the cost of a product
exact product    the product in float64, all else in float32
against 4, 15    each residual is made orthogonal to the first 4, or to all, that went before
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from lcpo import distributions as dists
from lcpo.core import nets, trust_region
from lcpo.core.trust_region import CG_ITERATIONS, Product
from lcpo.distributions import Categorical
from lcpo.run.worker import cores, pin
from lcpo.study.report.cells import columns
from lcpo.study.report.tables import Table
from lcpo.types import Array

STATES, PROBLEMS, TURNS, DAMPING = 200, 20, 40, 0.1
ACTIONS = Categorical((15,))
NETWORK = nets.per_action(nets.mlp((9, 64, 64, 15)), ACTIONS)


def problem(scale: float, seed: int) -> tuple[Any, Array, Array]:
    """Parameters, states and a policy gradient with random advantages."""
    keys = jax.random.split(jax.random.key(seed), 4)
    params = jax.tree.map(lambda x: scale * x.astype(jnp.float32), NETWORK.init(keys[0]))
    states = jax.random.normal(keys[1], (STATES, 9), jnp.float32)
    uniform = jax.random.uniform(keys[2], (STATES, 1), jnp.float32)
    action = dists.sample(NETWORK.apply(params, states), uniform)
    advantage = jax.random.normal(keys[3], (STATES,), jnp.float32)

    def loss(params: Any) -> Array:
        return jnp.mean(advantage * dists.log_prob(NETWORK.apply(params, states), action))

    return params, states, ravel_pytree(jax.grad(loss)(params))[0]


def gauss_newton(params: Any, states: Array) -> Product:
    damping = jnp.asarray(DAMPING, states.dtype)
    return trust_region.fisher_product(ACTIONS, NETWORK, params, states, damping)[0]


def hessian(params: Any, states: Array) -> Product:
    flat, unravel = ravel_pytree(params)
    old = NETWORK.apply(params, states)
    slope = jax.grad(lambda x: jnp.mean(dists.kl(old, NETWORK.apply(unravel(x), states))))
    return lambda v: jax.grad(lambda x: jnp.dot(slope(x), v))(flat) + DAMPING * v


def solve(product: Product, target: Array, against: int = 0, replaced: bool = False) -> Array:
    """As the library does, with residuals orthogonal to the first so many, or computed anew."""
    rr = jnp.dot(target, target)
    rows = jnp.zeros((max(against, 1), target.size), target.dtype).at[0].set(target / jnp.sqrt(rr))

    def iterate(i: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        x, r, d, rr, rows = carry
        curved = product(d)
        alpha = rr / jnp.dot(d, curved)
        x, r = x + alpha * d, r - alpha * curved
        if replaced:
            r = jax.lax.cond(i == CG_ITERATIONS // 2, lambda: target - product(x), lambda: r)
        if against:
            r = r - jnp.dot(jnp.dot(rows, r), rows)
        new = jnp.dot(r, r)
        place = jnp.minimum(i + 1, against - 1)
        row = jnp.where(i + 1 < against, r / jnp.sqrt(new), rows[place])
        rows = rows.at[place].set(row) if against else rows
        return x, r, r + new / rr * d, new, rows

    start = (jnp.zeros_like(target), target, target, rr, rows)
    return jax.lax.fori_loop(0, CG_ITERATIONS, iterate, start)[0]


Way = Callable[[Any, Array, Array], Array]
WAYS: dict[str, Way] = {
    "library": lambda p, s, b: trust_region.conjugate_gradient(gauss_newton(p, s), b),
    "hessian": lambda p, s, b: trust_region.conjugate_gradient(hessian(p, s), b),
    "replaced": lambda p, s, b: solve(gauss_newton(p, s), b, replaced=True),
    "exact product": lambda p, s, b: solve(rounded(gauss_newton(*double(p, s))), b),
    "against 4": lambda p, s, b: solve(gauss_newton(p, s), b, against=4),
    "against 15": lambda p, s, b: solve(gauss_newton(p, s), b, against=CG_ITERATIONS),
}


def double(*trees: Any) -> Any:
    return jax.tree.map(lambda x: x.astype(jnp.float64), trees)


def rounded(product: Product) -> Product:
    return lambda v: product(v.astype(jnp.float64)).astype(jnp.float32)


def errors(scale: float) -> dict[str, list[float]]:
    """Of each way, on the problems of a scale."""
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    ways = {name: jax.jit(way) for name, way in WAYS.items()}
    exact = jax.jit(lambda p, s, b: solve(gauss_newton(p, s), b))
    norm = jax.jit(lambda p, s, e: jnp.sqrt(jnp.dot(e, gauss_newton(p, s)(e))))
    for seed in range(PROBLEMS):
        case = problem(scale, seed)
        params, states, target = double(*case)
        wanted = exact(params, states, target)
        for name, way in ways.items():
            off = norm(params, states, way(*case) - wanted) / norm(params, states, wanted)
            found[name].append(float(off))
    return found


def times() -> dict[str, float]:
    """Median CPU seconds of ten solutions on one core; all take turns."""
    case = problem(2.0, 0)
    ways = {name: jax.jit(way) for name, way in WAYS.items()}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, way in ways.items():
            began = time.process_time()
            for _ in range(10):
                way(*case).block_until_ready()
            found[name].append(time.process_time() - began)
    return {name: float(np.median(values)) for name, values in found.items()}


def main() -> None:
    pin(cores()[0])
    jax.config.update("jax_enable_x64", True)
    scales = (1.5, 2.0, 3.0)
    off = {scale: errors(scale) for scale in scales}
    took = times()
    rows = [
        [name, *(f"{np.exp(np.mean(np.log(off[s][name]))):.1e}, {max(off[s][name]):.1e}"
                 for s in scales), f"{took[name] / took['library']:.2f}"]
        for name in WAYS
    ]  # fmt: skip
    header = ["", *(f"weights x {scale:g}" for scale in scales), "time"]
    print(Table(columns(header, "lrrrr"), rows).to_markdown())
    ratios = [np.divide(off[s]["library"], off[s]["hessian"]) for s in scales]
    print(f"library over hessian, problem by problem: {np.min(ratios):.2g} to {np.max(ratios):.2g}")


if __name__ == "__main__":
    main()
