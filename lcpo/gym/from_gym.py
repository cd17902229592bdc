"""Any Gymnasium environment as a host environment (docs/add_an_environment.md).

    gym:CartPole-v1           by Gymnasium's id
    my_package.module:Env     a class, or a function that is declared to return one

It makes its own context and says where it stands: `context` is "key:NAME" (of a Dict observation),
"slice:START:END" (of a Box observation) or "info" (info["context"], at reset too). Those entries
are put behind all others, with their history.

One run has one environment, or a vector environment without autoreset of which it learns at once.
An environment with `get_state() -> dict of arrays` and `set_state(dict)` resumes exactly; any other
begins a new episode there.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lcpo import config as configs
from lcpo import names
from lcpo.config import config, static
from lcpo.envs.base import ActionForm, Advance, HostWorlds
from lcpo.errors import InputError, MissingPackage
from lcpo.types import ContextSlice, Spec
from lcpo.values import refuse, shown

ID = "gym:"  # before an id of Gymnasium's
PACKAGES = {"imageio": "lcpo[mujoco]", "mujoco": "lcpo[mujoco]"}
"""What to install where one of these modules is missing."""
NEEDED = (
    "needs an environment class: one with @lcpo.config.config, or a gymnasium.Env (or a function "
    "that is declared to return one: `def make() -> gymnasium.Env`)"
)


@config
class GymnasiumEnv:
    """A Gymnasium environment."""

    context: str | None = static(
        None, "where the context is: key:NAME, slice:START:END or info; None: there is none"
    )
    lags: int = static(1, "values of each context channel in an observation", low=1)
    history: bool = static(
        False, "the environment gives all lags itself, channel by channel, newest first"
    )
    bins: int = static(15, "values per dimension of a Box action", low=2)
    one_hot: bool = static(True, "Discrete observations as 0/1 entries; false: as their number")
    arguments: str = static("{}", "keyword arguments of the environment, as JSON")

    target: ClassVar[str]  # gym:ID, or module:name

    @property
    def spec(self) -> Spec:
        return translation_of(self).spec

    @property
    def advance(self) -> Advance:
        return "own"

    @property
    def feature_names(self) -> tuple[str, ...]:
        return translation_of(self).names[0]

    @property
    def context_names(self) -> tuple[str, ...]:
        return translation_of(self).names[1]

    @property
    def action_form(self) -> ActionForm:
        return translation_of(self).form

    @property
    def notes(self) -> tuple[str, ...]:
        return translation_of(self).notes

    def open(self, num_worlds: int, seeds: Sequence[int], threads: int | None = None) -> HostWorlds:
        """As in `HostEnv`. Python code has no use for `threads`."""
        from lcpo.gym.hosted import GymnasiumWorlds

        made = [self.make() for _ in range(num_worlds // self.spec.num_worlds)]
        return GymnasiumWorlds(made, translation_of(self), self.history, seeds)

    def make(self) -> Any:
        """A `gymnasium.Env`, or a `gymnasium.vector.VectorEnv`."""
        import gymnasium

        try:
            arguments = json.loads(self.arguments)
        except (ValueError, RecursionError) as error:
            text = shown(self.arguments)
            raise InputError(f"env.arguments = {text} is not JSON ({error})") from error
        if not isinstance(arguments, dict):
            text = repr(self.arguments)
            raise InputError(f'env.arguments = {text}: needs names and values, as {{"size": 3}}')
        if self.target.startswith(ID):
            name = self.target.removeprefix(ID)
            maker = functools.partial(gymnasium.make, name, disable_env_checker=True)
        else:
            maker = names.find("environment", self.target, {})
            if not is_maker(maker):
                raise InputError(f"{self.target} is a {type(maker).__name__}: {NEEDED}")
        try:
            made = maker(**arguments)
        except ModuleNotFoundError as error:
            package = PACKAGES.get(error.name or "", error.name)
            raise MissingPackage(
                f"{self.target} cannot be made: the package {error.name!r} is not installed; run "
                f"pip install '{package}'"
            ) from error
        except (Exception, SystemExit) as error:  # of Gymnasium, or of the user's code
            cause = f"{type(error).__name__}: {error}"
            raise InputError(f"{self.target} cannot be made ({cause})") from error
        if not isinstance(made, (gymnasium.Env, gymnasium.vector.VectorEnv)):
            raise InputError(
                f"{self.target} makes a {type(made).__name__}: needs a gymnasium.Env "
                "(or an environment class with lcpo.config.config)"
            )
        return made


@functools.cache
def gymnasium_class(target: str) -> type[GymnasiumEnv]:
    """The environment class for "gym:ID" or "module:name"."""
    body = {"target": target, "__doc__": f"The Gymnasium environment {target}."}
    return config(type("Gymnasium", (GymnasiumEnv,), body))


def is_maker(found: object) -> bool:
    """Whether something that was imported makes Gymnasium environments, by what it declares.

    A class of them, or a function with such a class as its return type. It is not called to find
    out: `subprocess:getoutput` is a function, too.
    """
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is None:  # then nothing can be made of its classes
        return False
    if inspect.isfunction(found):
        try:
            found = typing.get_type_hints(found).get("return")
        except Exception:  # a type that its module does not know
            return False
    return isinstance(found, type) and issubclass(
        found, (gymnasium.Env, gymnasium.vector.VectorEnv)
    )


def from_gymnasium(
    target: str | Callable[..., Any],
    *,
    arguments: Mapping[str, Any] | None = None,
    **fields: Any,
) -> GymnasiumEnv:
    """A Gymnasium environment for lcpo: `lcpo.train("lcpo", from_gymnasium(...))`.

    Args:
      target: an id ("CartPole-v1"), "module:name", or a class or function that makes one. It must
        be found by its name, for workers import it.
      arguments: keyword arguments of the environment.
      fields: of `GymnasiumEnv`: context, lags, history, bins, one_hot.
    """
    if callable(target):
        target = _name_of(target)
    elif not isinstance(target, str):
        refuse("target", target, "an id, module:name, or what makes an environment")
    elif ":" not in target:
        target = ID + target
    if arguments is not None and not isinstance(arguments, Mapping):
        refuse("arguments", arguments, "a dict of names and values")
    try:
        text = json.dumps(dict(arguments or {}))
    except TypeError as error:
        raise InputError(f"arguments {arguments}: needs plain values ({error})") from error
    return configs.make(gymnasium_class(target), {"arguments": text, **fields})


def _name_of(maker: Callable[..., Any]) -> str:
    """The name by which a worker finds a class or function."""
    name = f"{maker.__module__}:{maker.__qualname__}"
    with contextlib.suppress(InputError):
        if names.find("environment", name, {}) == maker:
            return name
    raise InputError(f"{name} cannot be imported: define it at the top of a module")


class Translation(NamedTuple):
    """How the environment's observations and actions are translated."""

    spec: Spec
    read: Callable[[Any, Any], tuple[np.ndarray, np.ndarray]]
    """(obs, info) -> (features, context), flat."""
    form: ActionForm
    names: tuple[tuple[str, ...], tuple[str, ...]]
    """Of the features, and of the channels of the context."""
    notes: tuple[str, ...]


@functools.cache
def translation_of(env: GymnasiumEnv) -> Translation:
    """Makes the environment once to look at its spaces."""
    import gymnasium

    from lcpo.gym import spaces

    made = env.make()
    try:
        vector = isinstance(made, gymnasium.vector.VectorEnv)
        mode = made.metadata.get("autoreset_mode") if vector else None
        if vector and mode != gymnasium.vector.AutoresetMode.DISABLED:
            raise InputError(
                f"a vector environment with autoreset ({mode}) hides the last observation of an "
                "episode: make it with autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED"
            )
        observations = made.single_observation_space if vector else made.observation_space
        actions = made.single_action_space if vector else made.action_space
        num_worlds = made.num_envs if vector else 1
        form = spaces.action_form(actions, env.bins)

        def info_size() -> int:
            return spaces.info_context(made.reset(seed=0)[1]).size // num_worlds

        split = spaces.context_splitter(observations, env.context, env.one_hot, info_size)
        if env.history and split.context_size % env.lags:
            raise InputError(
                f"{split.context_size} context entries are not a multiple of {env.lags}"
            )
    except ValueError as error:
        raise InputError(f"{env.target}: {error}") from error
    finally:
        made.close()
    kept = 1 if env.history else env.lags
    context = ContextSlice(split.num_features, split.context_size * kept // env.lags, env.lags)
    levels = None
    if split.levels is not None:
        levels = (*split.levels[0], *(n for n in split.levels[1] for _ in range(kept)))
    num_actions = tuple(map(len, form.values))
    spec = Spec(context.start + context.size, context, num_actions, levels, num_worlds=num_worlds)
    note = f"actions of {actions} are a grid of {env.bins} values per dimension (env.bins)"
    notes = (note,) if isinstance(actions, gymnasium.spaces.Box) else ()
    features, channels = split.names
    channels = channels[:: env.lags] if env.history else channels
    return Translation(spec, split.read, form, (features, channels), notes)
