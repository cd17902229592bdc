"""A scan whose carry and outputs are one array.

`lax.scan` copies each array that it carries and writes each array that it returns with operations
of their own. In a rollout, where the arrays are tiny, those cost more than the network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.types import Array, Tree

C = TypeVar("C")
Input = TypeVar("Input")
Output = TypeVar("Output")
T = TypeVar("T")

UNROLL = {"cpu": 1, "gpu": 20}
"""Steps per iteration of the loop: saves most of the loop's own cost."""
MOST_CHOSEN = 64
"""Columns of a row that are put side by side by choice: the work grows with their square."""


def computed_once(tree: T) -> T:
    """Keep XLA from computing these values again in each place that uses them."""
    return jax.lax.optimization_barrier(tree)


def packed_scan(
    step: Callable[[C, Input], tuple[C, Output]], carry: C, inputs: Input
) -> tuple[C, C, Output]:
    """Scan `step(carry, input) -> (carry, output)` over leaves [N, ...].

    Returns (the carries before each step [T, N, ...], the last carry, the outputs [T, N, ...]).
    """
    shapes = jax.eval_shape(step, carry, jax.tree.map(lambda x: x[0], inputs))
    layout = _Layout(shapes)
    # The first row has no output yet: zeros.
    first = layout.pack((carry, jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes[1])))

    def body(row: Array, given: Input) -> tuple[Array, Array]:
        before, _ = layout.unpack(computed_once(row))
        row = layout.pack(step(before, given))
        return row, row

    last, rows = jax.lax.scan(body, first, inputs, unroll=UNROLL.get(jax.default_backend(), 1))
    carries, outputs = jax.vmap(layout.unpack)(rows)
    before = jax.tree.map(lambda c, later: jnp.concatenate([c[None], later[:-1]]), carry, carries)
    return before, layout.unpack(last)[0], outputs


class _Layout:
    """A tree of leaves [N, ...] as one int32 array [N, M], bit for bit."""

    def __init__(self, shapes: Tree) -> None:
        leaves, self.structure = jax.tree.flatten(shapes)
        self.leaves = leaves
        self.ends = np.cumsum([x.size // x.shape[0] for x in leaves])

    def pack(self, tree: Tree) -> Array:
        leaves = [_bits(x) for x in jax.tree.leaves(tree)]
        if jax.default_backend() == "cpu" or self.ends[-1] > MOST_CHOSEN:
            return jnp.concatenate(leaves, axis=-1)
        return _choose(leaves)

    def unpack(self, row: Array) -> Tree:
        # As floats before it is cut: neighbours that are put together again are then one slice.
        floats = jax.lax.bitcast_convert_type(row, jnp.float32)
        leaves, start = [], 0
        for end, like in zip(self.ends, self.leaves, strict=True):
            row_as = floats if like.dtype == jnp.float32 else row
            leaves.append(_values(row_as[..., start:end], like))
            start = end
        return jax.tree.unflatten(self.structure, leaves)


def _choose(leaves: list[Array]) -> Array:
    """`concatenate(leaves, axis=-1)` of [N, M_i], in which each entry looks at all columns.

    On a GPU the threads of a concatenation go different ways, one after the other. Here all compute
    all columns at once, and each keeps its own, so that XLA can make one kernel of it and of the
    step before it.
    """
    columns = [leaf[:, i : i + 1] for leaf in leaves for i in range(leaf.shape[1])]
    place = jnp.arange(len(columns))[None]
    row = jnp.broadcast_to(columns[-1], (columns[-1].shape[0], len(columns)))
    for i, column in enumerate(columns[:-1]):
        row = jnp.where(place == i, column, row)
    return row


def _bits(leaf: Array) -> Array:
    leaf = leaf.reshape(leaf.shape[0], -1)
    if leaf.dtype.itemsize == 4:
        return jax.lax.bitcast_convert_type(leaf, jnp.int32)
    return leaf.astype(jnp.int32)  # bool and small integers


def _values(bits: Array, like: jax.ShapeDtypeStruct) -> Array:
    bits = bits.reshape(like.shape)
    if bits.dtype == like.dtype:
        return bits
    if like.dtype.itemsize == 4:
        return jax.lax.bitcast_convert_type(bits, like.dtype)
    return bits.astype(like.dtype)
