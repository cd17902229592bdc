"""Networks as values: MLPs, tables, deep sets, ensembles.

The spec chooses the kind (`for_spec`, `for_actions`): a new kind is a function here and a line
there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lcpo.core import optim
from lcpo.distributions import Distribution
from lcpo.types import Array, Spec


class Network(NamedTuple):
    """A function with parameters.

    init(key) -> params                  fresh parameters: any pytree of float32 arrays, of fixed
                                         shapes; everything random comes from the key
    apply(params, x [..., inputs])       the outputs [..., outputs] for any number of leading axes;
        -> [..., outputs]                pure, and differentiable in `params`

    The parameters are plain data: agents copy, average and save them, and never look inside.
    """

    init: Callable[[Array], Any]
    apply: Callable[[Any, Array], Array]
    weight_decay: float = optim.WEIGHT_DECAY
    """Share of the parameters that is added to their gradient (L2)."""
    layer_inputs: Callable[[Any, Array], list[Array]] | None = None
    """Where the parameters are `Layers`, each used once: (params, x) -> what each layer sees."""

    def adam(self, learning_rate: Any, max_norm: Any = None, **options: Any) -> Any:
        """`optim.adam` with this network's weight decay."""
        return optim.adam(learning_rate, max_norm, weight_decay=self.weight_decay, **options)


def for_spec(spec: Spec, hidden: Sequence[int], num_outputs: int) -> Network:
    """The network that suits the observation: a deep set if it has elements, else an MLP."""
    if spec.elements is not None:
        return deep_set(spec.elements, spec.obs_size, hidden, num_outputs)
    return mlp((spec.obs_size, *hidden, num_outputs))


def for_actions(spec: Spec, hidden: Sequence[int]) -> Network:
    """`for_spec` with the parameters of a distribution as outputs: [..., D] -> [..., A, P]."""
    return per_action(for_spec(spec, hidden, spec.actions.num_outputs), spec.actions)


def per_action(network: Network, actions: Distribution) -> Network:
    """`network` with its outputs split by action dimension: [..., A * P] -> [..., A, P]."""
    return network._replace(apply=lambda params, x: actions.params(network.apply(params, x)))


class Layer(NamedTuple):
    """x @ w + b."""

    w: Array  # [inputs, outputs]
    b: Array  # [outputs]


Layers = tuple[Layer, ...]
"""Parameters of an MLP."""


def mlp(sizes: tuple[int, ...]) -> Network:
    """A multi-layer perceptron with ReLU, sizes = (inputs, *hidden, outputs).

    Initial weights and biases are ~ U(-1/sqrt(inputs), 1/sqrt(inputs)), layer by layer.
    """

    def init(key: Array) -> Layers:
        layers, keys = [], jax.random.split(key, len(sizes) - 1)
        for k, inputs, outputs in zip(keys, sizes[:-1], sizes[1:], strict=True):
            draw = jax.random.uniform(k, (inputs + 1, outputs), minval=-1.0, maxval=1.0)
            draw = draw / jnp.sqrt(float(inputs))
            layers.append(Layer(draw[:-1], draw[-1]))
        return tuple(layers)

    def inputs(params: Layers, x: Array) -> list[Array]:
        seen = [x]
        for layer in params[:-1]:
            seen.append(jax.nn.relu(_affine(layer, seen[-1])))
        return seen

    def apply(params: Layers, x: Array) -> Array:
        return _affine(params[-1], inputs(params, x)[-1])

    return Network(init, apply, layer_inputs=inputs)


def _affine(layer: Layer, x: Array) -> Array:
    # Full float32 precision: a GPU's default may be TF32, whose rounding errors are larger than
    # the steps of the trust region.
    x = jnp.dot(x, layer.w, precision=jax.lax.Precision.HIGHEST)
    return x + jnp.expand_dims(layer.b, range(x.ndim - 1))


class Lookup(NamedTuple):
    """One row of outputs per observation."""

    entries: Array  # [*levels, outputs]


def table(levels: tuple[int, ...], num_outputs: int) -> Network:
    """A table of zeros, for finite observations: entry d is one of 0 .. levels[d] - 1.

    It has no weight decay: rows that are not visited stay as they are.
    """

    def apply(params: Lookup, x: Array) -> Array:
        return params.entries.reshape(-1, num_outputs)[row_number(x, levels)]

    return Network(lambda key: Lookup(jnp.zeros((*levels, num_outputs))), apply, weight_decay=0.0)


def row_number(x: Array, levels: tuple[int, ...]) -> Array:
    """Rows [...] of a table for observations [..., D]."""
    stride = [math.prod(levels[d + 1 :]) for d in range(len(levels))]
    return x.astype(jnp.int32) @ jnp.asarray(stride, jnp.int32)


ELEMENT_HIDDEN = (32, 16)
"""Hidden layers of the network that looks at one element of a deep set."""


class DeepSet(NamedTuple):
    """Parameters of a deep set."""

    element: Layers
    whole: Layers


def deep_set(
    elements: tuple[int, int], num_inputs: int, hidden: Sequence[int], num_outputs: int
) -> Network:
    """rho(mean_i phi(x_i), rest): the order of the elements does not matter (Zaheer et al. 2017).

    The first `num * size` inputs are `num` elements x_i of `size` numbers, elements = (num, size);
    the rest follows. phi gives one number, rho has the hidden layers asked for.
    """
    num, size = elements
    phi = mlp((size, *ELEMENT_HIDDEN, 1))
    rho = mlp((1 + num_inputs - num * size, *hidden, num_outputs))

    def init(key: Array) -> DeepSet:
        element_key, whole_key = jax.random.split(key)
        return DeepSet(phi.init(element_key), rho.init(whole_key))

    def apply(params: DeepSet, x: Array) -> Array:
        # One row per element: on a CPU the gradient of a product with more axes takes double.
        each = x[..., : num * size].reshape(-1, size)
        seen = phi.apply(params.element, each).reshape(*x.shape[:-1], num)
        pooled = jnp.mean(seen, axis=-1, keepdims=True)  # [..., 1]
        return rho.apply(params.whole, jnp.concatenate([pooled, x[..., num * size :]], axis=-1))

    return Network(init, apply)


def ensemble(network: Network, count: int) -> Network:
    """`count` networks with separate parameters, for the same x: [count, ..., outputs]."""

    def init(key: Array) -> Any:
        return jax.vmap(network.init)(jax.random.split(key, count))

    def apply(params: Any, x: Array) -> Array:
        if jax.default_backend() == "cpu":  # there a product for all is slower than one for each
            members = [jax.tree.map(lambda leaf, i=i: leaf[i], params) for i in range(count)]
            return jnp.stack([network.apply(member, x) for member in members])
        return jax.vmap(network.apply, in_axes=(0, None))(params, x)

    return Network(init, apply, network.weight_decay)
