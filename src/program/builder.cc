#include "program/builder.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/hash.h"
#include "base/str.h"
#include "program/work_bounds.h"

namespace weft::program {

KernelBuilder::MemoryId KernelBuilder::Param(std::string name, DType dtype, int64_t count,
                                             Access access, int64_t align) {
  CHECK(kernel_.num_params == static_cast<int32_t>(kernel_.memories.size())) << name;
  kernel_.memories.push_back({std::move(name), dtype, count, access, align, false, {}});
  return kernel_.num_params++;
}

KernelBuilder::MemoryId KernelBuilder::Array(std::string name, DType dtype, int64_t count,
                                             bool per_thread) {
  Instr instr;
  instr.op = Op::kArray;
  instr.memory = static_cast<int32_t>(kernel_.memories.size());
  kernel_.memories.push_back(
      {std::move(name), dtype, count, Access::kReadWrite, 0, per_thread, {}});
  kernel_.code.push_back(std::move(instr));
  return static_cast<MemoryId>(kernel_.memories.size()) - 1;
}

ValueId KernelBuilder::Constant(Type type, uint64_t bits) {
  auto [it, added] = constants_.try_emplace({type.dtype, type.lanes, bits},
                                            static_cast<ValueId>(kernel_.values.size()));
  if (added) kernel_.values.push_back({type, "", true, bits});
  return it->second;
}

ValueId KernelBuilder::Int(int64_t value, Type type) {
  return Constant(type, static_cast<uint64_t>(value));
}
ValueId KernelBuilder::Float(double value, Type type) {
  if (type.dtype == DType::kF32) value = static_cast<float>(value);
  return Constant(type, std::bit_cast<uint64_t>(value));
}
ValueId KernelBuilder::Pred(bool value, int lanes) {
  return Constant({DType::kPred, lanes}, value);
}
ValueId KernelBuilder::Number(double value, Type type) {
  if (IsFloat(type.dtype)) return Float(value, type);
  return type.dtype == DType::kPred ? Pred(value != 0, type.lanes)
                                    : Int(static_cast<int64_t>(value), type);
}

ValueId KernelBuilder::Named(ValueId id, std::string_view name) {
  if (kernel_.values[id].is_constant) return id;
  std::string unique(name);
  for (int i = 1; !names_.insert(unique).second; ++i) unique = StrCat(name, ".", i);
  kernel_.values[id].name = std::move(unique);
  return id;
}

ValueId KernelBuilder::NewValue(Type type) {
  kernel_.values.push_back({type, "", false, 0});
  return static_cast<ValueId>(kernel_.values.size()) - 1;
}

namespace {

size_t HashInstr(const Instr& i) {
  size_t h = MixHash(static_cast<size_t>(i.op), static_cast<size_t>(i.format));
  h = MixHash(h, static_cast<size_t>(i.type.dtype));
  h = MixHash(h, static_cast<size_t>(i.type.lanes));
  h = MixHash(h, static_cast<size_t>(i.memory));
  h = MixHash(h, static_cast<size_t>(i.nowrap));
  h = MixHash(h, static_cast<size_t>(i.rounded));
  for (ValueId id : i.args) h = MixHash(h, static_cast<size_t>(id));
  for (int32_t lane : i.lanes) h = MixHash(h, static_cast<size_t>(lane));
  return h;
}

bool SameInstr(const Instr& a, const Instr& b) {
  return a.op == b.op && a.format == b.format && a.type == b.type && a.memory == b.memory &&
         a.nowrap == b.nowrap && a.rounded == b.rounded && a.args == b.args && a.lanes == b.lanes;
}

}  // namespace

bool KernelBuilder::IsOpen(int64_t block) const {
  return std::binary_search(blocks_.begin(), blocks_.end(), block);
}

const Instr* KernelBuilder::DefinitionOf(ValueId id) const {
  constexpr size_t kLookedAt = WorkBounds::kPath;
  size_t code = kernel_.code.size();
  for (size_t i = code; i-- > code - std::min(code, kLookedAt);) {
    const Instr& instr = kernel_.code[i];
    if (instr.results.size() == 1 && instr.results[0] == id) return &instr;
  }
  return nullptr;
}

std::optional<int64_t> KernelBuilder::IntConstant(ValueId id) const {
  const Value& v = kernel_.values[id];
  if (!v.is_constant || !IsInteger(v.type.dtype)) return std::nullopt;
  return v.AsInt();
}

// s64 scalars: what index arithmetic is made of.
std::optional<ValueId> KernelBuilder::FoldIndex(Op op, ValueId a, ValueId b) {
  if (type(a) != Type{DType::kS64, 1}) return std::nullopt;
  std::optional<int64_t> x = IntConstant(a), y = IntConstant(b);
  if (x && y) {
    uint64_t ux = static_cast<uint64_t>(*x), uy = static_cast<uint64_t>(*y);
    switch (op) {
      case Op::kAdd: return Int(static_cast<int64_t>(ux + uy));
      case Op::kSub: return Int(static_cast<int64_t>(ux - uy));
      case Op::kMul: return Int(static_cast<int64_t>(ux * uy));
      case Op::kDiv:
        if (*y > 0) return Int(*x / *y);
        break;
      case Op::kRem:
        if (*y > 0) return Int(*x % *y);
        break;
      case Op::kMin: return Int(std::min(*x, *y));
      case Op::kMax: return Int(std::max(*x, *y));
      default: break;
    }
  }
  if (y == 0 && (op == Op::kAdd || op == Op::kSub)) return a;
  if (x == 0 && op == Op::kAdd) return b;
  if (y == 1 && (op == Op::kMul || op == Op::kDiv)) return a;
  if (x == 1 && op == Op::kMul) return b;
  if (op == Op::kMul && (x == 0 || y == 0)) return Int(0);
  if (op == Op::kRem && y == 1) return Int(0);
  return std::nullopt;
}

ValueId KernelBuilder::Append(Instr instr) {
  size_t hash = 0;
  bool reusable = reuse_ && Info(instr.op).cls < OpClass::kMemory;
  if (reuse_ && instr.op == Op::kLoad) {
    reusable = kernel_.memories[instr.memory].access == Access::kRead;
  }
  if (reusable) {
    hash = HashInstr(instr);
    auto [from, to] = known_.equal_range(hash);
    for (auto it = from; it != to; ++it) {
      if (!IsOpen(it->second.block)) continue;
      const Instr& known = kernel_.code[it->second.instr];
      if (SameInstr(known, instr)) return known.results[0];
    }
    known_.emplace(hash, Known{kernel_.code.size(), block()});
  }
  Type type = instr.type;
  if (Info(instr.op).cls == OpClass::kCompare) type.dtype = DType::kPred;
  ValueId id = NewValue(type);
  instr.results.push_back(id);
  kernel_.code.push_back(std::move(instr));
  return id;
}

ValueId KernelBuilder::Emit(Op op, std::initializer_list<ValueId> args) {
  CHECK(static_cast<int>(args.size()) == Info(op).arity && args.size() > 0) << Name(op);
  if (reuse_ && args.size() == 2) {
    if (auto folded = FoldIndex(op, *args.begin(), *(args.begin() + 1))) return *folded;
  }
  Instr instr;
  instr.op = op;
  instr.args = args;
  instr.type = type(*(args.end() - 1));
  return Append(std::move(instr));
}

ValueId KernelBuilder::EmitNoWrap(Op op, ValueId a, ValueId b) {
  if (reuse_) {
    if (auto folded = FoldIndex(op, a, b)) return *folded;
  }
  Instr instr;
  instr.op = op;
  instr.args = {a, b};
  instr.type = type(b);
  instr.nowrap = true;
  return Append(std::move(instr));
}

ValueId KernelBuilder::MulRounded(ValueId a, ValueId b) {
  Instr instr;
  instr.op = Op::kMul;
  instr.args = {a, b};
  instr.type = type(b);
  instr.rounded = true;
  return Append(std::move(instr));
}

ValueId KernelBuilder::Cast(ValueId a, DType to) {
  if (type(a).dtype == to) return a;
  if (std::optional<int64_t> number = IntConstant(a);
      reuse_ && number && IsInteger(to) && FitsInteger(*number, to)) {
    return Int(*number, {to, type(a).lanes});
  }
  Instr instr;
  instr.op = Op::kCast;
  instr.args = {a};
  instr.type = {to, type(a).lanes};
  return Append(std::move(instr));
}

ValueId KernelBuilder::CastNoWrap(ValueId a, DType to) {
  Instr instr;
  instr.op = Op::kCast;
  instr.args = {a};
  instr.type = {to, type(a).lanes};
  instr.nowrap = true;
  return Append(std::move(instr));
}

ValueId KernelBuilder::Bitcast(ValueId a, DType to) {
  if (type(a).dtype == to) return a;
  Instr instr;
  instr.op = Op::kBitcast;
  instr.args = {a};
  instr.type = {to, type(a).lanes};
  return Append(std::move(instr));
}

ValueId KernelBuilder::Narrow(ValueId a, DType format) {
  if (type(a).dtype == format) return a;
  Instr instr;
  instr.op = Op::kNarrow;
  instr.args = {a};
  instr.format = format;
  instr.type = type(a);
  return Append(std::move(instr));
}

ValueId KernelBuilder::Splat(ValueId a, int lanes) {
  if (lanes == 1) return a;
  if (reuse_ && value(a).is_constant) {
    return Constant({type(a).dtype, lanes}, kernel_.values[a].bits);
  }
  Instr instr;
  instr.op = Op::kSplat;
  instr.args = {a};
  instr.type = {type(a).dtype, lanes};
  return Append(std::move(instr));
}

ValueId KernelBuilder::Iota(Type type) {
  Instr instr;
  instr.op = Op::kIota;
  instr.type = type;
  return Append(std::move(instr));
}

ValueId KernelBuilder::Extract(ValueId a, int lane) {
  Instr instr;
  instr.op = Op::kExtract;
  instr.args = {a};
  instr.lanes = {lane};
  instr.type = {type(a).dtype, 1};
  return Append(std::move(instr));
}

ValueId KernelBuilder::Shuffle(ValueId a, ValueId b, std::span<const int32_t> lanes) {
  Instr instr;
  instr.op = Op::kShuffle;
  instr.args = {a, b};
  instr.lanes = lanes;
  instr.type = {type(a).dtype, static_cast<int>(lanes.size())};
  return Append(std::move(instr));
}

ValueId KernelBuilder::Any(ValueId a) {
  if (type(a).lanes == 1) return a;
  Instr instr;
  instr.op = Op::kAny;
  instr.args = {a};
  instr.type = {DType::kPred, 1};
  return Append(std::move(instr));
}

ValueId KernelBuilder::ReduceLanes(Op op, ValueId a) {
  int half = type(a).lanes / 2;
  for (; half >= 2; half /= 2) {
    std::vector<int32_t> low(half), high(half);
    for (int i = 0; i < half; ++i) {
      low[i] = i;
      high[i] = i + half;
    }
    ValueId first = Shuffle(a, a, low);
    a = Emit(op, {first, Shuffle(a, a, high)});
  }
  if (half == 0) return a;
  ValueId first = Extract(a, 0);
  return Emit(op, {first, Extract(a, 1)});
}

ValueId KernelBuilder::Load(MemoryId memory, ValueId index, int lanes, ValueId mask, int align) {
  Instr instr;
  instr.op = Op::kLoad;
  instr.memory = memory;
  instr.align = align;
  instr.args = {index};
  if (mask >= 0) instr.args.push_back(mask);
  instr.type = {ComputeType(kernel_.memories[memory].dtype), std::max(lanes, type(index).lanes)};
  return Append(std::move(instr));
}

void KernelBuilder::Store(MemoryId memory, ValueId index, ValueId value, ValueId mask, int align) {
  Instr instr;
  instr.op = Op::kStore;
  instr.memory = memory;
  instr.align = align;
  instr.args = {index, value};
  if (mask >= 0) instr.args.push_back(mask);
  instr.type = type(value);
  kernel_.code.push_back(std::move(instr));
}

void KernelBuilder::Atomic(Op op, MemoryId memory, ValueId index, ValueId value) {
  Instr instr;
  instr.op = Op::kAtomic;
  instr.atomic = op;
  instr.memory = memory;
  instr.args = {index, value};
  instr.type = type(value);
  kernel_.code.push_back(std::move(instr));
}

ValueId KernelBuilder::Linear(std::span<const ValueId> indices, std::span<const int64_t> dims) {
  if (indices.empty()) return Int(0);
  ValueId linear = indices[0];
  for (size_t i = 1; i < indices.size(); ++i) {
    linear = Add(Mul(linear, Int(dims[i], type(linear))), indices[i]);
  }
  return linear;
}

Kernel KernelBuilder::Build() && {
  CHECK(open_.empty()) << kernel_.name;
  return std::move(kernel_);
}

BufferId AddBuffer(Program& program, std::string name, Shape shape, BufferKind kind,
                   int64_t index) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.shape = std::move(shape);
  buffer.kind = kind;
  buffer.index = index;
  program.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(program.buffers.size()) - 1;
}

BufferId AddConstant(Program& program, std::string name, Literal value) {
  BufferId id = AddBuffer(program, std::move(name), value.shape(), BufferKind::kConstant);
  program.buffers[id].value = std::move(value);
  return id;
}

BufferId AddView(Program& program, std::string name, Shape shape, BufferId base, int64_t offset) {
  BufferId id = AddBuffer(program, std::move(name), std::move(shape), BufferKind::kTemp);
  program.buffers[id].base = base;
  program.buffers[id].offset = offset;
  return id;
}

int32_t AddKernel(Program& program, Kernel kernel) {
  program.kernels.push_back(std::move(kernel));
  return static_cast<int32_t>(program.kernels.size()) - 1;
}

Use Whole(const Program& program, Access access, BufferId buffer) {
  return {access, {buffer, 0, ByteSize(program.buffers[buffer]).value_or(0)}};
}

}  // namespace weft::program
