"""What is compiled, and how: quickly for short runs, and once for all variants of an agent."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.agents import AGENTS, a2c, lcpo
from lcpo.run.drive import compiled, rollout
from lcpo.run.plan.budget import num_operations


def test_short_runs_compile_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other tests have flags of their own, so that this one alone sees the options at work."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
    assert compiled.compile_options(compiled.QUICK_STEPS) == ()
    options = compiled.compile_options(compiled.QUICK_STEPS - 100)
    assert options == compiled.QUICK
    assert jax.jit(lambda x: x + 1, compiler_options=dict(options))(1) == 2
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=3")
    assert compiled.compile_options(100) == ()


def test_options_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the versions of JAX that were tried, unless the user has chosen."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setenv("XLA_FLAGS", "")
    for version, expected in (("0.10.2", compiled.GPU), ("0.11.2", compiled.GPU), ("0.12.0", ())):
        monkeypatch.setattr(jax, "__version__", version)
        assert compiled.compile_options(100) == compiled.compile_options(10**6) == expected
    monkeypatch.setattr(jax, "__version__", "0.11.2")
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_command_buffer_scheduling_mode=LHS")
    assert compiled.compile_options(100) == ()


def test_variants_share_a_program_unless_a_function_differs() -> None:
    variant = AGENTS["lcpo-noent"].variant("softer", entropy_coef=0.3)
    assert variant.root is lcpo.agent
    other = dataclasses.replace(variant, update=a2c.update)
    assert other.root is other


def test_a_large_step_is_unrolled_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations within functions and loops count, too."""

    def step(carry: jax.Array, given: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = jax.jit(lambda x: jnp.sin(x) + 1.0)(carry)
        carry = jax.lax.fori_loop(0, 3, lambda i, x: x * 2.0 - given, carry)
        return carry, carry

    def unrolled() -> int:
        program = jax.make_jaxpr(lambda *x: rollout.packed_scan(step, *x))(
            jnp.zeros((2, 1)), jnp.zeros((40, 2, 1))
        )
        (scan,) = [e for e in program.eqns if e.primitive.name == "scan"]
        return scan.params["unroll"]

    operations = num_operations(jax.make_jaxpr(step)(jnp.zeros((2, 1)), jnp.zeros((2, 1))).jaxpr)
    assert 4 <= operations <= 8
    assert unrolled() == 1
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert unrolled() == 20
    monkeypatch.setattr(rollout, "MOST_OPERATIONS", 5 * operations)
    assert unrolled() == 5


@pytest.mark.learn
def test_a_scan_whose_rows_are_chosen_as_on_a_gpu_is_the_same_scan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Leaves of several widths and dtypes, some of which are of no use to the next step."""

    def step(carry: tuple, given: jax.Array) -> tuple[tuple, tuple]:
        number, vector, flag = carry
        vector = vector + given
        return (number + 1, vector, ~flag), (vector[:, :1] * 2.0, flag, number)

    carry = (jnp.arange(3), jnp.arange(6.0).reshape(3, 2), jnp.array([True, False, True]))
    inputs = jnp.arange(40 * 6.0).reshape(40, 3, 2)
    by_concatenation = rollout.packed_scan(step, carry, inputs)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    chosen = rollout.packed_scan(step, carry, inputs)
    jax.tree.map(np.testing.assert_array_equal, chosen, by_concatenation)
    plain = jax.lax.scan(step, carry, inputs)
    jax.tree.map(np.testing.assert_array_equal, chosen[1:], tuple(plain))
    monkeypatch.setattr(rollout, "MOST_CHOSEN", 6)
    monkeypatch.delattr(rollout, "_choose")
    jax.tree.map(np.testing.assert_array_equal, rollout.packed_scan(step, carry, inputs), chosen)
