"""Compiled programs, kept between starts."""

import hashlib
import os
import platform
from pathlib import Path

import jax


def keep_compiled() -> None:
    """Keep what takes long to compile in the user's cache folder, unless JAX_COMPILATION_CACHE_DIR says where.

    Each kind of machine has a folder of its own, since programs compiled for a CPU suit only its like.
    """
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(base / "hrac" / f"compiled-{_processor()}"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)


def _processor() -> str:
    """A short name of what the processor can do."""
    about = [platform.machine(), platform.processor()]
    info = Path("/proc/cpuinfo")
    if info.exists():
        about += [line for line in info.read_text().splitlines() if line.startswith(("model name", "flags", "Features"))][:2]
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:12]
