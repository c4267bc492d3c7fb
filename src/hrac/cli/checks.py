"""Checks of options that several commands have."""

from pathlib import Path

from hrac.config import ConfigError
from hrac.folder import files


def check_random_seed(option: str, value: int) -> None:
    """Raise `ConfigError` unless a random seed is in its range."""
    if not 0 <= value < 2**31:
        raise ConfigError(f"{option} must be at least 0 and less than 2^31, got {value}")


def check_picture(path: Path, option: str = "--out") -> None:
    """Raise unless a picture can be written there. Its folder is made."""
    files.to_write(path, (".png", ".pdf", ".svg"), option)


def check_file(path: Path) -> None:
    """Raise if the path is a symbolic link. Its folder is made."""
    files.refuse_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)
