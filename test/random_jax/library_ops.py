"""Single operations from the wider library: segments, searches, order statistics, special functions, images, narrow types, random numbers.

As in ops.py: each takes the context and the values there are and gives (text, shape, dtype, size), or None where it cannot be applied.
"""

from ops import floating, pick
from values import MAX_ELEMENTS, elements, fitted, tamed

SPECIAL = ("jax.scipy.special.digamma(jnp.abs({}) + 0.6)", "jax.scipy.special.i0e({})", "jax.scipy.special.i1e({})", "jax.scipy.special.erfc(2 * {})",
           "jax.scipy.special.expit({})", "jax.scipy.special.entr(jnp.abs({}) + 0.1)", "jax.scipy.special.erfc({})",
           "jnp.arctanh(0.9 * jnp.tanh({}))", "jnp.arccos(0.9 * jnp.tanh({}))", "jnp.arcsin(0.9 * jnp.tanh({}))", "jnp.arccosh(1.1 + jnp.abs({}))",
           "jnp.cosh(jnp.tanh({}))", "jnp.tan(jnp.tanh({}))", "jax.nn.elu({})", "jax.nn.selu({})", "jax.nn.celu({})", "jax.nn.mish({})", "jax.nn.hard_swish({})",
           "jax.nn.soft_sign({})", "jax.nn.log_sigmoid({})", "jax.nn.gelu({}, approximate=False)", "jax.nn.relu6({})", "jnp.float_power(jnp.abs({}) + 0.5, 1.5)",
           "jnp.logaddexp2({0}, {0} - 1)", "lax.reduce_precision({}, 8, 10)", "jnp.ldexp({}, 2)",
           "jnp.modf({} + 0.3)[0]", "lax.optimization_barrier({})", "jnp.polyval(jnp.array([0.1, -0.4, 0.7], {0}.dtype), {0})", "jnp.interp({0}, jnp.linspace(-1, 1, 5), jnp.arange(5.0)).astype({0}.dtype)")
NARROW = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "float8_e4m3fnuz")
NARROW_INTS = ("int4", "uint4", "int2", "uint2")
ACTIVATIONS_OVER = ("jax.nn.standardize({}, axis={})", "jax.nn.softmax({} * 3, axis={})", "jnp.gradient({}, axis={})", "jnp.diff({}, axis={}, prepend=0)", "lax.cumprod({} * 0.2 + 0.9, {})",
                    "jnp.nancumsum({}, {})", "jnp.fft.fftshift({}, {})", "lax.cumsum(lax.cummax({0}, {1}), {1})", "jnp.sort({}, {}, descending=True)",
                    "jnp.take_along_axis({0}, jnp.argsort({0}, axis={1}), axis={1})", "jnp.cumsum(jnp.flip({0}, {1}), {1})")


def special(context, values):
  value = floating(context, values)
  if value is None or value.dtype not in ("f32", "f64") and context.chance(0.8):
    return None
  pattern = context.random.choice(SPECIAL)
  if "interp" in pattern and value.dtype == "f64":
    return None
  return f"({pattern.format(tamed(value))}).astype({value.dtype})", value.shape, value.dtype, 4


def over_axis(context, values):
  value = pick(context, values, lambda v: v.dtype in ("f32", "f64") and v.rank and min(v.shape) > 1)
  if value is None:
    return None
  axis = context.random.randrange(value.rank)
  return context.random.choice(ACTIVATIONS_OVER).format(tamed(value), axis), value.shape, value.dtype, 6


def narrow_types(context, values):
  """There and back through types of four and eight bits."""
  value = pick(context, values, lambda v: v.is_float or v.is_int)
  if value is None:
    return None
  if value.is_float:
    return f"({tamed(value)}).astype(jnp.{context.random.choice(NARROW)}).astype({value.dtype})", value.shape, value.dtype, 2
  narrow = context.random.choice(NARROW_INTS)
  ways = ("{0}.astype(jnp.{1})", "({0}.astype(jnp.{1}) + jnp.ones((), jnp.{1}))", "jnp.maximum({0}.astype(jnp.{1}), jnp.ones((), jnp.{1}))", "jnp.flip({0}.astype(jnp.{1}))")
  return f"{context.random.choice(ways).format(value, narrow)}.astype({value.dtype})", value.shape, value.dtype, 2


def bits(context, values):
  """Words of one width as words of another."""
  value = pick(context, values, lambda v: v.dtype in ("s32", "u32", "s16", "u8", "s8"))
  if value is None:
    return None
  if value.dtype in ("s32", "u32"):
    parts, count = context.random.choice((("jnp.uint8", 4), ("jnp.int16", 2)))
    if elements(value.shape) * count > MAX_ELEMENTS or value.rank > 3:
      return None
    kind = "u8" if count == 4 else "s16"
    if kind not in context.dtypes:
      return None
    return f"lax.bitcast_convert_type({value}, {parts})", (*value.shape, count), kind, 1
  unsigned = {"s16": "uint16", "u8": "int8", "s8": "uint8"}[value.dtype]
  return f"lax.bitcast_convert_type(lax.bitcast_convert_type({value}, jnp.{unsigned}) // 3, {value.dtype})", value.shape, value.dtype, 1


def segments(context, values):
  """Sums, maxima and counts by key, at keys known at run time only."""
  keys = pick(context, values, lambda v: v.dtype == "s32" and v.rank == 1 and v.shape[0])
  if keys is None:
    return None
  n, count = keys.shape[0], context.random.choice((1, 3, 5, 16))
  kind = context.random.choice(("segment_sum", "segment_max", "segment_min", "segment_prod", "bincount", "histogram", "one_hot", "digitize"))
  if kind == "bincount":
    return f"jnp.bincount(jnp.abs({keys}) % {count}, length={count}).astype(s32)", (count,), "s32", 1
  if kind == "digitize":
    return f"jnp.digitize({keys}, jnp.array([-2, 0, 3, 3, 7], s32)).astype(s32)", (n,), "s32", 1
  value = pick(context, values, lambda v: v.dtype in ("f32", "f64", "s32"))
  if value is None or n * count > MAX_ELEMENTS:
    return None
  if kind == "histogram":
    return f"jnp.histogram({keys}, bins={count}, range=(-9, 10))[0].astype(s32)", (count,), "s32", 1
  if kind == "one_hot":
    return f"jax.nn.one_hot(jnp.abs({keys}) % {count}, {count}, dtype={value.dtype})", (n, count), value.dtype, 1
  shape = (n, *context.random.choice(((), (), (3,))))
  part = fitted(context, value, shape, value.dtype)
  if value.is_int and kind == "segment_prod":
    kind = "segment_sum"
  text = f"jax.ops.{kind}({part}, jnp.abs({keys}) % {count + 1}, {count})"
  if kind in ("segment_max", "segment_min"):
    text = f"jnp.clip({text}, -99, 99)"
  return text, (count, *shape[1:]), value.dtype, 5


def searches(context, values):
  value = pick(context, values, lambda v: v.dtype in ("f32", "f64", "s32", "bf16", "u8") and v.rank and v.shape[-1] and elements(v.shape))
  if value is None:
    return None
  n = value.shape[-1]
  kind = context.random.choice(("top_k", "top_k_index", "searchsorted", "lexsort", "sort_pairs", "nonzero", "unique", "quantile", "median", "triu", "trace", "ptp", "partition"))
  lead = value.shape[:-1]
  if kind in ("top_k", "top_k_index"):
    k = context.random.randint(1, n)
    index = kind == "top_k_index"
    return f"lax.top_k({value}, {k})[{int(index)}]", (*lead, k), "s32" if index else value.dtype, value.size
  if kind == "searchsorted":
    row = f"jnp.sort(jnp.reshape({value}, (-1,)))"
    return f"jnp.searchsorted({row}, {value}, side={context.random.choice(('left', 'right'))!r}, method={context.random.choice(('scan', 'sort', 'compare_all'))!r}).astype(s32)", value.shape, "s32", 1
  flat = f"jnp.reshape({value}, (-1,))"
  if kind == "lexsort":
    return f"jnp.lexsort(({flat}, {flat} > 0)).astype(s32)", (elements(value.shape),), "s32", 1
  if kind == "sort_pairs":
    return f"lax.sort(({value} > 0, {value}, lax.broadcasted_iota(s32, {value.shape}, {value.rank - 1})), dimension={value.rank - 1}, num_keys=2)[2]", value.shape, "s32", 1
  if kind == "nonzero":
    size = context.random.choice((1, 4, 9))
    return f"jnp.nonzero({flat} > 0, size={size}, fill_value={context.random.choice((-1, 0))})[0].astype(s32)", (size,), "s32", 1
  if kind == "unique":
    if value.is_float:
      return None
    size = context.random.choice((1, 4, 9))
    return f"jnp.unique({value}, size={size}, fill_value=0)", (size,), value.dtype, value.size
  if kind in ("quantile", "median"):
    if value.dtype not in ("f32", "f64"):
      return None
    call = "jnp.median({}, axis=-1)" if kind == "median" else f"jnp.quantile({{}}, {context.random.choice((0.0, 0.3, 1.0))}, axis=-1)"
    return call.format(value), lead, value.dtype, value.size
  if kind in ("triu", "trace"):
    if value.rank < 2:
      return None
    k = context.random.choice((-1, 0, 1))
    if kind == "triu":
      return f"jnp.{context.random.choice(('triu', 'tril'))}({value}, {k})", value.shape, value.dtype, value.size
    return f"jnp.trace({tamed(value)}, axis1=-2, axis2=-1).astype({value.dtype})", value.shape[:-2], value.dtype, 5
  if kind == "partition":
    return f"jnp.sort(jnp.partition({value}, {n // 2})[..., :{n // 2}], axis=-1)", (*lead, n // 2), value.dtype, value.size
  return f"(jnp.max({tamed(value)}, axis=-1) - jnp.min({tamed(value)}, axis=-1))", lead, value.dtype, value.size + 1


def transforms(context, values):
  """Fourier transforms, images, convolutions with strides, dilations and groups, custom windows."""
  value = pick(context, values, lambda v: v.dtype in ("f32", "f64") and v.rank >= 2 and min(v.shape) > 1)
  if value is None:
    return None
  rows, columns = value.shape[-2:]
  text = tamed(value)
  image = f"jnp.reshape({text}, (-1, {rows}, {columns}))[0]"
  kind = context.random.choice(("fft2", "irfft", "resize", "conv2", "transposed", "grouped", "map", "window", "dct", "shift", "pool"))
  if kind == "fft2":
    return f"jnp.real(jnp.fft.ifft2(jnp.fft.fft2({image}) * 0.5))", (rows, columns), value.dtype, 3
  if kind == "irfft":
    n = context.random.choice((2, 5, 8, 12))
    return f"jnp.fft.irfft(jnp.fft.rfft({image}), n={n})", (rows, n), value.dtype, 3
  if kind == "dct":
    return f"jax.scipy.fft.dct({image}, norm='ortho')", (rows, columns), value.dtype, 4
  if kind == "shift":
    return f"jnp.fft.fftshift({image}, axes=(0, 1))", (rows, columns), value.dtype, 2
  if kind == "resize":
    shape = (context.random.choice((1, 3, 8)), context.random.choice((2, 7)))
    return f"jax.image.resize({image}, {shape}, {context.random.choice(('linear', 'nearest', 'cubic', 'lanczos3'))!r})", shape, value.dtype, 2
  if kind == "map":
    at = f"[jnp.linspace(-1, {rows}, 5).astype({value.dtype}), jnp.linspace(0.2, {columns}, 5).astype({value.dtype})]"
    return f"jax.scipy.ndimage.map_coordinates({image}, {at}, order=1, mode={context.random.choice(('constant', 'nearest', 'wrap', 'mirror', 'reflect'))!r})", (5,), value.dtype, 2
  if kind == "window":
    start, combine = context.random.choice((("-jnp.inf", "lax.max"), ("0.0", "lax.add"), ("jnp.inf", "lax.min")))
    return f"lax.reduce_window({image}, {start}, {combine}, (2, 2), (1, 2), 'SAME', window_dilation=(1, 2))", (rows, (columns + 1) // 2), value.dtype, 4
  if kind == "pool":
    return f"lax.reduce_window({image}, 0.0, lax.add, (2, 3), (1, 1), ((1, 0), (2, 0)))", (rows, columns), value.dtype, 5
  other = pick(context, values)
  if kind == "conv2":
    weights = fitted(context, other, (2, 1, 2, 2), value.dtype)
    return f"lax.conv_general_dilated(({image})[None, None], {weights}, (1, 1), 'SAME', rhs_dilation=(2, 1))[0]", (2, rows, columns), value.dtype, 4
  if kind == "transposed":
    weights = fitted(context, other, (2, 2, 1, 3), value.dtype)
    return f"lax.conv_transpose(({image})[None, :, :, None], {weights}, (2, 1), 'SAME')[0, :, :, 0]", (2 * rows, columns), value.dtype, 4
  weights = fitted(context, other, (2 * rows, 1, 2), value.dtype)
  return f"lax.conv_general_dilated(({image})[None], {weights}, (1,), 'SAME', feature_group_count={rows})[0]", (2 * rows, columns), value.dtype, 4


def draws(context, values):
  """Random numbers of many kinds, their keys made at run time."""
  seed = pick(context, values, lambda v: v.is_int and v.rank == 0)
  key = f"jax.random.key({seed}.astype(jnp.uint32))" if seed else "jax.random.key(7)"
  n = context.random.choice((1, 3, 17))
  kinds = ("normal", "gumbel", "laplace", "logistic", "cauchy", "exponential", "rademacher", "permutation", "categorical", "truncated", "bits", "split", "bernoulli")
  kind = context.random.choice(kinds)
  if kind == "permutation":
    return f"jax.random.permutation({key}, {n}).astype(s32)", (n,), "s32", 1
  if kind == "categorical":
    return f"jax.random.categorical({key}, jnp.log(jnp.arange(1.0, 6.0)), shape=({n},)).astype(s32)", (n,), "s32", 1
  if kind == "bits":
    return f"(jax.random.bits({key}, ({n},), jnp.uint8) % 100).astype(s32)", (n,), "s32", 1
  if kind == "split":
    return f"(jax.random.key_data(jax.random.split(jax.random.fold_in({key}, 3), {n})) % 100).astype(s32)", (n, 2), "s32", 1
  if kind == "bernoulli":
    return f"jax.random.bernoulli({key}, 0.4, ({n},)).astype(s32)", (n,), "s32", 1
  if "f32" not in context.dtypes:
    return None
  if kind == "truncated":
    return f"jax.random.truncated_normal({key}, -1, 2, ({n},), jnp.float32).astype(f32)", (n,), "f32", 2
  if kind == "rademacher":
    return f"jax.random.rademacher({key}, ({n},), jnp.float32).astype(f32)", (n,), "f32", 1
  return f"jnp.clip(jax.random.{kind}({key}, ({n},), jnp.float32), -9, 9).astype(f32)", (n,), "f32", 3


def matrices(context, values):
  """Solvers by iteration, functions of matrices, small decompositions whose results have no sign to choose."""
  value = pick(context, values, lambda v: v.dtype in ("f32", "f64") and elements(v.shape))
  if value is None:
    return None
  n = context.random.choice((1, 2, 3, 5))
  square = fitted(context, value, (n, n), value.dtype)
  matrix = f"(jnp.matmul({square}, ({square}).T) + {n + 1} * jnp.eye({n}, dtype={value.dtype}))"
  right = fitted(context, pick(context, values), (n,), value.dtype)
  kind = context.random.choice(("expm", "cho_solve", "lu_solve", "tridiagonal", "power", "svdvals", "block", "kron", "trapezoid", "cg", "linear_solve", "cross", "batched"))
  vector, same = (n,), (n, n)
  if kind == "expm":
    return f"jax.scipy.linalg.expm({square} * 0.3)", same, value.dtype, 3
  if kind == "cho_solve":
    return f"jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor({matrix}), {right})", vector, value.dtype, 2
  if kind == "lu_solve":
    return f"jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor({matrix}), {right}, trans=1)", vector, value.dtype, 2
  if kind == "tridiagonal":
    n = max(n, 2)
    row = fitted(context, value, (n,), value.dtype)
    right = fitted(context, pick(context, values), (n, 1), value.dtype)
    return f"lax.linalg.tridiagonal_solve(jnp.ones({n}, {value.dtype}).at[0].set(0), 4 + {row}, jnp.ones({n}, {value.dtype}).at[-1].set(0), {right})", (n, 1), value.dtype, 2
  if kind == "power":
    return f"jnp.linalg.matrix_power({square} * 0.5, {context.random.choice((0, 1, 3, 5))})", same, value.dtype, 3
  if kind == "svdvals":
    return f"jnp.linalg.svd({matrix}, compute_uv=False)", vector, value.dtype, 5
  if kind == "block":
    return f"jax.scipy.linalg.block_diag({square}, {square})", (2 * n, 2 * n), value.dtype, 1
  if kind == "kron":
    return f"jnp.kron({square}, jnp.eye(2, dtype={value.dtype}))", (2 * n, 2 * n), value.dtype, 1
  if kind == "trapezoid":
    return f"jnp.trapezoid({square}, axis=0)", vector, value.dtype, 3
  if kind == "cg":
    return f"jax.scipy.sparse.linalg.cg({matrix}, {right}, maxiter={2 * n})[0]", vector, value.dtype, 2
  if kind == "linear_solve":
    return f"lax.custom_linear_solve(lambda x: jnp.matmul({matrix}, x), {right}, solve=lambda f, b: jnp.linalg.solve({matrix}, b), symmetric=True)", vector, value.dtype, 2
  if kind == "cross":
    return f"jnp.cross({fitted(context, value, (n, 3), value.dtype)}, jnp.array([0.5, -1, 2], {value.dtype}))", (n, 3), value.dtype, 3
  return f"jnp.linalg.solve(jnp.stack([{matrix}] * 3), jnp.stack([{right}[:, None]] * 3))", (3, n, 1), value.dtype, 2


def collectives(context, values):
  """What vmap with the name of an axis makes of collectives."""
  value = pick(context, values, lambda v: v.dtype in ("f32", "f64", "s32") and v.rank and 0 < v.shape[0] <= 13 and elements(v.shape))
  if value is None:
    return None
  n = value.shape[0]
  ring = [(k, (k + 1) % n) for k in range(n)]
  one = ["lax.psum(x, 'i')", "lax.pmean(x, 'i')" if value.is_float else "x", f"lax.ppermute(x, 'i', {ring})", f"lax.ppermute(x, 'i', {[(b, a) for a, b in ring]})",
         f"x * lax.axis_index('i').astype({value.dtype})", "lax.all_gather(x, 'i')[0]"]
  if value.is_int:  # They have no derivative.
    one += ["lax.pmax(x, 'i')", "lax.pmin(x, 'i') + x"]
  return f"jax.vmap(lambda x: {context.random.choice(one)}, axis_name='i')({tamed(value)})", value.shape, value.dtype, value.size + 4


def of_high_rank(context, values):
  """Through six and seven dimensions and back."""
  value = pick(context, values, lambda v: v.rank >= 1 and elements(v.shape))
  if value is None:
    return None
  rank = context.random.choice((6, 7, 8))
  high, at = [1] * rank, 0
  for k, size in enumerate(value.shape):
    at = context.random.randint(at, rank - value.rank + k)
    high[at], at = size, at + 1
  order = context.random.sample(range(rank), rank)
  back = [order.index(k) for k in range(rank)]
  way = context.random.choice(("jnp.flip({}, ({}, {}))", "jnp.roll({}, (1, 2), ({}, {}))", "jnp.moveaxis({0}, ({1}, {2}), ({1}, {2}))")).format(
      f"jnp.transpose(jnp.reshape({value}, {tuple(high)}), {tuple(order)})", *context.random.sample(range(rank), 2))
  return f"jnp.reshape(jnp.transpose({way}, {tuple(back)}), {value.shape})", value.shape, value.dtype, value.size


LIBRARY = ((special, 6), (over_axis, 3), (narrow_types, 4), (bits, 2), (segments, 4), (searches, 7), (transforms, 4), (draws, 3), (matrices, 3), (collectives, 3), (of_high_rank, 2))
