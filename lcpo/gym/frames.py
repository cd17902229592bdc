"""Pictures of our environments, drawn with NumPy: [height, width, 3] bytes.

Places are (x, y) with y upwards, in a square from -1.3 to 1.3.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from lcpo.envs.gridworld import SIZE
from lcpo.errors import InputError

SHAPE, EDGE = (300, 300, 3), 1.3
WHITE, BLACK, GREY, PALE = (255, 255, 255), (0, 0, 0), (120, 120, 120), (225, 225, 225)
RED, GREEN, BLUE = (204, 77, 77), (120, 190, 120), (60, 90, 200)
FULL_WIND = 2.0
"""The wind whose arrow ends on the ring: the strongest that the pendulum's motor can counter."""
Place = tuple[float, float]


def pendulum(angle: float, wind: np.ndarray) -> np.ndarray:
    """The rod from its hinge, upright at angle 0; above it the direction of the wind."""
    picture = np.full(SHAPE, 255, np.uint8)
    tip = -math.sin(angle), math.cos(angle)  # a positive angle leans to the left
    _line(picture, (0.0, 0.0), tip, 0.08, RED)
    _disc(picture, (0.0, 0.0), 0.05, BLACK)
    # A force f at the tip turns the rod by -fx cos(angle) - fy sin(angle).
    add_wind(picture, -np.asarray(wind))
    return picture


def grid_world(row: int, col: int, caught: bool, trap: bool) -> np.ndarray:
    """Exit green, wall grey, trap red while it is active, walker blue."""
    picture = np.full(SHAPE, 255, np.uint8)
    for r in range(SIZE):
        for c in range(SIZE):
            _square(picture, _cell(r, c), 0.38, PALE)
    _square(picture, _cell(0, 2), 0.38, GREEN)
    _square(picture, _cell(1, 2), 0.38, GREY)
    centre = _cell(1, 1)
    if trap:
        _square(picture, centre, 0.38, RED)
    for sign in (-1.0, 1.0):  # a cross marks its place while it sleeps, too
        ends = [(centre[0] + side * 0.3, centre[1] + sign * side * 0.3) for side in (-1.0, 1.0)]
        _line(picture, ends[0], ends[1], 0.03, WHITE)
    _disc(picture, _cell(row, col), 0.22, BLUE)
    if caught:
        _disc(picture, _cell(row, col), 0.1, RED)
    return picture


class MujocoArtist:
    """Draws worlds of a MuJoCo task; without a display set MUJOCO_GL=egl or osmesa."""

    renderer: Any = None

    def __call__(self, worlds: Any, wind: np.ndarray) -> np.ndarray:
        """[240, 320, 3]: the first world's robot, and an arrow for the wind (wx, wy)."""
        if self.renderer is None:
            import mujoco

            try:
                self.renderer = mujoco.Renderer(worlds.model)
            except Exception as error:  # of either OpenGL library
                cause = f"{type(error).__name__}: {error}"
                raise InputError(
                    f"MuJoCo cannot draw here ({cause}): without a display it needs MUJOCO_GL=egl "
                    "or MUJOCO_GL=osmesa, and that library"
                ) from error
        self.renderer.update_scene(worlds.data_of(0))
        picture = np.array(self.renderer.render())
        add_wind(picture, wind)
        return picture

    def close(self) -> None:
        """Free the renderer."""
        if self.renderer is not None:
            self.renderer.close()
        self.renderer = None


def add_wind(picture: np.ndarray, force: Any) -> None:
    """An arrow in the corner: direction and strength of the wind; the ring is FULL_WIND."""
    centre, radius = (0.85, 0.85), 0.3
    _disc(picture, centre, radius, PALE)
    _disc(picture, centre, radius - 0.025, WHITE)
    strength = math.hypot(*force)
    if strength < 1e-6:
        return
    length = min(strength / FULL_WIND, 1.4) * radius
    x, y = force[0] / strength, force[1] / strength
    tail = centre[0] - x * length, centre[1] - y * length
    tip = centre[0] + x * length, centre[1] + y * length
    _line(picture, tail, tip, 0.025, BLUE)
    for side in (-1.0, 1.0):
        turned = -x + side * 0.6 * y, -y - side * 0.6 * x
        barb = tip[0] + 0.12 * turned[0], tip[1] + 0.12 * turned[1]
        _line(picture, tip, barb, 0.025, BLUE)


@functools.lru_cache(maxsize=4)
def _places(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """x and y of every pixel; the right upper corner is where it is in a square."""
    unit = 2.0 * EDGE / height
    x = EDGE - unit * np.arange(width - 1, -1, -1)
    y = EDGE - unit * np.arange(height)
    return np.broadcast_to(x, (height, width)), np.broadcast_to(y[:, None], (height, width))


def _cell(row: int, col: int) -> Place:
    return 0.82 * (col - 1), 0.82 * (1 - row)


def _square(picture: np.ndarray, centre: Place, half: float, colour: Any) -> None:
    x, y = _places(*picture.shape[:2])
    picture[(abs(x - centre[0]) < half) & (abs(y - centre[1]) < half)] = colour


def _disc(picture: np.ndarray, centre: Place, radius: float, colour: Any) -> None:
    _line(picture, centre, centre, radius, colour)


def _line(picture: np.ndarray, start: Place, end: Place, half: float, colour: Any) -> None:
    """A line with round ends; `half`: half of its width."""
    x, y = _places(*picture.shape[:2])
    along_x, along_y = end[0] - start[0], end[1] - start[1]
    square = along_x**2 + along_y**2
    share = ((x - start[0]) * along_x + (y - start[1]) * along_y) / max(square, 1e-12)
    share = np.clip(share, 0.0, 1.0)
    away = np.hypot(x - start[0] - share * along_x, y - start[1] - share * along_y)
    picture[away < half] = colour
