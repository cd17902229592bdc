"""Many worlds at once: `gymnasium.make_vec("lcpo:lcpo/WindyPendulum-v0", num_envs=64)`.

All worlds step together: in one compiled program, or in MuJoCo on a pool of threads. Each world has
its own episodes and its own place on the shared trace. `info["context"]` has the newest rows.
`autoreset_mode` is Gymnasium's:

    NEXT_STEP    the step after the last one of an episode ignores its action and resets; the trace
                 does not advance (default, as in Gymnasium)
    SAME_STEP    the last step resets at once; info["final_obs"] has the true last observation
    DISABLED     the caller resets, with reset(options={"reset_mask": mask})
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from lcpo import config as configs
from lcpo.envs import ENVS
from lcpo.envs.base import AnyEnv, obs_layout
from lcpo.envs.compiled_worlds import open_worlds
from lcpo.errors import InputError
from lcpo.gym.to_gym import load_rows, make_spaces
from lcpo.values import whole


class ContextVectorEnv(VectorEnv):
    """Worlds of an lcpo environment, driven by one trace."""

    worlds: Any = None  # HostWorlds, once they are open

    def __init__(
        self,
        env: str,
        num_envs: int = 1,
        trace: str | np.ndarray | None = None,
        *,
        scale: float | None = None,
        continuous: bool = False,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **env_config: Any,
    ) -> None:
        """As lcpo.gym.to_gym.ContextEnv, `num_envs` times, without rendering."""
        if render_mode is not None:
            raise InputError(
                f"render_mode = {render_mode!r}: many worlds cannot be rendered; render one world "
                'of gymnasium.make, or pass vectorization_mode="sync"'
            )
        self.env: AnyEnv = configs.make(ENVS[env], env_config)
        self.num_envs = whole("num_envs", num_envs, 1)
        try:
            self.mode = AutoresetMode(autoreset_mode)
        except ValueError:
            known = " or ".join(repr(known.value) for known in AutoresetMode)
            raise InputError(f"autoreset_mode = {autoreset_mode!r}: needs {known}") from None
        self.continuous = continuous
        self.metadata = {"render_modes": [], "autoreset_mode": self.mode}
        self.layout = obs_layout(self.env.spec, self.env.advance)
        self.rows = load_rows(env, trace, scale, self.env.spec.context.channels)
        self.single_observation_space, self.single_action_space = make_spaces(self.env, continuous)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin episodes: of all worlds, or of those in options["reset_mask"].

        A seed (world i has seed + i), or a list of them, rewinds the trace, too.
        """
        mask, seeds = self._read_mask(options), self._read_seeds(seed)
        if self.worlds is None or any(one is not None for one in seeds):
            if not mask.all():
                raise InputError(
                    "the first reset and a seeded reset apply to all worlds: leave reset_mask out"
                )
            super().reset(seed=seed if isinstance(seed, int) else None)
            self.worlds = self._open(seeds)
        self.ended &= ~mask
        self.features = self.worlds.reset(mask)
        return self._observe()

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self.worlds is None or (self.mode is AutoresetMode.DISABLED and self.ended.any()):
            raise InputError("reset the worlds whose episodes have ended, then step")
        fresh = self.ended
        if self.env.advance == "step":
            self.cursor += ~fresh
        inputs = np.asarray(actions).reshape(self.num_envs, -1)
        context = self.rows[self.cursor % len(self.rows)]
        if self.continuous:
            step = self.worlds.step_inputs(inputs.astype(np.float32), context)
        else:
            step = self.worlds.step(inputs.astype(np.int32), context)
        reward = np.where(fresh, 0.0, step.reward)
        terminated, truncated = step.terminated & ~fresh, step.truncated & ~fresh
        self.ended = terminated | truncated
        self.features = self.worlds.reset(fresh) if fresh.any() else step.obs
        last, info = self._observe()
        if self.env.advance == "episode":
            self.cursor += self.ended
        if self.mode is AutoresetMode.SAME_STEP and self.ended.any():
            return self._restart(last, info, reward, terminated, truncated)
        return last, reward, terminated, truncated, info

    def _restart(
        self, last: np.ndarray, info: dict[str, Any], *outcome: np.ndarray
    ) -> tuple[Any, ...]:
        """The result of a step that also resets the worlds whose episodes ended."""
        ended = self.ended
        self.features, self.ended = self.worlds.reset(ended), np.zeros(self.num_envs, bool)
        obs, fresh = self._observe()
        final = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(ended):
            final[i] = last[i]
        told = {"context": np.where(ended[:, None], info["context"], 0.0), "_context": ended.copy()}
        fresh |= {"final_obs": final, "_final_obs": ended.copy()}
        fresh |= {"final_info": told, "_final_info": ended.copy()}
        return obs, *outcome, fresh

    def _open(self, seeds: Sequence[int | None]) -> Any:
        """New worlds at the first row of the trace."""
        self.close_extras()
        drawn = self.np_random.integers(2**31, size=self.num_envs)
        each = [
            # As ContextEnv draws the seed of its simulator.
            int(drawn[i] if seed is None else np.random.default_rng(seed).integers(2**31))
            for i, seed in enumerate(seeds)
        ]
        self.cursor = np.zeros(self.num_envs, int)
        self.ended = np.zeros(self.num_envs, bool)
        return open_worlds(self.env, each)

    def _read_seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else list(seed)
        if len(seeds) != self.num_envs:
            raise InputError(f"{len(seeds)} seeds: needs one for each of {self.num_envs} worlds")
        return seeds

    def _read_mask(self, options: dict[str, Any] | None) -> np.ndarray:
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))
        if mask.dtype != bool or mask.shape != (self.num_envs,):
            raise InputError(
                f"reset_mask of {mask.dtype}{list(mask.shape)}: needs bool[{self.num_envs}]"
            )
        return mask

    def _observe(self) -> tuple[np.ndarray, dict[str, Any]]:
        history = self.layout.history_at(self.rows, self.cursor)
        obs = self.layout.join(np.asarray(self.features), history)
        context = self.rows[self.cursor % len(self.rows)]
        info = {"context": context, "_context": np.ones(self.num_envs, bool)}
        return obs.astype(self.single_observation_space.dtype), info

    def close_extras(self, **kwargs: Any) -> None:
        """Free what a simulator holds."""
        if self.worlds is not None:
            self.worlds.close()
        self.worlds = None
