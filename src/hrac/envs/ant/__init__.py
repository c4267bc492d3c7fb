"""The MuJoCo ant. Importing this package checks that MuJoCo is there, for all its modules."""

from hrac.errors import MissingExtraError

OLDEST = 4
"""`mujoco.batch` came with this version."""


def _require_mujoco() -> None:
    """Raise `MissingExtraError` if there is no MuJoCo, or an older one."""
    try:
        import mujoco
    except ModuleNotFoundError as error:
        if error.name != "mujoco":  # MuJoCo is there, but broken
            raise
        found = "none is installed"
    else:
        if int(mujoco.__version__.split(".")[0]) >= OLDEST:
            return
        found = f"{mujoco.__version__} is installed"
    raise MissingExtraError(f"the ants need MuJoCo {OLDEST} or newer, {found}: pip install 'hrac[ants]'")


_require_mujoco()
