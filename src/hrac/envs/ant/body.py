"""The ant of rllab between box walls, made from the ant in Gymnasium.

The body tree, joints and masses are Gymnasium's; the time step, the motors and the contact parameters are those of the paper's
tasks. With these changes it moves, on MuJoCo 4.0, bit for bit like the published environments.
"""

from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

import mujoco
from jaxtyping import Bool, Float

from hrac.envs import palette
from hrac.envs.palette import rgba
from hrac.spaces import AnyArray

FRAME_SKIP = 5
"""Physics steps per environment step."""
TIME_STEP = 0.02
MAX_TORQUE = 30.0
QPOS, QVEL, MOTORS = 15, 14, 8
"""Numbers in the ant's position, velocity and action."""
TORSO = "torso"
SPEED = 0.2
"""Distance per step of a fast trained ant, on average over ten steps: see docs/departures.md."""

_SOLREF = [0.02, 1.0]
_SOLIMP = [0.8, 0.8, 0.01, 0.5, 2.0]
_SOLIMP_WITH_BLOCKS = [0.995, 0.995, 0.01, 0.5, 2.0]
"""Harder contacts, as in the source of Push and Fall."""
MAX_PIXELS = 2048


class Wall(NamedTuple):
    """An upright box: its centre and its half sizes."""

    centre: tuple[float, float, float]
    half_size: tuple[float, float, float]
    is_floor: bool = False
    """Whether it is there to be walked on. Only its colour depends on it."""


class Block(NamedTuple):
    """A box that ants can push: its centre and its half sizes at the start, and how it moves."""

    centre: tuple[float, float, float]
    half_size: tuple[float, float, float]
    mass: float
    slides: dict[str, tuple[float, float] | None]
    """The axes along which it slides ("x", "y", "z"), and how far down and up each; None for any distance."""


def fallen(obs: Float[AnyArray, "*n obs"]) -> Bool[AnyArray, "*n"]:
    """Whether ants lie on their backs, from their observations. For NumPy and JAX alike.

    Numbers 3 to 6 of an observation are the torso's quaternion (w, x, y, z). 1 - 2 (x^2 + y^2) is the vertical component of the
    torso's upward axis: 1 upright, 0 on its side, -1 on its back. The height of the torso does not show a fall.
    """
    return 1 - 2 * (obs[..., 4] ** 2 + obs[..., 5] ** 2) < 0


def model(walls: Sequence[Wall], blocks: Sequence[Block] = ()) -> mujoco.MjModel:
    """The compiled ant between walls and blocks. The blocks' places come after the ant's in `qpos` and `qvel`."""
    spec = mujoco.MjSpec.from_file(str(resources.files("gymnasium") / "envs/mujoco/assets/ant.xml"))
    spec.option.timestep = TIME_STEP
    solimp = _SOLIMP_WITH_BLOCKS if blocks else _SOLIMP
    for geom in spec.geoms:
        geom.solref, geom.solimp = _SOLREF, solimp
    for motor in spec.actuators:
        motor.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        motor.ctrlrange = [-MAX_TORQUE, MAX_TORQUE]
    for number, wall in enumerate(walls):
        colour = rgba(palette.FLOOR if wall.is_floor else palette.WALL)
        _add_box(spec.worldbody, f"wall_{number}", wall.half_size, solimp, pos=wall.centre, rgba=colour)
        _extend_floor(spec.geom("floor"), wall)
    for number, block in enumerate(blocks):
        _add_block(spec.worldbody, f"block_{number}", block, solimp)
    _colour(spec)
    compiled = spec.compile()
    compiled.opt.disableflags |= _needless(walls, blocks)
    return compiled


def _needless(walls: Sequence[Wall], blocks: Sequence[Block]) -> int:
    """The parts of MuJoCo that only take time here, as its `disableflags`. What moves is the same, bit for bit.

    MuJoCo leaves out pairs that cannot touch by their spheres, or, more slowly, by trees of boxes (its "midphase"). Trees pay
    for long walls only. And it looks for bodies that move independently of each other ("islands"): an ant alone is one.
    """
    flags = mujoco.mjtDisableBit
    trees = 0 if any(map(_is_long, walls)) else flags.mjDSBL_MIDPHASE.value
    islands = 0 if blocks else flags.mjDSBL_ISLAND.value
    return trees | islands


def _is_long(wall: Wall) -> bool:
    """Whether the sphere around a wall holds much that is far from it."""
    shorter, longer = sorted(wall.half_size[:2])
    return longer > 4 * shorter


def _add_box(
    parent: mujoco.MjsBody, name: str, half_size: tuple[float, float, float], solimp: list[float], **more: Any
) -> None:
    """A box that everything collides with."""
    parent.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=half_size,
        friction=[1.0, 0.5, 0.5],
        margin=0.01,
        condim=3,
        contype=1,
        conaffinity=1,
        solref=_SOLREF,
        solimp=solimp,
        **more,
    )


def _add_block(world: mujoco.MjsBody, name: str, block: Block, solimp: list[float]) -> None:
    """A body with a joint for each axis along which it slides, without friction of its own."""
    box = world.add_body(name=name, pos=block.centre)
    _add_box(box, name, block.half_size, solimp, mass=block.mass, rgba=rgba(palette.BLOCK))
    for axis, travel in block.slides.items():
        box.add_joint(
            name=f"{name}_{axis}",
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=[float(axis == each) for each in "xyz"],
            limited=mujoco.mjtLimited.mjLIMITED_FALSE if travel is None else mujoco.mjtLimited.mjLIMITED_TRUE,
            range=[0.0, 0.0] if travel is None else travel,
            margin=0.01,
            armature=0.0,
            damping=0.0,
        )


def _extend_floor(floor: mujoco.MjsGeom, wall: Wall) -> None:
    """Draw the floor up to a wall that is far away. For the physics it has no end anyway."""
    reach = max(abs(place) + half for place, half in zip(wall.centre[:2], wall.half_size[:2], strict=True))
    if reach > floor.size[0]:
        floor.size = [reach, reach, floor.size[2]]


def _colour(spec: mujoco.MjSpec) -> None:
    """Set colours and lights. Nothing here changes the physics."""
    for texture in spec.textures:
        if texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            texture.rgb1 = texture.rgb2 = [1.0, 1.0, 1.0]
        elif texture.name == "texplane":
            texture.rgb1, texture.rgb2 = rgba(palette.FLOOR)[:3], rgba(palette.FLOOR_SHADE)[:3]
    floor_material = spec.material("MatPlane")
    floor_material.reflectance = floor_material.specular = floor_material.shininess = 0.0
    floor_material.texrepeat = [1.0, 1.0]
    floor_material.texuniform = True
    for geom in spec.geoms:
        if geom.name == "floor":
            geom.rgba = [1.0, 1.0, 1.0, 1.0]
        elif not geom.name.startswith(("wall_", "block_")):
            geom.rgba = rgba(palette.AGENT)
    for light in spec.lights:
        light.pos, light.dir = [0.0, 0.0, 10.0], [-0.3, 0.4, -1.0]
        light.diffuse, light.specular = [0.3, 0.3, 0.3], [0.05, 0.05, 0.05]
    spec.visual.map.shadowclip = 0.25
    spec.visual.headlight.ambient = [0.45, 0.45, 0.45]
    spec.visual.headlight.diffuse = [0.25, 0.25, 0.25]
    spec.visual.headlight.specular = [0.0, 0.0, 0.0]
    spec.visual.global_.offwidth = spec.visual.global_.offheight = MAX_PIXELS
