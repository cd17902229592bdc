"""Input/output vectors of the published code: `tests/golden`, or the folder in $LCPO_GOLDEN.

A test takes whatever cases of its unit the folder holds; a unit without a case is an error, so that
no test is left out in silence.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from lcpo.agents import on_policy
from lcpo.core import nets, optim
from lcpo.core.nets import Layer, Layers
from lcpo.types import ContextSlice, Spec, Transition

close = np.testing.assert_allclose
FOLDER = Path(os.environ.get("LCPO_GOLDEN") or Path(__file__).parents[1] / "golden")


def cases(*patterns: str, later: tuple[str, ...] = ()) -> Any:
    """Parametrize a test over the files that match; every pattern must match one.

    The cases in `later` wait for `make test-slow`.
    """
    if not FOLDER.is_dir():
        raise FileNotFoundError(f"no golden vectors: {FOLDER} is not a folder ($LCPO_GOLDEN)")
    files: set[Path] = set()
    for pattern in patterns:
        found = set(FOLDER.glob(f"{pattern}.npz"))
        if not found:
            raise FileNotFoundError(f"no golden vectors: {FOLDER} has no file {pattern}.npz")
        files |= found
    ordered = sorted(files)
    late = {name: [pytest.mark.learn] for name in later}
    params = [pytest.param(f, id=f.stem, marks=late.get(f.stem, [])) for f in ordered]
    return pytest.mark.parametrize("case", params)


def load(case: Path) -> dict[str, np.ndarray]:
    with np.load(case) as file:
        return {k: file[k] for k in file.files}


def mlp_params(case: dict[str, np.ndarray], prefix: str) -> Layers:
    """Weights `<prefix>_w0, b0, ...` as a network of ours."""
    layers = []
    while f"{prefix}_w{len(layers)}" in case:
        i = len(layers)
        w, b = (jnp.asarray(case[f"{prefix}_{kind}{i}"]) for kind in "wb")
        layers.append(Layer(w, b))
    assert layers, f"no network {prefix!r} in this case"
    return tuple(layers)


def assert_params(found: Layers, case: dict[str, np.ndarray], prefix: str, atol: float) -> None:
    for i, layer in enumerate(found):
        np.testing.assert_allclose(layer.w, case[f"{prefix}_w{i}"], rtol=0, atol=atol)
        np.testing.assert_allclose(layer.b, case[f"{prefix}_b{i}"], rtol=0, atol=atol)


mlp_apply = nets.mlp((1, 1)).apply
"""What an MLP with the parameters given says; its sizes are those of the parameters."""


def settings(g: dict[str, np.ndarray], cls: type, **more: Any) -> Any:
    """The config of a case; its rewards are scaled already and its entropy coefficient fixed."""
    if "lr_policy" in g:  # not with TRPO, which has no such rate
        more["learning_rate"] = jnp.float32(g["lr_policy"])
    return cls(
        gamma=jnp.float32(g["gamma"]),
        lam=jnp.float32(g["lam"]),
        value_learning_rate=jnp.float32(g["lr_value"]),
        max_grad_norm=jnp.float32(g["grad_clip"]),
        entropy_coef=jnp.float32(g["entropy_factor"]),
        entropy_target=jnp.float32(0.0),
        scale_rewards=False,
        **more,
    )


def start(g: dict[str, np.ndarray], config: Any) -> tuple[Spec, on_policy.State]:
    policy, value = mlp_params(g, "init_policy"), mlp_params(g, "init_value")
    dims = g["actions"].shape[-1]
    spec = Spec(g["obs"].shape[-1], ContextSlice(0, 0, 0), (policy[-1].w.shape[1] // dims,) * dims)
    state = on_policy.init(config, spec, jax.random.key(0))
    adam = optim.adam(0.0, 1.0)
    policy, value = jax.tree.map(jnp.asarray, (policy, value))
    return spec, state._replace(
        policy=policy, value=value, policy_opt=adam.init(policy), value_opt=adam.init(value)
    )


def batch_of(g: dict[str, np.ndarray], k: int) -> Transition:
    """Update k's data, with one world."""
    ones = jnp.ones(g["rewards"][k].shape)
    fields = (g["obs"], g["actions"], g["rewards"], g["next_obs"], g["terminated"], g["truncated"])
    obs, action, reward, next_obs, terminated, truncated = (jnp.asarray(f[k]) for f in fields)
    batch = Transition(
        obs, action, reward.astype(jnp.float32), next_obs, terminated, truncated, ones, ones, ()
    )
    return jax.tree.map(lambda x: x[:, None], batch)


def _estimate(config: Any, spec: Spec, state: on_policy.State, batch: Transition) -> Any:
    return on_policy.estimate(config, on_policy.make_networks(config, spec), state, batch)


estimate = jax.jit(_estimate, static_argnums=1)


def flat(g: dict[str, np.ndarray], prefix: str) -> jax.Array:
    """A vector stored layer by layer (first update), in the order of `ravel_pytree`."""
    layers = [(g[f"{prefix}_w{i}"], g[f"{prefix}_b{i}"]) for i in range(3)]
    if f"{prefix}_w0" in g and g[f"{prefix}_w0"].ndim == 3:
        layers = [(w[0], b[0]) for w, b in layers]
    return ravel_pytree(layers)[0].astype(jnp.float32)


def rounding(g: dict[str, np.ndarray], group: str, least: float) -> float:
    """How far from a group of numbers we may be: ten times their own rounding, and at least this.

    The published code was run in float32 and in float64; the two differ by `dev64_<group>`. Where a
    case is ill-conditioned that is much: conjugate gradient that has not converged in its 15
    iterations loses orthogonality in float32, and two sums of another order end 1e-3 apart.
    """
    return max(least, 10.0 * float(np.max(g[f"dev64_{group}"])))


def amplified(solve: Callable[[jax.Array], jax.Array], target: jax.Array) -> float:
    """How far two float32 solutions of one problem may be apart, as a share of the largest entry.

    Conjugate gradient that has not converged amplifies rounding, by how much is a property of the
    problem: it shows where the last bits of the target change. Two programs round every operation
    in their own way, and not the target alone: four times the largest of eight such changes.
    """
    expected, rng = np.asarray(solve(target)), np.random.default_rng(0)
    bits = 1.0 + np.finfo(np.float32).eps * rng.choice([-1.0, 1.0], (8, target.size))
    moved = [solve(target * jnp.asarray(b, jnp.float32)) - expected for b in bits]
    return 4.0 * float(np.max(np.abs(moved)) / np.max(np.abs(expected)))


def close_vector(found: jax.Array, g: dict[str, np.ndarray], name: str, share: float) -> None:
    """The vector `name` of a case, to this share of its largest entry, or to its rounding."""
    expected = flat(g, name)
    least = share * float(jnp.max(jnp.abs(expected)))
    close(found, expected, rtol=0, atol=rounding(g, f"flat_{name}", least))
