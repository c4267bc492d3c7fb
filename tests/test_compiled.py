import os
import subprocess
import sys

import jax

from hrac import compiled


def test_a_second_start_finds_what_the_first_compiled(tmp_path):
    program = (
        "import jax, jax.numpy as jnp; from hrac.compiled import keep_compiled; keep_compiled();"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0);"
        "jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((8, 8))).block_until_ready()"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    kept = []
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
        kept.append(sorted(path.name for path in tmp_path.glob("hrac/compiled-*/*-cache")))
    assert kept[0]
    assert kept[0] == kept[1]


def test_the_users_own_folder_is_respected(monkeypatch):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    compiled.keep_compiled()
    assert jax.config.jax_compilation_cache_dir == before
