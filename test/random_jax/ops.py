"""Single operations of random programs: each function takes the context and the values there are and gives (text, shape, dtype, size).

None means that it cannot be applied to what it picked; the caller tries another.
"""

from values import FLOATS, MAX_ELEMENTS, broadcast, cast, elements, fitted, tamed

UNARY = ("jnp.sin({})", "jnp.cos({})", "jnp.tanh({})", "jnp.exp(-jnp.abs({}))", "jnp.log1p(jnp.abs({}))", "jnp.sqrt(jnp.abs({}) + 0.3)",
         "lax.rsqrt(jnp.abs({}) + 0.5)", "jnp.abs({})", "jnp.square(jnp.tanh({}))", "jax.nn.sigmoid({})", "lax.erf({})", "jax.nn.relu({})",
         "jax.nn.softplus({})", "jax.nn.gelu({})", "jnp.arctan({})", "jnp.cbrt({} + 0.7)", "-{}", "jnp.clip({}, -0.8, 0.9)", "jnp.sinh(jnp.tanh({}))",
         "jnp.expm1(jnp.clip({}, -2, 2))", "jnp.log(jnp.abs({}) + 0.1)", "lax.stop_gradient({})", "jnp.sign({})", "jnp.nan_to_num({})",
         "1 / (1 + jnp.square({}))", "jax.nn.silu({})", "jnp.arcsinh({})", "jnp.exp2(jnp.clip({}, -3, 2))", "jnp.sinc({})",
         "lax.integer_pow(jnp.tanh({}), 3)", "jnp.deg2rad({})", "jnp.trunc({})", "jax.nn.leaky_relu({})", "lax.erf_inv(0.9 * jnp.tanh({}))",
         "jax.scipy.special.xlogy(jnp.abs({0}) + 0.1, jnp.abs({0}) + 1)", "jax.scipy.special.gammaln(jnp.abs({}) + 0.6)")
BINARY = ("{} + {}", "{} - {}", "{} * {}", "jnp.maximum({}, {})", "jnp.minimum({}, {})", "{} / (1.5 + jnp.abs({}))", "jnp.arctan2({}, {} + 2.5)",
          "jnp.hypot({} + 0.3, {} + 0.4)", "jnp.where({0} > {1}, {0}, 2 * {1})", "jnp.logaddexp({}, {})", "jnp.power(jnp.abs({}) + 0.5, jnp.tanh({}))",
          "{} * 0.5 + {}", "jnp.copysign({}, {})", "jnp.fmod({}, jnp.abs({}) + 1.5)", "jnp.where(jnp.isfinite({0}), {0}, {1})")
INT_UNARY = ("-{}", "~{}", "jnp.abs({})", "lax.population_count({})", "lax.clz({})", "jnp.sign({})", "jnp.clip({}, 2, 9)", "{} * {}", "jnp.square({})")
INT_BINARY = ("{} + {}", "{} - {}", "{} * {}", "jnp.maximum({}, {})", "jnp.minimum({}, {})", "{} & {}", "{} | {}", "{} ^ {}", "{} // ({} | 1)", "{} % ({} | 1)",
              "lax.rem(*jnp.broadcast_arrays({}, {} | 1))", "lax.div(*jnp.broadcast_arrays({}, {} | 1))", "jnp.left_shift({}, {} & 7)", "jnp.right_shift({}, {} & 7)",
              "lax.shift_right_logical(*jnp.broadcast_arrays({}, {} & 3))", "jnp.where({0} > {1}, {0}, {1} + 3)", "jnp.gcd({}, {})")
COMPLEX_UNARY = ("jnp.conj({})", "-{}", "jnp.exp(1j * jnp.real({}))", "{} * {}", "1 / (1 + jnp.real({0} * jnp.conj({0})))", "jnp.sin({})", "jnp.sqrt({} + 2)", "jnp.tanh({})")
COMPARE = ("{} < {}", "{} >= {}", "{} == {}", "{} != {}", "{} <= {}", "{} > {}")
GROWING = ("{} * {}", "{} + {}", "{} - {}", "jnp.square({})", "{} * 0.5 + {}")


def pick(context, values, test=lambda value: True):
  chosen = [value for value in values if test(value)]
  if not chosen:
    return None
  # The newest ones more often, so that programs are deep.
  return chosen[-1] if context.chance(0.45) else context.random.choice(chosen)


def floating(context, values):
  return pick(context, values, lambda value: value.is_float)


def unary(context, values):
  value = pick(context, values)
  text = tamed(value) if value.size > 4 else str(value)
  if value.is_float:
    return context.random.choice(UNARY).format(text), value.shape, value.dtype, min(value.size, 5)
  if value.is_complex:
    pattern = context.random.choice(COMPLEX_UNARY)
    if pattern.startswith("1 /"):
      return f"({pattern.format(tamed(value))}).astype({value.dtype})", value.shape, value.dtype, 1
    return pattern.format(tamed(value), tamed(value)), value.shape, value.dtype, 3
  if value.dtype == "pred":
    return f"~{value}", value.shape, "pred", 1
  return f"({context.random.choice(INT_UNARY).format(value, value)}).astype({value.dtype})", value.shape, value.dtype, 1


def binary(context, values):
  a = pick(context, values)
  b = pick(context, values, lambda v: broadcast(a.shape, v.shape) is not None and elements(broadcast(a.shape, v.shape)) <= MAX_ELEMENTS)
  shape = broadcast(a.shape, b.shape)
  other = cast(tamed(b), b.dtype, a.dtype)
  if a.is_float:
    pattern = context.random.choice(BINARY if not context.chance(0.4) else BINARY[:3])
    size = max(a.size, min(b.size, 2)) + (1.5 if pattern in GROWING else 0)
    return pattern.format(tamed(a) if size > 6 else a, other), shape, a.dtype, min(size, 6)
  if a.is_complex:
    return context.random.choice(BINARY[:3]).format(tamed(a), other), shape, a.dtype, 3
  if a.dtype == "pred":
    return context.random.choice(("{} & {}", "{} | {}", "{} ^ {}", "{} == {}")).format(a, other), shape, "pred", 1
  return f"({context.random.choice(INT_BINARY).format(a, other)}).astype({a.dtype})", shape, a.dtype, 1


def compare(context, values):
  a = pick(context, values, lambda v: not v.is_complex)
  if a is None:
    return None
  b = pick(context, values, lambda v: broadcast(a.shape, v.shape) is not None and elements(broadcast(a.shape, v.shape)) <= MAX_ELEMENTS)
  return f"{context.random.choice(COMPARE).format(a, cast(tamed(b), b.dtype, a.dtype))}", broadcast(a.shape, b.shape), "pred", 1


def select(context, values):
  a = pick(context, values)
  condition = pick(context, values, lambda v: v.dtype == "pred" and broadcast(a.shape, v.shape) == a.shape)
  b = pick(context, values)
  test = str(condition) if condition else f"(jnp.arange({a.shape[-1]}, dtype=s32) % 3 > 0)" if a.rank else "True"
  return f"jnp.where({test}, {a}, {fitted(context, b, a.shape, a.dtype)})", a.shape, a.dtype, max(a.size, 2)


def convert(context, values):
  value, dtype = pick(context, values), context.dtype()
  return cast(tamed(value), value.dtype, dtype), value.shape, dtype, 4 if value.size > 2 else 2


def reduce(context, values):
  value = pick(context, values, lambda v: v.rank)
  if value is None:
    return None
  axis = context.random.randrange(value.rank)
  every, keep = context.chance(0.25), context.chance(0.2)
  shape = () if every and not keep else tuple((1,) if every or k == axis else (n,) for k, n in enumerate(value.shape))
  if shape:
    shape = tuple(n[0] for k, n in enumerate(shape) if keep or k != axis)
  where = f"axis={None if every else axis}, keepdims={keep}"
  empty = elements(value.shape) == 0 or value.shape[axis] == 0
  length = elements(value.shape) if every else value.shape[axis]
  if value.is_float or value.is_complex:
    choices = ["sum", "mean", "prod"] if value.is_complex else ["sum", "sum", "mean", "max", "min", "var", "prod", "logsumexp", "std", "norm"]
    kind = "sum" if empty else context.random.choice(choices)
    text = tamed(value)
    if kind == "logsumexp":
      return f"jax.nn.logsumexp({text}, {where})", shape, value.dtype, 4
    if kind == "norm":
      return f"jnp.sqrt(jnp.sum(jnp.square({text}), {where}) + 0.1)", shape, value.dtype, 4
    if kind == "std":
      return f"jnp.sqrt(jnp.var({text}, {where}) + 0.01)", shape, value.dtype, 2
    if kind == "prod":
      return f"jnp.prod({text} * 0.4 + 0.9, {where})", shape, value.dtype, 4
    return f"jnp.{kind}({text}, {where})", shape, value.dtype, min(6, value.size + (length.bit_length() if kind == "sum" else 0))
  if value.dtype == "pred":
    return f"jnp.{context.random.choice(('any', 'all'))}({value}, {where})", shape, "pred", 1
  kind = "sum" if empty else context.random.choice(("sum", "max", "min", "prod"))
  return f"jnp.{kind}({value}, {where}).astype({value.dtype})", shape, value.dtype, 1


def position(context, values):
  """argmax and its kin."""
  value = pick(context, values, lambda v: v.rank and elements(v.shape) and not v.is_complex)
  if value is None:
    return None
  axis = context.random.randrange(value.rank)
  kind = context.random.choice(("argmax", "argmin", "argsort", "count"))
  if kind == "argsort":
    return f"jnp.argsort({value}, axis={axis}).astype(s32)", value.shape, "s32", 1
  shape = value.shape[:axis] + value.shape[axis + 1:]
  if kind == "count":
    return f"jnp.count_nonzero({value}, axis={axis}).astype(s32)", shape, "s32", 1
  return f"jnp.{kind}({value}, axis={axis}).astype(s32)", shape, "s32", 1


def along(context, values):
  """Operations along one dimension that keep the shape."""
  value = pick(context, values, lambda v: v.rank)
  if value is None:
    return None
  axis = context.random.randrange(value.rank)
  text = tamed(value)
  kinds = ["jnp.flip({}, {})", "jnp.roll({}, 2, {})", "jnp.roll({}, -1, {})"]
  if value.dtype != "pred":
    kinds += ["jnp.cumsum({}, {})", "jnp.cumsum({}, {})", "lax.cumsum({}, {}, reverse=True)"]
    if not value.is_complex:
      kinds += ["jnp.sort({}, {})", "lax.cummax({}, {})", "lax.cummin({}, {}, reverse=True)"]
    if value.is_float:
      kinds += ["jnp.cumprod({} * 0.3 + 0.9, {})", "jax.nn.softmax({}, {})", "jax.nn.log_softmax({}, {})", "lax.associative_scan(jnp.maximum, {}, axis={})",
                "lax.associative_scan(jnp.add, {}, axis={})",
                "lax.cumlogsumexp({}, {})"] if value.shape[axis] else []
  text = context.random.choice(kinds).format(text, axis)
  return text + (f".astype({value.dtype})" if value.is_int else ""), value.shape, value.dtype, min(6, value.size + 3)


def reshape(context, values):
  value = pick(context, values)
  count = elements(value.shape)
  factors = [(count,)] + [(count // n, n) for n in (1, 2, 3, 4, 5, 7) if n and count % n == 0] + [(n, count // n) for n in (1, 2, 3) if count % n == 0]
  shape = context.random.choice(factors if count else [(0,), (0, 3), (2, 0)])
  return f"jnp.reshape({value}, {shape})", shape, value.dtype, value.size


def transpose(context, values):
  value = pick(context, values, lambda v: v.rank > 1)
  if value is None:
    return None
  order = list(range(value.rank))
  context.random.shuffle(order)
  return f"jnp.transpose({value}, {tuple(order)})", tuple(value.shape[k] for k in order), value.dtype, value.size


def widen(context, values):
  """Broadcasts, tiles, repeats, pads."""
  value = pick(context, values, lambda v: elements(v.shape) * 4 <= MAX_ELEMENTS)
  if value is None:
    return None
  kind = context.random.choice(("broadcast", "expand", "tile", "repeat", "pad", "lax.pad", "concatenate", "stack"))
  if kind == "broadcast" or not value.rank:
    n = context.random.choice((1, 2, 3))
    return f"jnp.broadcast_to({value}, {(n, *value.shape)})", (n, *value.shape), value.dtype, value.size
  axis = context.random.randrange(value.rank)
  grown = lambda n: value.shape[:axis] + (n,) + value.shape[axis + 1:]
  length = value.shape[axis]
  if kind == "expand":
    return f"jnp.expand_dims({value}, {axis})", value.shape[:axis] + (1,) + value.shape[axis:], value.dtype, value.size
  if kind == "tile":
    return f"jnp.tile({value}, {tuple(2 if k == axis else 1 for k in range(value.rank))})", grown(2 * length), value.dtype, value.size
  if kind == "repeat":
    return f"jnp.repeat({value}, 2, axis={axis})", grown(2 * length), value.dtype, value.size
  if kind == "stack":
    return f"jnp.stack([{value}, {fitted(context, pick(context, values), value.shape, value.dtype)}], axis={axis})", value.shape[:axis] + (2,) + value.shape[axis:], value.dtype, max(2, value.size)
  if kind == "concatenate":
    part = value.shape[:axis] + (context.random.choice((0, 1, 2, 3)),) + value.shape[axis + 1:]
    other = fitted(context, pick(context, values), part, value.dtype)
    return f"jnp.concatenate([{value}, {other}], axis={axis})", grown(length + part[axis]), value.dtype, max(2, value.size)
  low, high = context.random.choice((0, 1, 2)), context.random.choice((0, 1, 3))
  if kind == "pad":
    modes = ["constant", "edge", "wrap"] if length > 3 else ["edge", "constant"] if length else ["constant"]
    pads = tuple((low, high) if k == axis else (0, 0) for k in range(value.rank))
    return f"jnp.pad({value}, {pads}, mode={context.random.choice(modes)!r})", grown(length + low + high), value.dtype, value.size
  inner = context.random.choice((0, 0, 1, 2))
  low -= 2 * (length > 3 and context.chance(0.4))
  pads = tuple((low, high, inner) if k == axis else (0, 0, 0) for k in range(value.rank))
  total = low + high + length + max(0, length - 1) * inner
  fill = "False" if value.dtype == "pred" else "1"
  return f"lax.pad({value}, jnp.array({fill}, {value.dtype}), {pads})", grown(total), value.dtype, max(1, value.size)


def index(context, values):
  """Slices, gathers, and reads at places known at run time only."""
  value = pick(context, values, lambda v: v.rank and elements(v.shape))
  if value is None:
    return None
  axis = context.random.randrange(value.rank)
  length = value.shape[axis]
  at = lambda text: "[" + ", ".join([":"] * axis + [text]) + "]"
  cut = lambda n: value.shape[:axis] + (() if n is None else (n,)) + value.shape[axis + 1:]
  kind = context.random.choice(("slice", "strided", "dynamic_slice", "take", "gather", "element", "along", "reverse", "mask"))
  if kind == "slice":
    low = context.random.randrange(length)
    high = context.random.randint(low, length)
    return f"{value}{at(f'{low}:{high}')}", cut(high - low), value.dtype, value.size
  if kind == "strided":
    step = context.random.choice((2, 3, -1, -2))
    return f"{value}{at(f'::{step}')}", cut(len(range(length)[::step])), value.dtype, value.size
  if kind == "reverse":
    return f"{value}{at('1:')} - {value}{at(':-1')}" if value.is_float else f"{value}{at('1:')}", cut(length - 1), value.dtype, value.size + 1
  which = pick(context, values, lambda v: v.is_int and elements(v.shape) * elements(value.shape) // length <= MAX_ELEMENTS and v.rank <= 2)
  scalar = pick(context, values, lambda v: v.is_int and v.rank == 0)
  position = f"{scalar} % {length}" if scalar and context.chance(0.6) else str(context.random.randrange(length)) if not scalar else f"{scalar}"
  position = f"jnp.asarray({position}).astype(s32)"
  if kind == "mask":
    return f"jnp.where(jnp.arange({length}, dtype=s32)[{', '.join([':'] + ['None'] * (value.rank - 1 - axis))}] < {position}, {value}, jnp.zeros((), {value.dtype}))", value.shape, value.dtype, value.size
  if kind == "dynamic_slice":
    n = context.random.randint(1, length)
    return f"lax.dynamic_slice_in_dim({value}, {position}, {n}, axis={axis})", cut(n), value.dtype, value.size
  if kind == "element" or which is None:
    return f"lax.dynamic_index_in_dim({value}, {position}, axis={axis}, keepdims=False)", cut(None), value.dtype, value.size
  if kind == "along" and which.rank == 1 and which.shape[0]:
    indices = f"jnp.expand_dims({which}.astype(s32) % {length}, {tuple(k for k in range(value.rank) if k != axis)})"
    return f"jnp.take_along_axis({value}, {indices}, axis={axis})", cut(which.shape[0]), value.dtype, value.size
  mode = context.random.choice(("clip", "wrap", "fill")) if value.is_float else context.random.choice(("clip", "wrap"))
  text = f"jnp.take({value}, {which}, axis={axis}, mode={mode!r}" + (", fill_value=0.5)" if mode == "fill" else ")")
  return text, value.shape[:axis] + which.shape + value.shape[axis + 1:], value.dtype, value.size


def update(context, values):
  """Writes at places known at run time only."""
  value = pick(context, values, lambda v: v.rank and elements(v.shape) and v.dtype != "pred")
  if value is None:
    return None
  length = value.shape[0]
  which = pick(context, values, lambda v: v.is_int and v.rank <= 1 and elements(v.shape) * elements(value.shape) // length <= MAX_ELEMENTS)
  if which is None or context.chance(0.3):
    part = tuple(context.random.randint(1, n) for n in value.shape)
    starts = ", ".join(f"jnp.asarray({which if which and which.rank == 0 else context.random.randrange(4)}).astype(s32)" for _ in part)
    return f"lax.dynamic_update_slice({value}, {fitted(context, pick(context, values), part, value.dtype)}, ({starts},))", value.shape, value.dtype, max(2, value.size)
  kind = context.random.choice(("set", "add", "add", "max", "multiply"))
  if kind == "max" and value.is_complex or kind == "set" and which.rank:  # Of equal places any may win.
    kind = "add"
  part = which.shape + value.shape[1:]
  place = context.random.choice((f"{which}", f"{which} % {length}"))
  text = f"{value}.at[{place}].{kind}({fitted(context, pick(context, values), part, value.dtype)})"
  return text, value.shape, value.dtype, min(6, value.size + 3)


def contract(context, values):
  """Products of matrices in their many spellings."""
  a = pick(context, values, lambda v: (v.is_float or v.is_complex or v.dtype == "s32") and 1 <= v.rank <= 3)
  if a is None:
    return None
  n, text = a.shape[-1], tamed(a)
  m = context.random.choice((1, 2, 3, 5, 8, 17))
  other = lambda shape: fitted(context, pick(context, values), shape, a.dtype)
  size = min(6, 2 + n.bit_length())
  kind = context.random.choice(("matmul", "einsum", "outer", "self", "tensordot"))
  if elements(a.shape) // max(1, n) * m > MAX_ELEMENTS:
    kind = "self"
  if kind == "matmul":
    return f"jnp.matmul({text}, {other((n, m))})", a.shape[:-1] + (m,), a.dtype, size
  if kind == "tensordot":
    return f"jnp.tensordot({text}, {other((m, n))}, axes=(({a.rank - 1},), (1,)))", a.shape[:-1] + (m,), a.dtype, size
  letters = "abc"[:a.rank]
  if kind == "einsum":
    return f"jnp.einsum('{letters},z{letters[-1]}->z{letters[:-1]}', {text}, {other((m, n))})", (m,) + a.shape[:-1], a.dtype, size
  if kind == "outer" and a.rank == 1 and n * m <= MAX_ELEMENTS:
    return f"jnp.outer({text}, {other((m,))})", (n, m), a.dtype, 2
  kept = letters[context.random.randrange(a.rank):]
  return f"jnp.einsum('{letters},{letters}->{kept}', {text}, {text})", a.shape[a.rank - len(kept):], a.dtype, size


def contract_batches(context, values):
  """Many small products, of complex numbers and integers too, either side turned or conjugated, wider sums."""
  value = pick(context, values, lambda v: v.dtype != "pred" and elements(v.shape))
  if value is None:
    return None
  batch = context.random.choice(((2,), (5,), (17,), (3, 4), (33,)))
  m, k, n = (context.random.choice((1, 2, 3, 4, 5, 8, 16)) for _ in range(3))
  if elements(batch) * max(m * k, k * n, m * n) > MAX_ELEMENTS:
    batch = (3,)
  side = lambda rows, cols, turned: fitted(context, pick(context, values), batch + ((cols, rows) if turned else (rows, cols)), value.dtype)
  left_turned, right_turned = context.chance(0.4), context.chance(0.4)
  left, right = side(m, k, left_turned), side(k, n, right_turned)
  if value.is_complex and context.chance(0.5):
    right = f"jnp.conj({right})"
  letters = "uv"[:len(batch)]
  spelled = f"{letters}{'km' if left_turned else 'mk'},{letters}{'nk' if right_turned else 'kn'}->{letters}{context.random.choice(('mn', 'nm'))}"
  shape = batch + ((m, n) if spelled.endswith("mn") else (n, m))
  wide = {"s8": "s32", "u8": "s32", "s16": "s32", "bf16": "f32", "f16": "f32"}.get(value.dtype)
  if wide is None or wide not in context.dtypes or context.chance(0.4):
    return f"jnp.einsum('{spelled}', {left}, {right})", shape, value.dtype, min(6, 2 + k.bit_length())
  return f"jnp.einsum('{spelled}', {left}, {right}, preferred_element_type={wide})", shape, wide, min(6, 2 + k.bit_length())


def linear_algebra(context, values):
  value = pick(context, values, lambda v: v.dtype in ("f32", "f64") and elements(v.shape))
  if value is None:
    return None
  n = context.random.choice((1, 2, 3, 4))
  square = fitted(context, value, (n, n), value.dtype) if elements(value.shape) != n * n else f"jnp.reshape({tamed(value)}, {(n, n)})"
  matrix = f"(jnp.matmul({square}, ({square}).T) + {n + 1} * jnp.eye({n}, dtype={value.dtype}))"
  right = fitted(context, pick(context, values), (n, 2), value.dtype)
  kind = context.random.choice(("cholesky", "solve", "inv", "det", "triangular", "eigvalsh", "slogdet", "qr"))
  if kind == "solve":
    return f"jnp.linalg.solve({matrix}, {right})", (n, 2), value.dtype, 3
  if kind == "triangular":
    return f"jax.scipy.linalg.solve_triangular(jnp.tril({matrix}), {right}, lower=True)", (n, 2), value.dtype, 3
  if kind == "det":
    return f"jnp.linalg.det({matrix} / {2 * n})", (), value.dtype, 4
  if kind == "slogdet":
    return f"jnp.linalg.slogdet({matrix})[1]", (), value.dtype, 4
  if kind == "eigvalsh":
    return f"jnp.sum(jnp.linalg.eigvalsh({matrix}))", (), value.dtype, 4
  if kind == "qr":
    return f"jnp.abs(jnp.diagonal(jnp.linalg.qr({matrix})[1]))", (n,), value.dtype, 4
  return f"jnp.linalg.{kind}({matrix})", (n, n), value.dtype, 3


def windows(context, values):
  """Pooling, convolutions, transforms."""
  value = pick(context, values, lambda v: v.dtype in ("f32", "f64") and v.rank and v.shape[-1] > 2 and elements(v.shape))
  if value is None:
    return None
  text, n = tamed(value), value.shape[-1]
  kind = context.random.choice(("pool", "sum", "convolve", "fft", "conv"))
  ones = (1,) * (value.rank - 1)
  if kind in ("pool", "sum"):
    initial, combine = ("-jnp.inf", "lax.max") if kind == "pool" else ("0.0", "lax.add")
    return f"lax.reduce_window({text}, {initial}, {combine}, {ones + (3,)}, {ones + (2,)}, 'VALID')", value.shape[:-1] + ((n - 3) // 2 + 1,), value.dtype, 4
  if kind == "conv":
    flat = elements(value.shape) // n
    other = fitted(context, pick(context, values), (2, 1, 3), value.dtype)
    return f"lax.conv_general_dilated(jnp.reshape({text}, {(flat, 1, n)}), {other}, (1,), 'SAME')", (flat, 2, n), value.dtype, 4
  if kind == "fft":
    return f"jnp.abs(jnp.fft.rfft({text}) + 0.5)", value.shape[:-1] + (n // 2 + 1,), value.dtype, 6
  row = f"jnp.reshape({text}, (-1,))[:{n}]"
  return f"jnp.convolve({row}, {fitted(context, pick(context, values), (3,), value.dtype)}, mode='same')", (n,), value.dtype, 4


def complex_parts(context, values):
  value = pick(context, values, lambda v: v.is_complex)
  if value is None:
    return None
  real = {"c64": "f32", "c128": "f64"}[value.dtype]
  return context.random.choice(("jnp.real({0})", "jnp.imag({0})", "jnp.sqrt(jnp.real({0} * jnp.conj({0})) + 0.1)", "jnp.angle({0} + 3)")).format(tamed(value)), value.shape, real, 3


def constant(context, values):
  """iota, triangles, random bits."""
  shape = context.shape(limit=400)
  kind = context.random.choice(("arange", "eye", "tri", "linspace", "bits", "uniform"))
  dtype = context.random.choice([d for d in context.dtypes if d in FLOATS] or ["f32"])
  n = context.random.choice((1, 3, 8, 13))
  if kind == "arange":
    return f"jnp.arange({n}, dtype=s32)", (n,), "s32", 1
  if kind == "bits":
    return f"jax.random.randint(jax.random.key({n}), {shape}, 0, 100, dtype=s32)", shape, "s32", 1
  if kind == "uniform":
    return f"jax.random.uniform(jax.random.key({n}), {shape}, dtype=jnp.float32).astype(f32)", shape, "f32", 1
  if kind == "linspace":
    return f"jnp.linspace(-1, 1, {n}, dtype={dtype})", (n,), dtype, 1
  return f"jnp.{kind}({n}, dtype={dtype})", (n, n), dtype, 1


SINGLE = ((unary, 16), (binary, 20), (compare, 3), (select, 5), (convert, 5), (reduce, 9), (position, 3), (along, 8), (reshape, 4), (transpose, 4),
          (widen, 7), (index, 10), (update, 8), (contract, 6), (contract_batches, 4), (linear_algebra, 2), (windows, 3), (complex_parts, 2), (constant, 2))
