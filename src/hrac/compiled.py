"""Compiled programs: kept between starts, and learners compiled with options that suit many small networks."""

import functools
import hashlib
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from jax import monitoring

COMPILED = "/jax/core/compile/backend_compile_duration"
"""JAX's name for the time that compiling a program took."""
_spent = [0.0]


def _listen(event: str, duration_secs: float, **_: str | int) -> None:
    if event == COMPILED:
        _spent[0] += duration_secs


monitoring.register_event_duration_secs_listener(_listen)


def seconds_compiling() -> float:
    """How long this process has compiled programs so far."""
    return _spent[0]


def keep_compiled() -> None:
    """Keep compiled programs in the user's cache folder, if there is one, or where JAX_COMPILATION_CACHE_DIR says.

    Each kind of machine has its own folder, since a program compiled for one CPU may not run on another.
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
    """A short name for the processor's features."""
    about = [platform.machine(), platform.processor()]
    info = Path("/proc/cpuinfo")
    if info.exists():
        about += [line for line in info.read_text().splitlines() if line.startswith(("model name", "flags", "Features"))][:2]
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:12]


OPTIONS = {
    "cpu": {"xla_cpu_experimental_ynn_fusion_type": ""},
    "gpu": {
        "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE",
        "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
    },
}
"""XLA's options for learners: see benchmarks/README.md.

On a CPU matrix products by XLA's older library (Eigen) where this XLA has a newer one (YNNPACK). On a GPU many small kernels
are started by one call, and side by side where none waits for another.
"""


def jit_learner(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`jax.jit` for programs that are mostly matrix products of the ants' sizes. Do not call them inside other programs.

    XLA's options are chosen at the first call.
    """

    @functools.cache
    def program() -> Callable[..., Any]:
        return jax.jit(function, compiler_options=learner_options(jax.default_backend()), **options)

    return functools.wraps(function)(lambda *arguments, **named: program()(*arguments, **named))


@functools.cache
def learner_options(backend: str) -> dict[str, str]:
    """Those of the `OPTIONS` for this kind of device that this XLA knows and that the user's XLA_FLAGS do not set."""
    own = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in OPTIONS.get(backend, {}).items() if f"--{name}=" not in own and _exists(name, value)}


def _exists(name: str, value: str) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options={name: value})()
    except RuntimeError:  # no such option, or no such value of it
        return False
    return True
