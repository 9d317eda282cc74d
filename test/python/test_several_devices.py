"""Programs on several devices: each of them runs native code, and they meet at collectives."""

import textwrap

import pytest
import weft_jax

if not weft_jax.LIBRARY.exists():
    pytest.skip("the plugin is not built", allow_module_level=True)
pytest.importorskip("jax")

START = """
import jax, jax.numpy as jnp, numpy as np
from functools import partial
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
on_mesh = partial(jax.shard_map, mesh=mesh)
"""


def run(code, devices=4):
    """Nothing that the code runs falls back to the evaluator."""
    done = weft_jax.run(START + textwrap.dedent(code), JAX_PLATFORMS="weft", WEFT_CPU_DEVICES=devices,
                        WEFT_CACHE="0", WEFT_DEBUG="compile=1")
    assert done.returncode == 0, done.stderr[-4000:]
    assert "the evaluator runs it" not in done.stderr, done.stderr[-4000:]
    assert "runs in whole shapes" not in done.stderr, done.stderr[-4000:]
    return done.stdout


def test_collectives_of_shard_map():
    run("""
        x = np.arange(32, dtype=np.float32).reshape(8, 4)
        blocks = x.reshape(4, 2, 4)

        def check(f, expected, out_specs=P("x")):
            got = jax.jit(on_mesh(f, in_specs=P("x"), out_specs=out_specs, check_vma=False))(x)
            np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-6)

        check(lambda b: lax.psum(b, "x"), blocks.sum(0), P())
        check(lambda b: lax.pmax(b, "x"), blocks.max(0), P())
        check(lambda b: lax.pmean(b, "x"), blocks.mean(0), P())
        check(lambda b: lax.all_gather(b, "x", axis=1, tiled=True), np.concatenate(blocks, 1), P())
        check(lambda b: lax.psum_scatter(b, "x", scatter_dimension=1, tiled=True), blocks.sum(0).T.reshape(4, 1, 2).transpose(0, 2, 1).reshape(8, 1))
        check(lambda b: lax.all_to_all(b, "x", 1, 0, tiled=True), x.T.reshape(4, 1, 8).transpose(0, 2, 1).reshape(32, 1))
        check(lambda b: lax.ppermute(b, "x", [(i, (i + 1) % 4) for i in range(4)]), np.roll(blocks, 1, 0).reshape(8, 4))
        check(lambda b: b + lax.axis_index("x").astype(b.dtype), (blocks + np.arange(4, dtype=np.float32)[:, None, None]).reshape(8, 4))
        check(lambda b: lax.psum(b, "x", axis_index_groups=[[0, 2], [1, 3]]), (blocks + blocks[[2, 3, 0, 1]]).reshape(8, 4))
    """)


def test_collectives_in_loops():
    run("""
        def power(a, v):
            def step(v, _):
                w = lax.all_gather(a @ v, "x", tiled=True)
                return w / jnp.sqrt(jnp.sum(w * w)), None
            return lax.scan(step, v, length=20)[0]

        a = np.diag(np.arange(1, 9)).astype(np.float32)
        v = jax.jit(on_mesh(power, in_specs=(P("x"), P()), out_specs=P(), check_vma=False))(a, np.ones(8, np.float32))
        assert abs(np.asarray(v)[-1] - 1) < 1e-2
    """)


def test_many_small_collectives_leave_nothing_behind():
    """A hundred thousand in a loop, and as many calls of one as there is time for: the process does not grow."""
    grown = run("""
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096

        again = lambda _, v: lax.pcast(lax.psum(v, "x") / 8, "x", to="varying")
        turn = lambda _, v: lax.ppermute(v, "x", [(i, (i + 1) % 8) for i in range(8)])
        many = [jax.jit(on_mesh(lambda v, f=f: lax.fori_loop(0, 50_000, f, v), in_specs=P("x"), out_specs=P("x"))) for f in (again, turn)]
        one = jax.jit(on_mesh(lambda v: lax.psum(v, "x"), in_specs=P("x"), out_specs=P()))
        x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("x")))
        def round():
            np.testing.assert_allclose(np.asarray(many[0](x)), np.full(8, 3.5))
            np.testing.assert_array_equal(np.asarray(many[1](x)), np.roll(np.arange(8), 50_000 % 8))
            for _ in range(500):
                assert float(one(x)[0]) == 28
        round()
        before = resident()
        round()
        print(resident() - before)
    """, devices=8)
    assert int(grown.split()[-1]) < 2_000_000, grown


def test_training_step():
    run("""
        def loss(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        @jax.jit
        @partial(on_mesh, in_specs=(P(), P("x"), P("x")), out_specs=(P(), P()), check_vma=False)
        def step(w, x, y):
            l, g = jax.value_and_grad(loss)(w, x, y)
            return w - 0.1 * lax.pmean(g, "x"), lax.pmean(l, "x")

        rng = np.random.default_rng(0)
        w, x, y = (rng.standard_normal(s).astype(np.float32) for s in [(8, 3), (16, 8), (16, 3)])
        got, l = step(w, x, y)
        want = w - 0.1 * np.asarray(jax.grad(loss)(w, x, y))
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-5)
    """)


def test_parts_of_a_program_in_whole_shapes():
    run("""
        x = jax.device_put(np.arange(16, dtype=np.float32), NamedSharding(mesh, P("x")))

        @jax.jit
        def f(x):
            y = jnp.sin(x) + x.sum()
            z = on_mesh(lambda b: b - lax.pmax(b, "x"), in_specs=P("x"), out_specs=P("x"))(y)
            return z * 2, jnp.cumsum(z)

        y = np.sin(np.arange(16)) + 120
        z = y - y.reshape(4, 4).max(0)[None].repeat(4, 0).reshape(16)
        a, b = f(x)
        np.testing.assert_allclose(np.asarray(a), 2 * z, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(np.asarray(b), np.cumsum(z), rtol=1e-4, atol=1e-3)
    """)


def test_manual_computations_within_each_other():
    run("""
        mesh = jax.make_mesh((2, 2), ("a", "b"))
        x = np.arange(32.).reshape(4, 8)

        def inner(b):
            return jax.shard_map(lambda c: c * c, in_specs=P(None, "b"), out_specs=P(None, "b"), axis_names={"b"})(b)

        with jax.set_mesh(mesh):
            f = jax.jit(jax.shard_map(inner, in_specs=P("a", None), out_specs=P("a", None), axis_names={"a"}))
            got = f(jax.device_put(x, NamedSharding(mesh, P("a", "b"))))
        np.testing.assert_array_equal(np.asarray(got), x * x)
    """)


def test_pmap():
    run("""
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        got = jax.pmap(lambda v: v / lax.psum(v, "i"), axis_name="i")(x)
        np.testing.assert_allclose(np.asarray(got), x / x.sum(0), rtol=1e-6)
    """)


def test_a_device_that_fails_releases_the_others():
    run("""
        from jax.experimental import io_callback

        def fail(i):
            if i == 2: raise ValueError("device two has had enough")
            return np.float32(i)

        @jax.jit
        @partial(on_mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
        def f(x):
            y = io_callback(fail, jax.ShapeDtypeStruct((), np.float32), lax.axis_index("x"))
            return lax.psum(x + y, "x")

        try:
            jax.block_until_ready(f(np.ones(4, np.float32)))
            raise SystemExit("no error")
        except Exception as e:
            assert "had enough" in str(e), e
        assert float(jax.jit(jnp.sum)(jnp.ones(3))) == 3
    """)


def test_a_device_that_waits_for_ever_is_named():
    run("""
        for talk in (lambda v: lax.psum(v, "x"), lambda v: lax.ppermute(v, "x", [(0, 1), (1, 0), (2, 3), (3, 2)])):
            @jax.jit
            @partial(on_mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
            def f(x):
                return lax.cond(lax.axis_index("x") == 1, lambda v: v, talk, x)
            try:
                jax.block_until_ready(f(np.ones(4, np.float32)))
                raise SystemExit("no error")
            except jax.errors.JaxRuntimeError as e:
                said = str(e)
            assert "deadlock: device 0 waits at " in said and "finished" in said and "<string>:9" in said.replace(", line ", ":"), said
    """)


def test_each_device_computes_its_part():
    run("""
        x = jax.device_put(np.arange(64, dtype=np.float32).reshape(16, 4), NamedSharding(mesh, P("x")))
        w = jax.device_put(np.ones((4, 8), np.float32), NamedSharding(mesh, P("x", None)))
        f = jax.jit(lambda x, w: (jnp.tanh(x @ w), x.sum()))
        one, parts = jax.jit(lambda x, w: x @ w), f.lower(x, w).compile()
        assert "f32[4,4]" in parts.as_text() and "f32[16,4]" not in parts.as_text(), parts.as_text()
        assert "all-gather" in parts.as_text() and "all-reduce" in parts.as_text(), parts.as_text()
        assert parts.output_shardings[0].spec == P("x"), parts.output_shardings
        assert parts.memory_analysis().argument_size_in_bytes == (4 * 4 + 1 * 8) * 4
        a, b = f(x, w)
        np.testing.assert_allclose(np.asarray(a), np.tanh(np.asarray(x) @ np.ones((4, 8))), rtol=1e-5)
        assert float(b) == 2016
    """)


def test_donated_shards_are_overwritten():
    run("""
        place = NamedSharding(mesh, P("x"))
        x = jax.jit(lambda: jnp.arange(1 << 20, dtype=np.float32), out_shardings=place)()
        before = [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]
        y = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)(x)
        assert [s.data.unsafe_buffer_pointer() for s in y.addressable_shards] == before
        assert x.is_deleted()
        # Of one size, of another shape.
        y = jax.device_put(np.ones((8, 2), np.float32), place)
        jax.block_until_ready(jax.jit(lambda y: y.reshape(16), out_shardings=place, donate_argnums=0)(y))
        assert y.is_deleted()
        # No result has the size of its parts: it stays its owner's.
        z = jax.device_put(np.ones((8, 2), np.float32), place)
        jax.block_until_ready(jax.jit(lambda z: z @ z.T, donate_argnums=0)(z))
        assert not z.is_deleted()
    """)


def test_callbacks_of_split_programs():
    run("""
        from jax.experimental import io_callback

        calls = []
        def seen(v):
            calls.append(v.shape)
            return v * 2

        x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("x")))
        once = jax.jit(lambda x: io_callback(seen, jax.ShapeDtypeStruct((8,), np.float32), x + 1) + 1)
        np.testing.assert_array_equal(np.asarray(once(x)), (np.arange(8) + 1) * 2 + 1)
        assert calls == [(8,)], calls
        pure = jax.jit(lambda x: jax.pure_callback(seen, jax.ShapeDtypeStruct((8,), np.float32), x) + x)
        np.testing.assert_array_equal(np.asarray(pure(x)), np.arange(8) * 3)
        calls.clear()
        ordered = jax.jit(lambda x: io_callback(lambda v: calls.append(float(v)), None, x.sum(), ordered=True))
        ordered(x), ordered(x * 2)
        jax.effects_barrier()
        assert calls == [28, 56], calls
        calls.clear()
        each = jax.jit(lambda x: jax.debug.callback(lambda v: calls.append(v.shape), x, partitioned=True))
        each(x)
        jax.effects_barrier()
        assert calls == [(2,)] * 4, calls
    """)


def test_summands_are_added_up_once():
    run("""
        from jax.sharding import AxisType, reshard
        mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,))
        with jax.set_mesh(mesh):
            x = jax.device_put(np.arange(32, dtype=np.float32).reshape(4, 8), P(None, "x"))
            y = jax.device_put(np.ones((8, 4), np.float32), P("x", None))

            @jax.jit
            def f(x, y):
                d = jnp.dot(x, y, out_sharding=P(None, None, unreduced={"x"}))
                return reshard(d.T + d.T, P())

            text = f.lower(x, y).compile().as_text()
            assert text.count("all-reduce(") == 1, text
            np.testing.assert_array_equal(np.asarray(f(x, y)), 2 * (np.asarray(x) @ np.ones((8, 4))).T)
            cast = jax.shard_map(lambda v: jax.lax.pbroadcast(v, "x", 2), out_specs=P("x"), check_vma=False)
            np.testing.assert_array_equal(np.asarray(jax.jit(cast)(jax.device_put(np.arange(4.), P("x")))), [2, 2, 2, 2])
            shards = jax.jit(lambda v: v, out_shardings=P(unreduced={"x"}))(jax.device_put(np.arange(4.), P("x")))
            assert [s.data.tolist() for s in shards.addressable_shards] == [
                [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 0], [0, 0, 0, 3]]
    """)


def test_linear_algebra_along_batches():
    run("""
        a = np.random.default_rng(0).standard_normal((8, 5, 5)).astype(np.float32)
        a = a @ a.transpose(0, 2, 1) + 5 * np.eye(5, dtype=np.float32)
        f = jax.jit(jnp.linalg.eigh)
        sharded = jax.device_put(a, NamedSharding(mesh, P("x")))
        assert "all-gather" not in f.lower(sharded).compile().as_text()
        w, v = f(sharded)
        assert w.sharding.spec == P("x"), w.sharding
        np.testing.assert_allclose(np.asarray(w), np.linalg.eigvalsh(a), rtol=1e-4)
        by_rows = jax.device_put(a[0][:4, :4], NamedSharding(mesh, P("x")))
        assert "all-gather" in f.lower(by_rows).compile().as_text()
        np.testing.assert_allclose(np.asarray(f(by_rows)[0]), np.linalg.eigvalsh(a[0][:4, :4]), rtol=1e-4)
    """)


def test_custom_partitioning_calls_partition():
    run("""
        from jax.experimental.custom_partitioning import custom_partitioning
        seen = []

        @partial(custom_partitioning, static_argnums=(2,))
        def scaled_dot(x, w, scale):
            return scale * (x @ w), x.sum(1)

        def partition(scale, mesh, arguments, results):
            seen.append(([a.sharding.spec for a in arguments], [r.sharding.spec for r in results]))
            x, w = (a.sharding for a in arguments)
            rows = x.spec[0]

            def on_device(x, w):  # Columns of x and rows of w are cut by "y".
                return lax.psum(scale * (x @ w) + 1, "y"), lax.psum(x.sum(1), "y")

            on = partial(NamedSharding, mesh)
            return mesh, on_device, (on(P(rows, None)), on(P(rows))), (on(P(rows, "y")), on(P("y", None)))

        scaled_dot.def_partition(partition, sharding_rule="i k, k j -> i j, i", reduction_factors=("k",))
        mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
        x = np.arange(32, dtype=np.float32).reshape(4, 8)
        w = np.ones((8, 6), np.float32)
        f = jax.jit(lambda x, w: scaled_dot(2 * x, w, 3.0))
        with jax.set_mesh(mesh):
            args = jax.device_put(x, NamedSharding(mesh, P("x", "y"))), jax.device_put(w, NamedSharding(mesh, P("y")))
            text = f.lower(*args).compile().as_text()
            product, rows = f(*args)
        assert seen[0][0] == [P("x", "y"), P("y", None)], seen
        assert "all-reduce" in text and "f32[4,8]" not in text, text
        assert product.sharding.shard_shape(product.shape) == (2, 6), product.sharding
        np.testing.assert_allclose(np.asarray(product), 6 * (x @ w) + 2)  # the 1 of each part
        np.testing.assert_allclose(np.asarray(rows), 2 * x.sum(1))

        # Results lie as the program is asked for, whatever the part does.
        twice = custom_partitioning(lambda x: 2 * x)
        whole = NamedSharding(mesh, P(None))
        twice.def_partition(lambda mesh, args, result: (mesh, lambda x: 2 * x, whole, (whole,)), sharding_rule="i -> i")
        out = jax.jit(twice, out_shardings=NamedSharding(mesh, P("x")))(jax.device_put(np.arange(8.0), NamedSharding(mesh, P("x"))))
        assert out.sharding.shard_shape(out.shape) == (4,), out.sharding
        np.testing.assert_array_equal(np.asarray(out), 2 * np.arange(8.0))
    """)


def test_custom_partitioning_that_is_wrong_says_so():
    done = weft_jax.run(START + textwrap.dedent("""
        from jax.experimental.custom_partitioning import custom_partitioning
        f = custom_partitioning(lambda x: x * 2)
        f.def_partition(lambda mesh, args, result: (mesh, lambda x: x[:1], result.sharding, (args[0].sharding,)), sharding_rule="i -> i")
        with jax.set_mesh(mesh):
            jax.jit(f)(jax.device_put(np.ones(8, np.float32), NamedSharding(mesh, P("x"))))
    """), JAX_PLATFORMS="weft", WEFT_CPU_DEVICES=4, WEFT_CACHE="0")
    assert done.returncode != 0 and "Mismatch in result shapes" in done.stderr, done.stderr[-4000:]


def test_results_are_cut_by_whole_axes():
    run("""
        x = jax.device_put(np.arange(96.0, dtype=np.float32).reshape(16, 6), NamedSharding(mesh, P("x")))
        # Four devices have no equal parts of 6 or 10 rows; halves of the axis are nothing that JAX could name.
        for f in (lambda v: v[:10], lambda v: v.reshape(6, 16), lambda v: jnp.cumsum(v[3:9], 0)):
            got = jax.jit(f)(x)
            assert got.sharding.is_fully_replicated, got.sharding
            np.testing.assert_allclose(np.asarray(got), np.asarray(f(np.asarray(x))), rtol=1e-6)
        assert jax.jit(lambda v: v[:8])(x).sharding.spec == P("x")
    """)


def test_sums_along_manual_axes_beside_automatic_ones():
    run("""
        mesh = jax.make_mesh((2, 2), ("x", "y"))
        x = jax.device_put(np.arange(32.0, dtype=np.float32).reshape(8, 4), NamedSharding(mesh, P("x", "y")))
        f = jax.shard_map(lambda b: b + lax.psum(b.sum(), "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
        np.testing.assert_allclose(np.asarray(jax.jit(f)(x)), np.asarray(x) + 496)
    """)


def test_little_is_gathered():
    """Rotations, cumulative ops and top-k along a dimension that is cut."""
    run("""
        import re
        x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
        cut = jax.device_put(x, NamedSharding(mesh, P(None, "x")))

        def check(f, largest):
            done = jax.jit(f).lower(cut).compile()
            for got, expected in zip(jax.tree.leaves(done(cut)), jax.tree.leaves(f(jnp.asarray(x)))):
                np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-4, atol=1e-5)
            for dims in re.findall(r"\\w+\\[([\\d,]*)\\]\\S* all-gather\\(", done.as_text()):
                assert np.prod([int(d) for d in dims.split(",")]) <= largest, dims

        check(lambda v: lax.with_sharding_constraint(jnp.roll(v, 1, 1), cut.sharding), 0)
        check(lambda v: v[:, 17], 0)
        check(lambda v: jnp.cumsum(v, 1), 16)
        check(lambda v: lax.cummax(v, axis=1, reverse=True), 16)
        check(lambda v: lax.cumlogsumexp(v, axis=1), 16)
        check(lambda v: lax.top_k(v, 3), 48)
    """)


def test_ragged_all_to_all():
    run("""
        def exchange(rows, sizes):
            me = lax.axis_index("x").astype(jnp.int32)
            starts = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(sizes[0])[:-1]]).astype(jnp.int32)
            ones = jnp.full(4, 3 * me, jnp.int32)
            return lax.ragged_all_to_all(rows, jnp.full((12, 2), -1.0), starts, sizes[0], ones, lax.all_to_all(sizes, "x", 1, 0).reshape(4), axis_name="x")

        sizes = np.array([[1, 2, 3, 0], [2, 2, 1, 3], [0, 0, 3, 1], [3, 1, 1, 2]], np.int32)
        rows = np.arange(4 * 8 * 2, dtype=np.float32).reshape(32, 2)
        got = np.asarray(jax.jit(on_mesh(exchange, in_specs=P("x"), out_specs=P("x"), check_vma=False))(rows, sizes)).reshape(4, 12, 2)
        for to in range(4):
            expected = np.full((12, 2), -1.0)
            for source in range(4):
                n, first = sizes[source, to], source * 8 + sizes[source, :to].sum()
                expected[3 * source : 3 * source + n] = rows[first : first + n]
            np.testing.assert_array_equal(got[to], expected)
    """)


def test_layouts_as_asked():
    """Layout.AUTO of a result makes a transpose a matter of names; what is asked for is reported; the values are the same."""
    run("""
        from jax.experimental.layout import Format, Layout
        square = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
        cut = NamedSharding(square, P("x", "y"))
        x = np.arange(4 * 6 * 10, dtype=np.float32).reshape(4, 6, 10)
        a = jax.device_put(x, cut)

        def order(f, **asked):
            compiled = jax.jit(f, **asked).lower(a).compile()
            got = compiled(a)
            np.testing.assert_array_equal(np.asarray(got), np.asarray(jax.jit(f)(a)))
            assert got.format == compiled.output_formats
            return compiled.output_formats.layout.major_to_minor

        any_order = Format(Layout.AUTO)
        assert order(lambda x: x.T) == (0, 1, 2)
        assert order(lambda x: x.T, out_shardings=any_order) == (2, 1, 0)
        assert order(lambda x: 2 * jnp.transpose(x, (1, 2, 0)) + 1, out_shardings=any_order) == (2, 0, 1)
        assert order(lambda x: x.T + x.sum(), out_shardings=any_order) == (2, 1, 0)
        assert order(lambda x: x.T.at[0].set(0), out_shardings=any_order) == (0, 1, 2)
        b = jax.device_put(x, Format(Layout((1, 2, 0)), cut))
        assert b.format.layout.major_to_minor == (1, 2, 0)
        np.testing.assert_array_equal(np.asarray(b), x)
        for shard in b.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])
        np.testing.assert_array_equal(np.asarray(jax.jit(lambda x: x.T)(b)), x.T)
    """)
