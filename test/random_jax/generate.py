"""Random JAX programs as Python text: operations, control flow with carried tuples, and transformations, nested."""

import dataclasses
import random
import re

import library_ops
import ops
from values import COMPLEX, FLOATS, INTS, MAX_ELEMENTS, Context, Value, elements, fitted, tamed


@dataclasses.dataclass
class Program:
  """`inputs`: (name, shape, dtype); `statements`: each the lines that define `defines[k]`; `outputs`: names."""
  seed: int
  x64: bool
  specials: bool
  inputs: list
  statements: list
  defines: list
  outputs: list
  dtypes: tuple

  def function(self):
    arguments = ", ".join(name for name, _, _ in self.inputs)
    lines = [f"def program({arguments}):"] + [f"  {line}" for lines in self.statements for line in lines]
    return "\n".join(lines + [f"  return ({', '.join(self.outputs)},)"]) + "\n"

  def sliced(self, outputs):
    """The program without the statements that these outputs do not need."""
    needed, kept = set(outputs), []
    for lines, name in reversed(list(zip(self.statements, self.defines))):
      if name in needed:
        needed |= set(re.findall(r"\b[vx]\d+\b", "\n".join(lines)))
        kept.append((lines, name))
    kept.reverse()
    inputs = [entry for entry in self.inputs if entry[0] in needed] or self.inputs[:1]
    return dataclasses.replace(self, inputs=inputs, statements=[k[0] for k in kept], defines=[k[1] for k in kept], outputs=list(outputs))


def indent(lines):
  return ["  " + line for line in lines]


class Generator:
  """Writes blocks of statements. `smooth`: how they are differentiated: not (""), in "reverse", which a while loop cannot be,
  "forward", which a function with a derivative of its own in reverse cannot be, or "both"."""

  def __init__(self, context):
    self.context = context
    self.random = context.random

  def statement(self, values, depth, smooth):
    """(lines, value) of one more variable."""
    for _ in range(20):
      if depth and self.context.chance(0.28):
        made = self.random.choice(STRUCTURES)(self, values, depth - 1, smooth)
      else:
        made = self.single(values)
      if made is None:
        continue
      lines, shape, dtype, size = made
      if elements(shape) <= MAX_ELEMENTS and len(shape) <= 5:
        name = self.context.name()
        return [line.replace("@", name) for line in lines], Value(name, shape, dtype, size)
    return [f"{(name := self.context.name())} = {values[-1]}"], dataclasses.replace(values[-1], name=name)

  def single(self, values):
    table = library_ops.LIBRARY if self.context.chance(0.35) else ops.SINGLE
    functions, weights = zip(*table)
    made = self.random.choices(functions, weights)[0](self.context, values)
    return made and ([f"@ = {made[0]}"], *made[1:])

  def block(self, values, count, depth, smooth):
    """Lines of so many statements, and the values with the new ones."""
    lines, values = [], list(values)
    for _ in range(count):
      more, value = self.statement(values, depth, smooth)
      lines += more
      values.append(value)
    return lines, values

  def function(self, arguments, results, values, depth, smooth, count=None):
    """Lines of a function `f@` (its own name, not the variable's): closes over some of `values`; `results` are (shape, dtype)."""
    closed = [value for value in values if self.context.chance(0.3)]
    lines, inside = self.block([*closed, *arguments], count or self.random.randint(1, 4), depth, smooth)
    new = inside[len(closed):]
    texts = []
    for k, (shape, dtype) in enumerate(results):
      same = [value for value in new if (value.shape, value.dtype) == (shape, dtype)]
      value = same[-1] if same and self.context.chance(0.7) else new[-1 - k % len(new)]
      texts.append(fitted(self.context, value, shape, dtype))
      if dtype in FLOATS and len(new) > 1 and self.context.chance(0.6):  # So that less of the function is dead.
        texts[-1] = f"{texts[-1]} + 0.5 * {fitted(self.context, self.random.choice(new), shape, dtype)}"
    name = self.context.name("fn")
    head = [f"def {name}({', '.join(map(str, arguments))}):"]
    return name, head + indent(lines + [f"return ({', '.join(texts)},)"])

  def carried(self, values, most=3):
    """Some values to carry through a loop; not too large."""
    chosen = [ops.pick(self.context, values, lambda v: elements(v.shape) <= 600) for _ in range(self.random.randint(1, most))]
    return [value for value in chosen if value is not None] or None

  def argument(self, shape, dtype):
    return Value(self.context.name(), shape, dtype, 2)


def unpacked(generator, call, values):
  """Lines that call a function and keep one of its results; the others flow into it where that is easy."""
  keep = generator.random.randrange(len(values))
  value = values[keep]
  lines = [f"t@ = {call}", f"@ = t@[{keep}]"]
  for k, other in enumerate(values):
    if k != keep and value.is_float and other.is_float and other.dtype == value.dtype and elements(other.shape):
      lines.append(f"@ = @ + 0.25 * jnp.mean(t@[{k}])")
  return lines, value.shape, value.dtype, 3


def fori_loop(generator, values, depth, smooth):
  carry = generator.carried(values)
  if carry is None:
    return None
  i = Value(generator.context.name(), (), "s32")
  arguments = [generator.argument(v.shape, v.dtype) for v in carry]
  name, lines = generator.function([i, *arguments], [(v.shape, v.dtype) for v in carry], values, depth, smooth)
  trips = generator.random.choice((0, 1, 2, 3, 5))
  lines[0] = f"def {name}({i}, c{name}):"
  lines[1:1] = indent([f"({', '.join(map(str, arguments))},) = c{name}", f"{i} = jnp.asarray({i}).astype(s32)"])
  made = unpacked(generator, f"lax.fori_loop(0, {trips}, {name}, ({', '.join(map(tamed, carry))},))", carry)
  return lines + made[0], *made[1:]


def while_loop(generator, values, depth, smooth):
  if smooth in ("reverse", "both"):
    return scan(generator, values, depth, smooth)
  carry = generator.carried(values)
  if carry is None:
    return None
  i = Value(generator.context.name(), (), "s32")
  arguments = [generator.argument(v.shape, v.dtype) for v in carry]
  name, lines = generator.function([i, *arguments], [(v.shape, v.dtype) for v in carry], values, depth, smooth)
  trips = generator.random.choice((0, 1, 3, 4))
  ints = [k for k, v in enumerate(carry) if v.is_int and elements(v.shape)]
  more = f" & (jnp.sum(c[{1 + ints[0]}]) % 7 != 3)" if ints and generator.context.chance(0.5) else ""
  lines[0] = f"def {name}(c{name}):"
  lines[1:1] = indent([f"({i}, {', '.join(map(str, arguments))},) = c{name}"])
  lines[-1] = lines[-1].replace("return (", f"return ({i} + 1, ", 1)
  state = f"(jnp.array(0, s32), {', '.join(map(tamed, carry))},)"
  made = unpacked(generator, f"lax.while_loop(lambda c: (c[0] < {trips}){more}, {name}, {state})[1:]", carry)
  return lines + made[0], *made[1:]


def scan(generator, values, depth, smooth):
  carry = generator.carried(values)
  if carry is None:
    return None
  over = ops.pick(generator.context, values, lambda v: v.rank and v.shape[0] <= 17)
  trips = over.shape[0] if over else generator.random.choice((1, 2, 5))
  arguments = [generator.argument(v.shape, v.dtype) for v in carry]
  item = generator.argument(over.shape[1:], over.dtype) if over else Value("None", (), "f32")
  ys = generator.context.shape(limit=60)
  dtype = generator.context.dtype()
  name, lines = generator.function([*arguments, *([item] if over else [])], [*((v.shape, v.dtype) for v in carry), (ys, dtype)], values, depth, smooth)
  lines[0] = f"def {name}(c{name}, {item if over else '_'}):"
  lines[1:1] = indent([f"({', '.join(map(str, arguments))},) = c{name}"])
  lines[-1] = "  r" + name + " =" + lines[-1].strip().removeprefix("return")
  lines.append(f"  return r{name}[:-1], r{name}[-1]")
  if generator.context.chance(0.25):
    lines.append(f"{name} = jax.checkpoint({name})")
  options = f", reverse={generator.context.chance(0.3)}" + (", unroll=2" if generator.context.chance(0.2) else "")
  call = f"lax.scan({name}, ({', '.join(map(tamed, carry))},), {tamed(over) if over else None}, length={trips}{options})"
  if trips * elements(ys) <= MAX_ELEMENTS and generator.context.chance(0.5):
    return lines + [f"@ = {call}[1]"], (trips, *ys), dtype, 2
  made = unpacked(generator, call + "[0]", carry)
  return lines + made[0], *made[1:]


def cond(generator, values, depth, smooth):
  picked = generator.carried(values, 2)
  if picked is None:
    return None
  value = picked[0]
  result = (generator.context.shape(limit=200), generator.context.dtype()) if generator.context.chance(0.5) else (value.shape, value.dtype)
  branches, lines = [], []
  for _ in range(2 if generator.context.chance(0.6) else 3):
    arguments = [generator.argument(v.shape, v.dtype) for v in picked]
    name, more = generator.function(arguments, [result], values, depth, smooth, count=generator.random.randint(1, 2))
    branches.append(name)
    lines += more
  selector = ops.pick(generator.context, values, lambda v: elements(v.shape) and (v.is_int or v.dtype == "pred"))
  test = f"jnp.max({selector})" if selector else f"jnp.argmax(jnp.arange({generator.random.randrange(1, 4)}, dtype=s32))"
  operands = ", ".join(map(str, picked))
  if len(branches) == 2:
    call = f"lax.cond(({test}) > 0, {', '.join(branches)}, {operands})"
  else:
    call = f"lax.switch(({test}).astype(s32) % 4, [{', '.join(branches)}], {operands})"
  return lines + [f"@ = {call}[0]"], *result, 3


def vmap(generator, values, depth, smooth):
  over = ops.pick(generator.context, values, lambda v: v.rank and 0 < v.shape[0] <= 17 and elements(v.shape))
  if over is None:
    return None
  n = over.shape[0]
  other = ops.pick(generator.context, values, lambda v: elements(v.shape) <= 100)
  axis = generator.random.randrange(over.rank) if generator.context.chance(0.4) else 0
  n = over.shape[axis]
  if not n:
    return None
  arguments = [generator.argument(over.shape[:axis] + over.shape[axis + 1:], over.dtype)]
  if other is not None:
    arguments.append(generator.argument(other.shape, other.dtype))
  result = (generator.context.shape(limit=max(1, MAX_ELEMENTS // n // 2)), generator.context.dtype()) if generator.context.chance(0.4) else (arguments[0].shape, arguments[0].dtype)
  name, lines = generator.function(arguments, [result], values, depth, smooth)
  out = generator.random.randint(0, len(result[0])) if generator.context.chance(0.3) else 0
  axes = f"({axis}, None)" if other is not None else f"({axis},)"
  call = f"jax.vmap({name}, in_axes={axes}, out_axes={out})({', '.join(map(str, [over] + ([other] if other is not None else [])))})[0]"
  return lines + [f"@ = {call}"], result[0][:out] + (n,) + result[0][out:], result[1], 3


def wrapped(generator, values, depth, smooth):
  """A function under jit, checkpoint or custom derivatives."""
  picked = generator.carried(values, 2)
  if picked is None:
    return None
  arguments = [generator.argument(v.shape, v.dtype) for v in picked]
  result = (picked[0].shape, picked[0].dtype)
  closed = values if generator.context.chance(0.5) else []
  name, lines = generator.function(arguments, [result], closed, depth, smooth)
  kind = generator.random.choice(("jit", "checkpoint", "custom_jvp", "custom_vjp", "map"))
  if kind == "custom_vjp" and picked[0].is_float and len(picked) == 1 and not closed and smooth in ("", "reverse"):
    lines += [f"{name} = jax.custom_vjp({name})", f"{name}.defvjp(lambda p: ({name}(p), jnp.sin(p)), lambda s, t: (s * t[0],))"]
    return lines + [f"@ = {name}({picked[0]})[0]"], *result, 3
  if kind == "custom_jvp" and picked[0].is_float and len(picked) == 1 and not closed:
    lines += [f"{name} = jax.custom_jvp({name})", f"{name}.defjvp(lambda p, t: ({name}(*p), (0.5 * t[0] * jnp.cos(p[0]),)))"]
    return lines + [f"@ = {name}({picked[0]})[0]"], *result, 3
  if kind == "map" and len(picked) == 1 and picked[0].rank and 0 < picked[0].shape[0] <= 17:
    inner = [generator.argument(picked[0].shape[1:], picked[0].dtype)]
    name, lines = generator.function(inner, [(inner[0].shape, inner[0].dtype)], values, depth, smooth)
    return lines + [f"@ = lax.map({name}, {picked[0]})[0]"], *result, 3
  wrapper = "jax.checkpoint" if kind != "jit" else "jax.jit"
  return lines + [f"@ = {wrapper}({name})({', '.join(map(str, picked))})[0]"], *result, 3


def buffered_loop(generator, values, depth, smooth):
  """A loop that reads what it wrote before, ends early, and keeps its state from then on: a while loop that has a derivative."""
  value = ops.pick(generator.context, values, lambda v: v.is_float and elements(v.shape) <= 100)
  if value is None:
    return None
  n = generator.random.choice((1, 2, 3, 5, 8))
  argument, i = generator.argument(value.shape, value.dtype), Value(generator.context.name(), (), "s32")
  name, lines = generator.function([i, argument], [(value.shape, value.dtype)], values, depth, smooth)
  step = "s" + name
  lines += [
      f"def {step}(c, _):",
      "  k, buffer, state = c",
      f"  old = lax.dynamic_index_in_dim(buffer, jnp.maximum(k - {generator.random.randint(1, 2)}, 0), keepdims=False)",
      f"  new = {name}(k, state)[0] * 0.5 + 0.25 * old",
      f"  keep = {generator.random.choice((f'k < {max(1, n - 1)}', 'jnp.sum(jnp.square(new)) < 2', 'k % 3 != 1'))}",
      f"  new = {generator.random.choice(('jnp.where(keep, new, state)', 'lax.cond(keep, lambda: new, lambda: state)'))}",
      f"  buffer = {generator.random.choice(('buffer.at[k].set(new)', 'lax.dynamic_update_index_in_dim(buffer, new, k, 0)', 'buffer.at[k].add(new)'))}",
      f"  return (k + 1, buffer, new), {generator.random.choice(('None', 'new', 'keep'))}",
  ]
  if generator.context.chance(0.4):
    lines.append(f"{step} = jax.checkpoint({step})")
  start = f"(jnp.array(0, s32), jnp.zeros({(n, *value.shape)}, {value.dtype}), {tamed(value)})"
  if generator.context.chance(0.3):  # Two loops deep, as checkpointing does it.
    lines += [f"def o{name}(c, _):", f"  return lax.scan({step}, c, None, length={(n + 1) // 2})", f"o{name} = jax.checkpoint(o{name})"]
    return lines + [f"@ = lax.scan(o{name}, {start}, None, length=2)[0][1]"], (n, *value.shape), value.dtype, 3
  return lines + [f"@ = lax.scan({step}, {start}, None, length={n})[0][1]"], (n, *value.shape), value.dtype, 3


def derivative(generator, values, depth, smooth):
  """Gradients, tangents, cotangents and small Jacobians of a function."""
  value = ops.pick(generator.context, values, lambda v: v.is_float and elements(v.shape) <= 300)
  if value is None:
    return None
  argument = generator.argument(value.shape, value.dtype)
  kind = generator.random.choice(("grad", "grad", "vjp", "jvp", "jacrev", "jacfwd", "hvp", "linearize", "value_and_grad"))
  if kind in ("jacrev", "jacfwd") and elements(value.shape) > 12:
    kind = "grad"
  way = "forward" if kind in ("jvp", "jacfwd") else "both" if kind in ("hvp", "linearize") else "reverse"
  name, lines = generator.function([argument], [(value.shape, value.dtype)], values, depth, way if smooth in ("", way) else "both")
  scalar = f"lambda x: jnp.sum(jnp.sin({name}(x)[0]))"
  weights = f"jnp.cos({tamed(value)} * 2)"
  text = tamed(value)
  calls = {
      "grad": f"jax.grad({scalar})({text})",
      "value_and_grad": f"(lambda r: r[0] * r[1])(jax.value_and_grad({scalar})({text}))",
      "vjp": f"jax.vjp(lambda x: {name}(x)[0], {text})[1]({weights})[0]",
      "jvp": f"jax.jvp(lambda x: {name}(x)[0], ({text},), ({weights},))[1]",
      "linearize": f"jax.linearize(lambda x: {name}(x)[0], {text})[1]({weights})",
      "hvp": f"jax.jvp(jax.grad({scalar}), ({text},), ({weights},))[1]",
  }
  if kind in calls:
    return lines + [f"@ = {calls[kind]}"], value.shape, value.dtype, 5
  return lines + [f"@ = jax.{kind}(lambda x: {name}(x)[0])({text})"], value.shape + value.shape, value.dtype, 5


STRUCTURES = (fori_loop, while_loop, scan, scan, buffered_loop, cond, vmap, wrapped, derivative, derivative, derivative, derivative)
MIXES = (("f32",), ("f32", "s32"), ("f32", "s32", "pred"), ("f32", "bf16", "s32"), ("f32", "f16", "s8"), ("f32", "c64", "s32"), ("bf16", "s32"),
         ("f16", "u8", "pred"), ("f32", "s32", "u32", "u8", "s8", "s16", "pred"))
MIXES_X64 = (("f64",), ("f64", "s64"), ("f64", "f32", "s32", "s64"), ("f64", "c128", "s32"), ("f64", "bf16", "s64", "pred"))


def make(seed):
  """The program of a seed."""
  generator_random = random.Random(seed)
  x64 = generator_random.random() < 0.2
  dtypes = generator_random.choice(MIXES_X64 if x64 else MIXES)
  context = Context(generator_random, dtypes, specials=generator_random.random() < 0.06)
  generator = Generator(context)
  values = [Value(f"x{k}", context.shape(), dtypes[k % len(dtypes)]) for k in range(generator_random.randint(1, 4))]
  if all(v.dtype not in FLOATS for v in values) or generator_random.random() < 0.5:
    values.append(Value(f"x{len(values)}", context.shape(2, 150), dtypes[0]))
  inputs = [(v.name, v.shape, v.dtype) for v in values]
  statements, defines, depth = [], [], generator_random.choice((1, 2, 2, 3))
  for _ in range(generator_random.randint(2, 9)):
    lines, value = generator.statement(values, depth, "")
    statements.append(lines)
    defines.append(value.name)
    values.append(value)
  others = [name for name in defines[:-1] if generator_random.random() < 0.25]
  used = [name for name in (*FLOATS, *COMPLEX, *INTS, "pred") if any(re.search(rf"\b{name}\b", line) for lines in statements for line in lines)]
  return Program(seed, x64, context.specials, inputs, statements, defines, [*others, defines[-1]], tuple(sorted(set(dtypes) | set(used))))
