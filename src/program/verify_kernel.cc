#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "base/str.h"
#include "program/lexer.h"
#include "program/print.h"
#include "program/verify.h"

namespace weft::program {

std::unexpected<Error> VerifyError(std::string_view text, Position pos, std::string message) {
  Error error(Code::kInvalidArgument, std::move(message));
  if (pos.line > 0) error.At(pos.line, pos.column, LineOf(text, pos.line));
  return std::unexpected(std::move(error));
}

namespace {

bool IsPowerOfTwo(int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

bool IsValueName(std::string_view name) {
  return name.empty() || IsIdentifier(name);
}

class KernelVerifier {
 public:
  KernelVerifier(const Kernel& kernel, std::string_view text)
      : kernel_(kernel), text_(text), accesses_(kernel) {}

  Status Run() {
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

 private:
  struct Block {
    const Instr* open = nullptr;   // null: the kernel itself
    bool has_else = false;         // or a combine
    InlineVec<ValueId, 4> yields;  // of the first block of an if
    bool has_grid_loop = false;    // a parallel or thread loop that must be alone
    bool has_other = false;        // stores, arrays, other blocks
    std::vector<ValueId> values;
    std::vector<int32_t> arrays;
  };

  template <class... Args>
  std::unexpected<Error> Fail(Position pos, const Args&... args) const {
    return VerifyError(text_, pos, StrCat("kernel ", kernel_.name, ": ", args...));
  }

  Status CheckIds() const {
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

  Status CheckMemories() const {
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

  Status CheckValues() const {
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

  Position PositionOf(const Value& value) const {
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

  Type T(ValueId id) const { return kernel_.type(id); }
  std::string Show(ValueId id) const {
    const Value& value = kernel_.value(id);
    std::string out;
    if (value.is_constant) {
      AppendConstant(out, value);
    } else {
      StrAppend(out, "%", value.name.empty() ? StrCat("#", id) : value.name);
    }
    return out;
  }

  Status CheckInstr(const Instr& instr) {
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

  Status Define(const Instr& instr, ValueId id, Type type) {
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

  Status DefineOnly(const Instr& instr, Type type) {
    if (instr.results.size() != 1) return Fail(instr.pos, Name(instr.op), ": needs one result");
    return Define(instr, instr.results[0], type);
  }

  Status CheckArity(const Instr& instr) const {
    int arity = Info(instr.op).arity;
    if (arity >= 0 && static_cast<int>(instr.args.size()) != arity) {
      return Fail(instr.pos, Name(instr.op), ": takes ", arity, " operands, has ",
                  instr.args.size());
    }
    return {};
  }

  Status Need(const Instr& instr, ValueId id, Type type) const {
    if (T(id) == type) return {};
    return Fail(instr.pos, Name(instr.op), ": ", Show(id), " is ", T(id), " and should be ", type);
  }

  Status CheckCompute(const Instr& instr) {
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
    for (size_t i = 0; i < instr.args.size(); ++i) {
      bool condition = cls == OpClass::kSelect && i == 0;
      if (condition && T(instr.args[i]) == Type{DType::kPred, 1}) continue;  // for all lanes
      TRY(Need(instr, instr.args[i],
               condition ? Type{DType::kPred, instr.type.lanes} : instr.type));
    }
    bool compare = cls == OpClass::kCompare;
    return DefineOnly(instr, compare ? Type{DType::kPred, instr.type.lanes} : instr.type);
  }

  Status CheckConvert(const Instr& instr) {
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

  Status CheckLanes(const Instr& instr) {
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
        return Fail(instr.pos, Name(instr.op), ": needs ", lanes, " lane numbers below ",
                    available);
      }
    }
    return DefineOnly(instr, instr.type);
  }

  Status CheckMemory(const Instr& instr) {
    if (instr.op == Op::kArray) {
      if (instr.memory < kernel_.num_params || declared_[instr.memory]) {
        return Fail(instr.pos, "array '", kernel_.memories[instr.memory].name,
                    "' is declared twice");
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
      return Fail(instr.pos, Name(instr.op), ": '", m.name, "' is a ", Name(m.access),
                  " parameter");
    }
    if (instr.type.dtype != ComputeType(m.dtype)) {
      return Fail(instr.pos, Name(instr.op), ": '", m.name, "' has type ", weft::Name(m.dtype),
                  ", which is accessed as ", weft::Name(ComputeType(m.dtype)), ", not ",
                  instr.type);
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

  // What comes out is the same in any order.
  Status CheckAtomic(const Instr& instr) const {
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

  // Stores, arrays and blocks do not stand beside a parallel loop, nor between nested thread loops.
  Status MarkOther(const Instr& instr) {
    blocks_.back().has_other = true;
    if (!blocks_.back().has_grid_loop) return {};
    return Fail(instr.pos, Name(instr.op), " beside a loop of the grid");
  }

  Status CheckControl(const Instr& instr) {
    switch (instr.op) {
      case Op::kLoop: return CheckLoop(instr);
      case Op::kIf:
        TRY(CheckArity(instr));
        TRY(Need(instr, instr.args[0], {DType::kPred, 1}));
        TRY(MarkOther(instr));
        return Open(instr);
      case Op::kElse: {
        Block& block = blocks_.back();
        if (!block.open || block.open->op != Op::kIf || block.has_else) {
          return Fail(instr.pos, "else without an if");
        }
        HideBlock();
        block.has_else = true;
        block.yields = instr.args;
        return {};
      }
      case Op::kCombine: return CheckCombine(instr);
      default: return CheckEnd(instr);
    }
  }

  bool InCombine() const {
    return std::any_of(blocks_.begin(), blocks_.end(), [](const Block& b) {
      return b.open != nullptr && b.open->op == Op::kLoop && b.has_else;
    });
  }

  Status CheckCombine(const Instr& instr) {
    Block& block = blocks_.back();
    if (!block.open || block.open->op != Op::kLoop || block.open->loop != LoopKind::kThread ||
        block.has_else) {
      return Fail(instr.pos, "combine without a thread loop");
    }
    const Instr& loop = *block.open;
    if (block.has_grid_loop || Enclosing(LoopKind::kThread) != 1) {
      return Fail(instr.pos, "combine: of nested thread loops");
    }
    bool counts =
        kernel_.value(loop.args[0]).AsInt() == 0 && kernel_.value(loop.args[2]).AsInt() == 1;
    if (!counts || !IsPowerOfTwo(*TripCount(kernel_, loop))) {
      return Fail(instr.pos, "combine: iterations are not numbered 0 to a power of two");
    }
    size_t n = instr.args.size();
    if (n == 0 || instr.results.size() != 2 * n) {
      return Fail(instr.pos, "combine: ", instr.results.size(), " values for two of ", n);
    }
    for (ValueId id : instr.args) {
      if (T(id).lanes != 1) return Fail(instr.pos, "combine: does not take ", T(id));
    }
    HideBlock();
    block.has_else = true;
    block.yields = instr.args;
    for (size_t i = 0; i < 2 * n; ++i) TRY(Define(instr, instr.results[i], T(instr.args[i % n])));
    return {};
  }

  Status Open(const Instr& instr) {
    if (blocks_.size() > static_cast<size_t>(kMaxNesting)) {
      return Fail(instr.pos, "blocks are nested more than ", kMaxNesting, " deep");
    }
    blocks_.push_back({});
    blocks_.back().open = &instr;
    return {};
  }

  void HideBlock() {
    for (ValueId id : blocks_.back().values) visible_[id] = false;
    for (int32_t array : blocks_.back().arrays) live_[array] = false;
    blocks_.back().values.clear();
    blocks_.back().arrays.clear();
  }

  // How many of the open blocks are loops of that kind.
  int Enclosing(LoopKind kind) const {
    int n = 0;
    for (const Block& b : blocks_) n += b.open && b.open->op == Op::kLoop && b.open->loop == kind;
    return n;
  }

  Status CheckLoop(const Instr& instr) {
    if (instr.args.size() < 3 || instr.results.size() + 2 != instr.args.size()) {
      return Fail(instr.pos, "loop: wrong number of operands");
    }
    if (instr.type != Type{DType::kS64, 1} && instr.type != Type{DType::kS32, 1}) {
      return Fail(instr.pos, "loop: the counter is ", instr.type, ", should be s64 or s32");
    }
    for (int i = 0; i < 3; ++i) TRY(Need(instr, instr.args[i], instr.type));
    const Value& step = kernel_.value(instr.args[2]);
    if (!step.is_constant || step.AsInt() <= 0) {
      return Fail(instr.pos, "loop: the step must be a constant above 0");
    }
    if (instr.loop != LoopKind::kSerial && !TripCount(kernel_, instr)) {
      return Fail(instr.pos, Name(instr.loop), " loop: bounds must be constant");
    }
    if (IsConcurrent(instr.loop) && instr.args.size() > 3) {
      return Fail(instr.pos, Name(instr.loop), " loop: cannot carry values");
    }
    TRY(CheckPlace(instr));
    TRY(Open(instr));
    for (size_t i = 0; i < instr.results.size(); ++i) {
      TRY(Define(instr, instr.results[i], i == 0 ? instr.type : T(instr.args[i + 2])));
    }
    return {};
  }

  // Where loops of each kind may stand.
  Status CheckPlace(const Instr& instr) {
    Block& block = blocks_.back();
    if (Enclosing(LoopKind::kVector) > 0) return Fail(instr.pos, "loop inside a vector loop");
    if (instr.loop == LoopKind::kParallel) {
      if (Enclosing(LoopKind::kParallel) + 1 != static_cast<int>(blocks_.size())) {
        return Fail(instr.pos, "parallel loop inside a block that is not a parallel loop");
      }
    }
    bool nested_thread = instr.loop == LoopKind::kThread && Enclosing(LoopKind::kThread) > 0;
    if (nested_thread) {
      if (block.open->op != Op::kLoop || block.open->loop != LoopKind::kThread) {
        return Fail(instr.pos, "thread loop inside another block of a thread loop");
      }
    }
    if (instr.loop == LoopKind::kThread) TRY(CheckThreads(instr));
    if (instr.loop != LoopKind::kParallel && !nested_thread) return MarkOther(instr);
    if (block.has_other || block.has_grid_loop) {
      return Fail(instr.pos, Name(instr.loop), " loop does not stand alone in its block");
    }
    block.has_grid_loop = true;
    return {};
  }

  Status CheckThreads(const Instr& instr) const {
    int64_t threads = *TripCount(kernel_, instr);
    for (const Block& b : blocks_) {
      bool counts = b.open && b.open->op == Op::kLoop && b.open->loop == LoopKind::kThread;
      if (counts && threads <= kMaxThreads) threads *= *TripCount(kernel_, *b.open);
    }
    if (threads <= kMaxThreads) return {};
    return Fail(instr.pos, "thread loops make more than ", kMaxThreads, " threads");
  }

  Status CheckEnd(const Instr& instr) {
    Block& block = blocks_.back();
    if (!block.open) return Fail(instr.pos, "end without a block");
    const Instr& open = *block.open;
    std::vector<Type> types;
    if (open.op == Op::kLoop && !block.has_else) {
      for (size_t i = 1; i < open.results.size(); ++i) types.push_back(T(open.results[i]));
    } else {
      for (ValueId id : block.yields) types.push_back(T(id));
    }
    if (instr.args.size() != types.size() || instr.results.size() != types.size()) {
      return Fail(instr.pos, "block yields ", instr.args.size(), " values for ",
                  instr.results.size(), " results and should yield ", types.size());
    }
    if (open.op == Op::kIf && open.branch == Branch::kGuard && !block.has_else) {
      return Fail(open.pos, "guard without an else");
    }
    for (size_t i = 0; i < types.size(); ++i) TRY(Need(instr, instr.args[i], types[i]));
    HideBlock();
    blocks_.pop_back();
    for (size_t i = 0; i < types.size(); ++i) TRY(Define(instr, instr.results[i], types[i]));
    return {};
  }

  const Kernel& kernel_;
  std::string_view text_;
  AccessChecker accesses_;
  std::vector<Block> blocks_;
  std::vector<bool> visible_, live_, declared_;
  std::unordered_set<ValueId> defined_;
};

}  // namespace

Status Verify(const Kernel& kernel, std::string_view text) {
  return KernelVerifier(kernel, text).Run();
}

}  // namespace weft::program
