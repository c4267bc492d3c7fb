import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hrac import compiled


def test_the_time_of_compiling_is_counted():
    before = compiled.seconds_compiling()
    program = jax.jit(lambda x: jnp.sin(x) * 3.25)
    program(jnp.ones(3))
    once = compiled.seconds_compiling()
    program(jnp.zeros(3))
    assert before < once
    assert compiled.seconds_compiling() == once


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


@pytest.fixture
def _nothing_settled(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    compiled.learner_options.cache_clear()
    yield
    compiled.learner_options.cache_clear()


@pytest.mark.usefixtures("_nothing_settled")
def test_a_learner_is_compiled_like_any_function_where_xla_has_no_choice(monkeypatch):
    seen = []

    def refuse(function, compiler_options=None, **options):
        seen.append(compiler_options)
        if compiler_options:
            raise RuntimeError("INVALID_ARGUMENT: No such compile option")
        return function

    monkeypatch.setattr(jax, "jit", refuse)
    assert compiled.jit_learner(lambda x, *, y: x + y, static_argnames="y")(2, y=3) == 5
    assert seen == [{name: value} for name, value in compiled.OPTIONS.get(jax.default_backend(), {}).items()] + [{}]


@pytest.mark.usefixtures("_nothing_settled")
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_an_option_is_left_to_the_user_who_sets_it_and_left_away_where_it_does_not_exist(backend, monkeypatch):
    own = compiled.OPTIONS[backend]
    first = next(iter(own))
    assert compiled.learner_options(backend) == own
    compiled.learner_options.cache_clear()
    monkeypatch.setattr(compiled, "OPTIONS", {backend: own | {"xla_no_such_option": "1"}})
    monkeypatch.setenv("XLA_FLAGS", f"--xla_other=1 --{first}=whatever")
    assert compiled.learner_options(backend) == {name: value for name, value in own.items() if name != first}


def test_another_kind_of_device_has_no_options():
    assert compiled.learner_options("tpu") == {}


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="about CPUs")
def test_on_a_cpu_products_are_made_by_the_older_library():
    def lowered(options):
        return jax.jit(lambda x: x @ x, compiler_options=options).lower(jnp.ones((256, 256))).compile().as_text()

    assert "ynn" not in lowered(compiled.learner_options("cpu"))
    seen = []
    jit = jax.jit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "jit", lambda *args, **options: seen.append(options["compiler_options"]) or jit(*args, **options))
        compiled.jit_learner(lambda x: x + 1)(1.0)
    assert seen[-1] == compiled.learner_options("cpu")


def test_a_learner_is_compiled_once_and_takes_jits_options():
    calls = []

    @functools.partial(compiled.jit_learner, static_argnames="times", donate_argnums=0)
    def product(x, *, times):
        calls.append(times)
        return times * (x @ x)

    first = jnp.full((2, 2), 1.0)
    np.testing.assert_array_equal(product(first, times=3), np.full((2, 2), 6.0))
    np.testing.assert_array_equal(product(jnp.full((2, 2), 2.0), times=3), np.full((2, 2), 24.0))
    assert calls == [3]
    assert first.is_deleted()


def test_the_users_own_folder_is_respected(monkeypatch):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    compiled.keep_compiled()
    assert jax.config.jax_compilation_cache_dir == before
