#include "program/verify_kernel.h"

#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "program/lexer.h"
#include "program/print.h"

namespace weft::program {

std::unexpected<Error> VerifyError(std::string_view text, Position pos, std::string message) {
  Error error(Code::kInvalidArgument, std::move(message));
  if (pos.line > 0) error.At(pos.line, pos.column, LineOf(text, pos.line));
  return std::unexpected(std::move(error));
}

namespace {

bool IsValueName(std::string_view name) {
  return name.empty() || IsIdentifier(name);
}

}  // namespace

Status KernelVerifier::Run() {
  TRY(CheckIds());
  TRY(CheckMemories());
  TRY(CheckValues());
  visible_.assign(kernel_.values.size(), false);
  live_.assign(kernel_.memories.size(), false);
  declared_ = live_;
  std::fill_n(live_.begin(), kernel_.num_params, true);
  blocks_.push_back({});
  for (const Instr& instr : kernel_.code) TRY(CheckInstr(instr));
  if (blocks_.size() != 1) return Fail(kernel_.pos, "a block is not closed");
  return {};
}

Status KernelVerifier::CheckIds() const {
  int64_t values = static_cast<int64_t>(kernel_.values.size());
  int64_t memories = static_cast<int64_t>(kernel_.memories.size());
  if (kernel_.num_params < 0 || kernel_.num_params > memories) {
    return Fail(kernel_.pos, "wrong number of parameters");
  }
  auto bad = [&](ValueId id) { return id < 0 || id >= values; };
  for (const Instr& instr : kernel_.code) {
    if (std::any_of(instr.args.begin(), instr.args.end(), bad) ||
        std::any_of(instr.results.begin(), instr.results.end(), bad)) {
      return Fail(instr.pos, Name(instr.op), ": value number out of range");
    }
    bool accesses = Info(instr.op).cls == OpClass::kMemory;
    if (accesses && (instr.memory < 0 || instr.memory >= memories)) {
      return Fail(instr.pos, Name(instr.op), ": memory number out of range");
    }
  }
  return {};
}

Status KernelVerifier::CheckMemories() const {
  std::unordered_set<std::string_view> names;
  for (const Memory& m : kernel_.memories) {
    if (m.name.empty() || !names.insert(m.name).second) {
      return Fail(m.pos, "memory '", m.name, "' has no name or is defined twice");
    }
    if (ComputeType(m.dtype) == DType::kInvalid) {
      return Fail(m.pos, "memory '", m.name, "' cannot have type ", weft::Name(m.dtype),
                  IsComplex(m.dtype) ? " (use two real elements)" : "");
    }
    int64_t bytes;
    if (m.count < 0 || __builtin_mul_overflow(m.count, ByteWidth(m.dtype), &bytes)) {
      return Fail(m.pos, "memory '", m.name, "' has ", m.count, " elements");
    }
    bool param = &m - kernel_.memories.data() < kernel_.num_params;
    if (m.per_thread && param) return Fail(m.pos, "parameter '", m.name, "' is per_thread");
    if (m.align != 0 && !IsPowerOfTwo(m.align)) {
      return Fail(m.pos, "alignment ", m.align, " is not a power of two");
    }
  }
  return {};
}

Status KernelVerifier::CheckValues() const {
  std::unordered_set<std::string_view> names;
  for (const Value& v : kernel_.values) {
    if (!IsComputeType(v.type.dtype) || !IsPowerOfTwo(v.type.lanes) || v.type.lanes > kMaxLanes) {
      return Fail(PositionOf(v), "values cannot have type ", v.type);
    }
    DType d = v.type.dtype;
    bool integer = IsInteger(d) && d != DType::kU64;
    if (v.is_constant &&
        ((integer && !FitsInteger(v.AsInt(), d)) || (d == DType::kPred && v.bits > 1))) {
      return Fail(PositionOf(v), "constant ", v.AsInt(), " does not fit ", v.type);
    }
    if (!v.name.empty() && (!IsValueName(v.name) || !names.insert(v.name).second)) {
      return Fail(kernel_.pos, "value name '", v.name, "' is malformed or used twice");
    }
  }
  return {};
}

Position KernelVerifier::PositionOf(const Value& value) const {
  ValueId id = static_cast<ValueId>(&value - kernel_.values.data());
  for (const Instr& instr : kernel_.code) {
    if (std::count(instr.results.begin(), instr.results.end(), id) +
            std::count(instr.args.begin(), instr.args.end(), id) >
        0) {
      return instr.pos;
    }
  }
  return kernel_.pos;
}

std::string KernelVerifier::Show(ValueId id) const {
  const Value& value = kernel_.value(id);
  std::string out;
  if (value.is_constant) {
    AppendConstant(out, value);
  } else {
    StrAppend(out, "%", value.name.empty() ? StrCat("#", id) : value.name);
  }
  return out;
}

Status KernelVerifier::CheckInstr(const Instr& instr) {
  for (ValueId id : instr.args) {
    if (!kernel_.value(id).is_constant && !visible_[id]) {
      return Fail(instr.pos, Name(instr.op), ": ", Show(id), " is not defined here");
    }
  }
  if (InCombine() && (Info(instr.op).cls == OpClass::kMemory || instr.op == Op::kLoop)) {
    return Fail(instr.pos, Name(instr.op), " inside a combine, which only computes");
  }
  switch (Info(instr.op).cls) {
    case OpClass::kMemory: TRY(CheckMemory(instr)); break;
    case OpClass::kControl: TRY(CheckControl(instr)); break;
    case OpClass::kConvert: TRY(CheckConvert(instr)); break;
    case OpClass::kLanes: TRY(CheckLanes(instr)); break;
    default: TRY(CheckCompute(instr));
  }
  if (std::optional<std::string> message = accesses_.Visit(instr)) {
    return Fail(instr.pos, *message);
  }
  return {};
}

Status KernelVerifier::Define(const Instr& instr, ValueId id, Type type) {
  const Value& value = kernel_.value(id);
  if (value.is_constant || defined_.count(id) > 0) {
    return Fail(instr.pos, Name(instr.op), ": ", Show(id), " is defined twice");
  }
  if (value.type != type) {
    return Fail(instr.pos, Name(instr.op), ": result ", Show(id), " is ", value.type,
                " and should be ", type);
  }
  defined_.insert(id);
  visible_[id] = true;
  blocks_.back().values.push_back(id);
  return {};
}

Status KernelVerifier::DefineOnly(const Instr& instr, Type type) {
  if (instr.results.size() != 1) return Fail(instr.pos, Name(instr.op), ": needs one result");
  return Define(instr, instr.results[0], type);
}

Status KernelVerifier::CheckArity(const Instr& instr) const {
  int arity = Info(instr.op).arity;
  if (arity >= 0 && static_cast<int>(instr.args.size()) != arity) {
    return Fail(instr.pos, Name(instr.op), ": takes ", arity, " operands, has ", instr.args.size());
  }
  return {};
}

Status KernelVerifier::Need(const Instr& instr, ValueId id, Type type) const {
  if (T(id) == type) return {};
  return Fail(instr.pos, Name(instr.op), ": ", Show(id), " is ", T(id), " and should be ", type);
}

Status KernelVerifier::CheckCompute(const Instr& instr) {
  TRY(CheckArity(instr));
  DType d = instr.type.dtype;
  OpClass cls = Info(instr.op).cls;
  bool equality = instr.op == Op::kEq || instr.op == Op::kNe;
  bool arith = IsInteger(d) || IsFloat(d);
  bool allowed = cls == OpClass::kSelect || (cls == OpClass::kArith && arith) ||
                 ((cls == OpClass::kFloat || cls == OpClass::kFunction) && IsFloat(d)) ||
                 (cls == OpClass::kInteger && IsInteger(d)) ||
                 (cls == OpClass::kBits && (IsInteger(d) || d == DType::kPred)) ||
                 (cls == OpClass::kCompare && (arith || equality));
  if (!allowed) return Fail(instr.pos, Name(instr.op), ": does not take ", instr.type);
  bool may_wrap = instr.op == Op::kAdd || instr.op == Op::kSub || instr.op == Op::kMul;
  if (instr.nowrap && !(may_wrap && IsInteger(d))) {
    return Fail(instr.pos, Name(instr.op), " of ", instr.type, " never wraps");
  }
  if (instr.rounded && !(instr.op == Op::kMul && IsFloat(d))) {
    return Fail(instr.pos, Name(instr.op), " of ", instr.type, " is not contracted anyway");
  }
  for (size_t i = 0; i < instr.args.size(); ++i) {
    bool condition = cls == OpClass::kSelect && i == 0;
    if (condition && T(instr.args[i]) == Type{DType::kPred, 1}) continue;  // for all lanes
    TRY(Need(instr, instr.args[i], condition ? Type{DType::kPred, instr.type.lanes} : instr.type));
  }
  bool compare = cls == OpClass::kCompare;
  return DefineOnly(instr, compare ? Type{DType::kPred, instr.type.lanes} : instr.type);
}

Status KernelVerifier::CheckConvert(const Instr& instr) {
  if (instr.nowrap && !(instr.op == Op::kCast && IsInteger(instr.type.dtype) &&
                        instr.args.size() == 1 && IsFloat(T(instr.args[0]).dtype))) {
    return Fail(instr.pos, Name(instr.op), " to ", instr.type,
                " of no float never leaves the type");
  }
  if (instr.rounded) return Fail(instr.pos, Name(instr.op), " is not contracted anyway");
  TRY(CheckArity(instr));
  Type from = T(instr.args[0]);
  if (from.lanes != instr.type.lanes) {
    return Fail(instr.pos, Name(instr.op), ": lanes differ: ", from, " and ", instr.type);
  }
  if (instr.op == Op::kBitcast) {
    bool pred = from.dtype == DType::kPred || instr.type.dtype == DType::kPred;
    if (pred || BitWidth(from.dtype) != BitWidth(instr.type.dtype)) {
      return Fail(instr.pos, "bitcast: widths differ: ", from, " and ", instr.type);
    }
  }
  if (instr.op == Op::kNarrow) {
    TRY(Need(instr, instr.args[0], instr.type));
    bool fits = ComputeType(instr.format) == instr.type.dtype && instr.format != instr.type.dtype;
    if (!fits) {
      return Fail(instr.pos, "narrow: ", instr.type, " is not narrowed to ",
                  weft::Name(instr.format));
    }
  }
  return DefineOnly(instr, instr.type);
}

Status KernelVerifier::CheckLanes(const Instr& instr) {
  TRY(CheckArity(instr));
  DType d = instr.type.dtype;
  int lanes = instr.type.lanes;
  if (instr.op == Op::kSplat) TRY(Need(instr, instr.args[0], {d, 1}));
  if (instr.op == Op::kAny) {
    TRY(Need(instr, instr.args[0], {DType::kPred, T(instr.args[0]).lanes}));
    if (instr.type != Type{DType::kPred, 1}) {
      return Fail(instr.pos, "any: the result is ", instr.type, " and should be pred");
    }
  }
  if (instr.op == Op::kIota && !IsInteger(d)) {
    return Fail(instr.pos, "iota: does not take ", instr.type);
  }
  if (instr.op == Op::kExtract || instr.op == Op::kShuffle) {
    int width = T(instr.args[0]).lanes;
    for (ValueId id : instr.args) TRY(Need(instr, id, {d, width}));
    int available = width * static_cast<int>(instr.args.size());
    bool counted = static_cast<int>(instr.lanes.size()) == lanes;
    for (int32_t lane : instr.lanes) counted = counted && lane >= 0 && lane < available;
    if (!counted) {
      return Fail(instr.pos, Name(instr.op), ": needs ", lanes, " lane numbers below ", available);
    }
  }
  return DefineOnly(instr, instr.type);
}

Status KernelVerifier::CheckMemory(const Instr& instr) {
  if (instr.op == Op::kArray) {
    if (instr.memory < kernel_.num_params || declared_[instr.memory]) {
      return Fail(instr.pos, "array '", kernel_.memories[instr.memory].name, "' is declared twice");
    }
    if (kernel_.memories[instr.memory].per_thread && Enclosing(LoopKind::kThread) > 0) {
      return Fail(instr.pos, "a per_thread array stands outside the thread loops");
    }
    declared_[instr.memory] = live_[instr.memory] = true;
    blocks_.back().arrays.push_back(instr.memory);
    return MarkOther(instr);
  }
  const Memory& m = kernel_.memories[instr.memory];
  bool load = instr.op == Op::kLoad;
  size_t operands = load ? 1 : 2;
  if (instr.args.size() != operands && instr.args.size() != operands + 1) {
    return Fail(instr.pos, Name(instr.op), ": wrong number of operands");
  }
  if (!live_[instr.memory]) {
    return Fail(instr.pos, Name(instr.op), ": '", m.name, "' is not defined here");
  }
  if (m.per_thread && Enclosing(LoopKind::kThread) == 0) {
    return Fail(instr.pos, Name(instr.op), ": '", m.name,
                "' is per_thread and this is no thread loop");
  }
  if (instr.op == Op::kAtomic) TRY(CheckAtomic(instr));
  if (load ? !Reads(m.access) : !Writes(m.access)) {
    return Fail(instr.pos, Name(instr.op), ": '", m.name, "' is a ", Name(m.access), " parameter");
  }
  if (instr.type.dtype != ComputeType(m.dtype)) {
    return Fail(instr.pos, Name(instr.op), ": '", m.name, "' has type ", weft::Name(m.dtype),
                ", which is accessed as ", weft::Name(ComputeType(m.dtype)), ", not ", instr.type);
  }
  Type index = T(instr.args[0]);
  if ((index.dtype != DType::kS64 && index.dtype != DType::kS32) ||
      (index.lanes != 1 && index.lanes != instr.type.lanes)) {
    return Fail(instr.pos, Name(instr.op), ": index is ", index, ", should be s64 or s32");
  }
  if (!load) TRY(Need(instr, instr.args[1], instr.type));
  if (instr.args.size() > operands) {
    TRY(Need(instr, instr.args[operands], {DType::kPred, instr.type.lanes}));
  }
  if (instr.align != 0 && !IsPowerOfTwo(instr.align)) {
    return Fail(instr.pos, "alignment ", instr.align, " is not a power of two");
  }
  bool param = instr.memory < kernel_.num_params;
  if (param && instr.align > std::max(m.align, ByteWidth(m.dtype))) {
    return Fail(instr.pos, Name(instr.op), ": alignment ", instr.align, " is more than that of '",
                m.name, "'");
  }
  if (load) return DefineOnly(instr, instr.type);
  return MarkOther(instr);
}

Status KernelVerifier::CheckAtomic(const Instr& instr) const {
  const Memory& m = kernel_.memories[instr.memory];
  switch (instr.atomic) {
    case Op::kAdd:
    case Op::kMin:
    case Op::kMax:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor: break;
    default: return Fail(instr.pos, "atomic: cannot ", Name(instr.atomic));
  }
  bool takes = IsInteger(m.dtype) && (BitWidth(m.dtype) == 32 || BitWidth(m.dtype) == 64);
  if (!takes) return Fail(instr.pos, "atomic: does not take ", weft::Name(m.dtype));
  if (m.access != Access::kReadWrite) {
    return Fail(instr.pos, "atomic: '", m.name, "' is a ", Name(m.access), " parameter");
  }
  if (instr.type.lanes != 1 || instr.args.size() != 2) {
    return Fail(instr.pos, "atomic: takes one lane and no mask");
  }
  return {};
}

Status Verify(const Kernel& kernel, std::string_view text) {
  return KernelVerifier(kernel, text).Run();
}

}  // namespace weft::program
