"""Small tasks with a context, as compiled environments: what `benchmarks/suggest.py` measures.

    Battery      examples/battery.py, step by step the same, in JAX
    Autoscaler   examples/autoscaler.py, likewise; its noise comes from another generator
    CartPole     a pole of changing length on a cart, in a side wind that a trace gives
    Inventory    orders that arrive three days later, for a demand with seasons and fashions
    Thermostat   a room in changing weather, under changing prices
    Drone        hovering in a draft; a crash ends the episode
    Harbor       a boat in the wind; arriving ends the episode

The wind of CartPole, Drone and Harbor comes from a trace. The others make their own context.
Compiled, a grid of settings fits into an hour.
"""

from __future__ import annotations

import functools
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.config import config, static
from lcpo.envs.base import Advance
from lcpo.types import Array, ContextSlice, Spec, Step

EXAMPLES = Path(__file__).parents[1] / "examples"
NEVER = jnp.bool_(False)


def example(name: str) -> Any:
    """A module of examples/, which is not a package."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


class Own:
    """An environment that makes its own context."""

    @property
    def advance(self) -> Advance:
        return "own"


class House(NamedTuple):
    """The charge in kWh, and the row of the data."""

    charge: Array
    row: Array


@functools.cache
def home(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Price, sun and load of two years [rows, 3], and the clock [rows, 3]."""
    battery = example("battery")
    with tempfile.TemporaryDirectory() as folder:
        made = battery.Battery(battery.write_data(str(Path(folder) / "home.csv"), seed=seed))
    return made.rows.astype(np.float32), made.clock


@config
class Battery(Own):
    """The home battery of examples/battery.py."""

    data: int = static(1, "seed of the data; the tutorial is judged on 0", low=0)

    feature_names: ClassVar[tuple[str, ...]] = ("charge", "season", "sine", "cosine")
    context_names: ClassVar[tuple[str, ...]] = ("price", "sun", "load")

    @property
    def spec(self) -> Spec:
        return Spec(7, ContextSlice(4, channels=3, lags=1), (len(example("battery").LEVELS),))

    def observe(self, state: House) -> Array:
        rows, clock = (jnp.asarray(table) for table in home(self.data))
        return jnp.concatenate([state.charge[None], clock[state.row], rows[state.row]])

    def reset(self, key: Array) -> tuple[House, Array]:
        state = House(jnp.float32(example("battery").CAPACITY / 2), jnp.int32(0))
        return state, self.observe(state)

    def step(self, state: House, action: Array, context: Array, key: Array) -> tuple[House, Step]:
        """Fifteen minutes pass."""
        b = example("battery")
        rows = jnp.asarray(home(self.data)[0])
        price, sun, load = rows[state.row]
        flow = jnp.asarray(b.LEVELS, jnp.float32)[action[0]] / 4.0
        flow = jnp.minimum(flow, (b.CAPACITY - state.charge) / b.EFFICIENCY)
        flow = jnp.maximum(flow, -state.charge * b.EFFICIENCY)
        charge = state.charge + flow * jnp.where(flow > 0.0, b.EFFICIENCY, 1.0 / b.EFFICIENCY)
        grid = (load - sun) / 4000.0 + flow
        cost = grid * jnp.where(grid > 0.0, price, b.FEED_IN)
        state = House(charge, (state.row + 1) % len(rows))
        return state, Step(self.observe(state), -cost, NEVER, NEVER)


class Service(NamedTuple):
    """Requests that wait, servers that run and that were asked for, and the minute."""

    queue: Array
    servers: Array
    asked: Array
    minute: Array


@functools.cache
def requests() -> np.ndarray:
    """Requests per second of each minute."""
    scaler = example("autoscaler")
    with tempfile.TemporaryDirectory() as folder:
        made = scaler.Autoscaler(scaler.write_load(str(Path(folder) / "requests.csv")))
    return made.rates.astype(np.float32)


@config
class Autoscaler(Own):
    """The autoscaler of examples/autoscaler.py."""

    context_names: ClassVar[tuple[str, ...]] = ("requests",)
    feature_names: ClassVar[tuple[str, ...]] = ("queue", "servers")

    @property
    def spec(self) -> Spec:
        choices = len(example("autoscaler").CHOICES)
        return Spec(3, ContextSlice(2, channels=1, lags=1), (choices,))

    def reset(self, key: Array) -> tuple[Service, Array]:
        state = Service(jnp.float32(0.0), jnp.float32(6.0), jnp.float32(6.0), jnp.int32(0))
        return state, self.observe(state)

    def observe(self, state: Service) -> Array:
        rates = jnp.asarray(requests())
        return jnp.stack([state.queue, state.asked, rates[state.minute % len(rates)]])

    def step(
        self, state: Service, action: Array, context: Array, key: Array
    ) -> tuple[Service, Step]:
        """A minute passes."""
        a = example("autoscaler")
        rates = jnp.asarray(requests())
        asked = jnp.asarray(a.CHOICES, jnp.float32)[action[0]]
        arrived = rates[state.minute % len(rates)] * (1.0 + 0.05 * jax.random.normal(key))
        served = state.asked * a.EACH
        queue = jnp.clip(state.queue + 60.0 * (arrived - served), 0.0, a.QUEUE)
        reward = -0.1 * (state.asked + jnp.minimum(queue / served, 60.0))
        state = Service(queue, state.asked, asked, state.minute + 1)
        return state, Step(self.observe(state), reward, NEVER, NEVER)


class Cart(NamedTuple):
    """Position, speed, angle and its speed; steps since the reset."""

    x: Array
    v: Array
    angle: Array
    spin: Array
    time: Array


@config
class CartPole:
    """A pole on a cart that is pushed left or right. Context: a side wind, and the pole's length.

    The usual constants: a cart of 1 kg, a pole of 0.1 kg, pushes of 10 N, steps of 0.02 s. The wind
    pushes the cart. The pole is 1 m long where its channel is 0.
    """

    max_steps: int = static(200, "episode length", low=1)
    wind: float = static(3.0, "N for a context of 1", low=0.0)

    feature_names: ClassVar[tuple[str, ...]] = ("x", "v", "angle", "spin")
    context_names: ClassVar[tuple[str, ...]] = ("wind", "length")

    @property
    def advance(self) -> Advance:
        return "step"

    @property
    def spec(self) -> Spec:
        return Spec(6, ContextSlice(4, channels=2, lags=1), (2,))

    def reset(self, key: Array) -> tuple[Cart, Array]:
        """Nearly upright, in the middle."""
        values = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        x, v, angle, spin = values
        return Cart(x, v, angle, spin, jnp.int32(0)), values

    def step(self, state: Cart, action: Array, context: Array, key: Array) -> tuple[Cart, Step]:
        """A push to the left (0) or right (1), for 0.02 s."""
        push = 20.0 * action[0].astype(jnp.float32) - 10.0 + self.wind * context[0]
        half = 0.5 * jnp.exp(0.5 * context[1])
        sin, cos = jnp.sin(state.angle), jnp.cos(state.angle)
        pull = (push + 0.1 * half * state.spin**2 * sin) / 1.1
        twist = (9.8 * sin - cos * pull) / (half * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        v = state.v + 0.02 * (pull - 0.1 * half * twist * cos / 1.1)
        spin = state.spin + 0.02 * twist
        x, angle = state.x + 0.02 * v, state.angle + 0.02 * spin
        state = Cart(x, v, angle, spin, state.time + 1)
        fallen = (jnp.abs(x) > 2.4) | (jnp.abs(angle) > 0.2095)
        over = (state.time >= self.max_steps) & ~fallen
        return state, Step(jnp.stack([x, v, angle, spin]), jnp.float32(1.0), fallen, over)


class Flight(NamedTuple):
    """Height and its speed; steps since the reset."""

    height: Array
    speed: Array
    time: Array


class Windy:
    """An environment whose context, a wind of two channels, comes from a trace."""

    context_names: ClassVar[tuple[str, ...]] = ("wx", "wy")

    @property
    def advance(self) -> Advance:
        return "step"


@config
class Drone(Windy):
    """Hover between ground and ceiling, in a changing draft. A crash ends the episode.

    There are three thrusts. A step pays 1 in the middle, and less away from it.
    """

    max_steps: int = static(200, "episode length", low=1)

    feature_names: ClassVar[tuple[str, ...]] = ("height", "speed")

    @property
    def spec(self) -> Spec:
        return Spec(4, ContextSlice(2, channels=2, lags=1), (3,))

    def reset(self, key: Array) -> tuple[Flight, Array]:
        """Near the middle."""
        height, speed = jax.random.uniform(key, (2,), minval=-0.2, maxval=0.2)
        return Flight(height, speed, jnp.int32(0)), jnp.stack([height, speed])

    def step(self, state: Flight, action: Array, context: Array, key: Array) -> tuple[Flight, Step]:
        """A tenth of a second."""
        thrust = action[0].astype(jnp.float32) - 1.0
        draft = 0.4 * context[0] + 0.3 * jax.random.normal(key)
        speed = state.speed + 0.1 * (2.0 * thrust + draft)
        height = state.height + 0.1 * speed
        state = Flight(height, speed, state.time + 1)
        crashed = jnp.abs(height) > 1.0
        over = (state.time >= self.max_steps) & ~crashed
        reward = 1.0 - jnp.minimum(jnp.abs(height), 1.0)
        return state, Step(jnp.stack([height, speed]), reward, crashed, over)


class Boat(NamedTuple):
    """Place [2] and speed [2]; steps since the reset."""

    place: Array
    speed: Array
    time: Array


@config
class Harbor(Windy):
    """Steer a boat into a harbor against the wind. Arriving ends the episode; a step costs 1."""

    max_steps: int = static(100, "episode length", low=1)

    feature_names: ClassVar[tuple[str, ...]] = ("x", "y", "vx", "vy")

    @property
    def spec(self) -> Spec:
        return Spec(6, ContextSlice(4, channels=2, lags=1), (5,))

    def reset(self, key: Array) -> tuple[Boat, Array]:
        """Anywhere, at rest."""
        place = jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0)
        return Boat(place, jnp.zeros(2), jnp.int32(0)), jnp.concatenate([place, jnp.zeros(2)])

    def step(self, state: Boat, action: Array, context: Array, key: Array) -> tuple[Boat, Step]:
        """Push in one of four directions, or drift."""
        moves = jnp.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        speed = 0.9 * state.speed + 0.05 * (moves[action[0]] + 0.2 * context)
        place = jnp.clip(state.place + 0.3 * speed, -1.5, 1.5)
        state = Boat(place, speed, state.time + 1)
        arrived = jnp.linalg.norm(place) < 0.2
        over = (state.time >= self.max_steps) & ~arrived
        reward = jnp.where(arrived, 0.0, -1.0)
        return state, Step(jnp.concatenate([place, speed]), reward, arrived, over)


class Shop(NamedTuple):
    """Stock, orders on their way (next to arrive first), and the day."""

    stock: Array
    coming: Array
    day: Array


@config
class Inventory(Own):
    """Order for a demand that changes: a season of 200 days, and fashions that last 500 days.

    A day pays 1 for a piece sold, and costs 0.1 for a piece in stock and 0.5 for one that was
    missing. Orders arrive after three days. The context is the expected demand.
    """

    season: int = static(200, "days", low=2)
    fashion: int = static(500, "days", low=2)

    feature_names: ClassVar[tuple[str, ...]] = ("stock", "coming[0]", "coming[1]", "coming[2]")
    context_names: ClassVar[tuple[str, ...]] = ("demand",)

    @property
    def spec(self) -> Spec:
        return Spec(5, ContextSlice(4, channels=1, lags=1), (6,))

    def demand(self, day: Array) -> Array:
        """Expected pieces sold on a day: 1 to 9."""
        level = jnp.where((day // self.fashion) % 2 == 0, 3.0, 7.0)
        return level + 2.0 * jnp.sin(2.0 * jnp.pi * day / self.season)

    def observe(self, state: Shop) -> Array:
        here = self.demand(state.day)[None]
        return jnp.concatenate([state.stock[None], state.coming, here])

    def reset(self, key: Array) -> tuple[Shop, Array]:
        state = Shop(jnp.float32(10.0), jnp.zeros(3), jnp.int32(0))
        return state, self.observe(state)

    def step(self, state: Shop, action: Array, context: Array, key: Array) -> tuple[Shop, Step]:
        """A day: an order of 0, 2, .. 10 pieces, an arrival, and the day's sales."""
        order = 2.0 * action[0].astype(jnp.float32)
        stock = jnp.minimum(state.stock + state.coming[0], 60.0)
        mean = self.demand(state.day)
        wanted = jnp.maximum(0.0, jnp.round(mean + jnp.sqrt(mean) * jax.random.normal(key)))
        sold = jnp.minimum(stock, wanted)
        reward = sold - 0.1 * (stock - sold) - 0.5 * (wanted - sold)
        coming = jnp.concatenate([state.coming[1:], order[None]])
        state = Shop(stock - sold, coming, state.day + 1)
        return state, Step(self.observe(state), reward, NEVER, NEVER)


class Room(NamedTuple):
    """The temperature inside in degrees, and the quarter of an hour."""

    inside: Array
    time: Array


@config
class Thermostat(Own):
    """Heat or cool a room cheaply. Context: the outside temperature and the price of power.

    A step is 15 minutes. The pump has five settings, -2 kW (cool) to 2 kW (heat). A step costs what
    its power costs, in cents, and the squared distance to 21 degrees. Weather and tariff have two
    regimes each.
    """

    feature_names: ClassVar[tuple[str, ...]] = ("inside", "sine", "cosine")
    context_names: ClassVar[tuple[str, ...]] = ("outside", "price")

    @property
    def spec(self) -> Spec:
        return Spec(5, ContextSlice(3, channels=2, lags=1), (5,))

    def observe(self, state: Room) -> Array:
        """Degrees, the time of day, degrees, cents per kWh."""
        angle = 2.0 * jnp.pi * state.time / 96
        cold, dear = (state.time // 1920) % 2 == 0, (state.time // 1344) % 2 == 1
        outside = jnp.where(cold, 4.0, 24.0) - 6.0 * jnp.cos(angle)
        price = jnp.where(dear, 45.0, 20.0) * (1.0 - 0.4 * jnp.sin(2.0 * angle))
        return jnp.stack([state.inside, jnp.sin(angle), jnp.cos(angle), outside, price])

    def reset(self, key: Array) -> tuple[Room, Array]:
        """At 21 degrees, at midnight."""
        state = Room(jnp.float32(21.0), jnp.int32(0))
        return state, self.observe(state)

    def step(self, state: Room, action: Array, context: Array, key: Array) -> tuple[Room, Step]:
        """Heat leaks to the outside; a kW moves half a degree in 15 minutes."""
        power = action[0].astype(jnp.float32) - 2.0
        outside, price = self.observe(state)[3:]
        leak = 0.03 * (outside - state.inside) + 0.1 * jax.random.normal(key)
        inside = jnp.clip(state.inside + leak + 0.5 * power, 0.0, 40.0)
        cost = jnp.abs(power) / 4.0 * price / 10.0 + (inside - 21.0) ** 2
        state = Room(inside, state.time + 1)
        return state, Step(self.observe(state), -cost, NEVER, NEVER)
