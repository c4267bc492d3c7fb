"""Compiled programs: kept between starts, and for a CPU compiled in the way that suits small networks."""

import functools
import hashlib
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax


def keep_compiled() -> None:
    """Keep what takes long to compile in the user's cache folder, if there is one, unless JAX_COMPILATION_CACHE_DIR says where.

    Each kind of machine has a folder of its own, since programs compiled for a CPU suit only its like.
    """
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home
        return
    jax.config.update("jax_compilation_cache_dir", str(base / "hrac" / f"compiled-{_processor()}"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)


def _processor() -> str:
    """A short name of what the processor can do."""
    about = [platform.machine(), platform.processor()]
    info = Path("/proc/cpuinfo")
    if info.exists():
        about += [line for line in info.read_text().splitlines() if line.startswith(("model name", "flags", "Features"))][:2]
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:12]


def jit_learner(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`jax.jit` for programs that are mostly matrix products, of the ants' sizes; to be called from outside of other programs.

    What a CPU does differently is settled at the first call.
    """

    @functools.cache
    def program() -> Callable[..., Any]:
        return jax.jit(function, compiler_options=_cpu_options() if jax.default_backend() == "cpu" else None, **options)

    return functools.wraps(function)(lambda *arguments, **named: program()(*arguments, **named))


@functools.cache
def _cpu_options() -> dict[str, str] | None:
    """Products by XLA's older library (Eigen) if this XLA has another (YNNPACK); benchmarks/README.md has the difference."""
    options = {"xla_cpu_experimental_ynn_fusion_type": ""}
    try:
        jax.jit(lambda: 0, compiler_options=options)()
    except RuntimeError:  # no such option
        return None
    return options
