// Writing kernels and programs from C++. The builder fills in types and names; it checks nothing
// but its own use: call Verify on what it made.
//
//   KernelBuilder b("scale");
//   auto x = b.Param("x", DType::kBF16, n, Access::kRead);
//   auto y = b.Param("y", DType::kF32, n, Access::kWrite);
//   b.For(LoopKind::kParallel, 0, n, [&](ValueId i) {
//     b.Store(y, i, b.Mul(b.Load(x, i), b.F32(2)));
//   });
//   Kernel kernel = std::move(b).Build();
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "program/kernel.h"
#include "program/program.h"

namespace weft::program {

class KernelBuilder {
 public:
  using MemoryId = int32_t;
  explicit KernelBuilder(std::string name) { kernel_.name = std::move(name); }

  // From here on an operation that was emitted before with the same operands, in a block that is
  // still open, is not emitted again, and index arithmetic on constants is done at once. Loads are
  // reused from memory that the kernel only reads.
  void ReuseValues() { reuse_ = true; }
  // Whether scalars computed from here on are latency-bound, as in a loop whose iterations all wait
  // for the one before: math.h then takes formulas of a shorter critical path, at the cost of more
  // operations beside it and of the last bit.
  void SetLatencyBound(bool latency_bound) { latency_bound_ = latency_bound; }
  bool latency_bound() const { return latency_bound_; }
  // Whether products below the normal numbers are better made of integers (TargetInfo).
  void SetSlowSubnormals(bool slow) { slow_subnormals_ = slow; }
  bool slow_subnormals() const { return slow_subnormals_; }
  // Whether math.h emits functions as operations, for targets that have them (TargetInfo).
  void SetFunctions(bool has) { functions_ = has; }
  bool functions() const { return functions_; }
  // The open block, to tell later whether values defined in it can still be used.
  int64_t block() const { return blocks_.back(); }
  bool IsOpen(int64_t block) const;

  // Parameters come before arrays and code. An array lives in the block that is open.
  MemoryId Param(std::string name, DType dtype, int64_t count, Access access, int64_t align = 0);
  int64_t count(MemoryId memory) const { return kernel_.memories[memory].count; }
  const Memory& memory(MemoryId id) const { return kernel_.memories[id]; }
  MemoryId Array(std::string name, DType dtype, int64_t count, bool per_thread = false);

  ValueId Int(int64_t value, Type type = {DType::kS64, 1});
  ValueId F32(double value, int lanes = 1) { return Float(value, {DType::kF32, lanes}); }
  ValueId Float(double value, Type type);
  ValueId Pred(bool value, int lanes = 1);
  // A constant of that type, whatever its class.
  ValueId Number(double value, Type type);
  Type type(ValueId id) const { return kernel_.type(id); }
  const Value& value(ValueId id) const { return kernel_.value(id); }
  std::optional<int64_t> IntConstant(ValueId id) const;  // of an integer constant
  // The last instructions are looked at; null: it is none of them.
  const Instr* DefinitionOf(ValueId id) const;
  // A name for printing; made unique.
  ValueId Named(ValueId id, std::string_view name);

  // Any row with one result whose type is that of its last argument (pred for comparisons).
  ValueId Emit(Op op, std::initializer_list<ValueId> args);
  // The same of integers, where the result fits.
  ValueId EmitNoWrap(Op op, ValueId a, ValueId b);
  ValueId Add(ValueId a, ValueId b) { return Emit(Op::kAdd, {a, b}); }
  ValueId Sub(ValueId a, ValueId b) { return Emit(Op::kSub, {a, b}); }
  ValueId Mul(ValueId a, ValueId b) { return Emit(Op::kMul, {a, b}); }
  ValueId MulRounded(ValueId a, ValueId b);  // of floats, never contracted
  ValueId Div(ValueId a, ValueId b) { return Emit(Op::kDiv, {a, b}); }
  ValueId Rem(ValueId a, ValueId b) { return Emit(Op::kRem, {a, b}); }
  ValueId Min(ValueId a, ValueId b) { return Emit(Op::kMin, {a, b}); }
  ValueId Max(ValueId a, ValueId b) { return Emit(Op::kMax, {a, b}); }
  ValueId Fma(ValueId a, ValueId b, ValueId c) { return Emit(Op::kFma, {a, b, c}); }
  ValueId Select(ValueId p, ValueId a, ValueId b) { return Emit(Op::kSelect, {p, a, b}); }
  ValueId Cast(ValueId a, DType to);        // same lanes; nothing for the same type
  ValueId CastNoWrap(ValueId a, DType to);  // of floats to integers that hold what comes out
  ValueId Bitcast(ValueId a, DType to);     // same lanes and width
  ValueId Narrow(ValueId a, DType format);
  ValueId Splat(ValueId a, int lanes);  // nothing for one lane
  ValueId Iota(Type type);              // 0, 1, ... one for each lane
  ValueId Extract(ValueId a, int lane);
  ValueId Shuffle(ValueId a, ValueId b, std::span<const int32_t> lanes);
  ValueId Any(ValueId a);  // of a pred; nothing for one lane
  // op over all lanes by halving: lane i with lane i + n/2, and so on.
  ValueId ReduceLanes(Op op, ValueId a);

  // The result has the memory's compute type and the lanes asked for, or those of the index.
  ValueId Load(MemoryId memory, ValueId index, int lanes = 1, ValueId mask = -1, int align = 0);
  void Store(MemoryId memory, ValueId index, ValueId value, ValueId mask = -1, int align = 0);
  void Atomic(Op op, MemoryId memory, ValueId index, ValueId value);
  // Row-major element number: ((i0 * dims[1] + i1) * dims[2] + i2)...
  ValueId Linear(std::span<const ValueId> indices, std::span<const int64_t> dims);

  // Opens a loop; returns the counter, then the carried values. End closes the innermost block and
  // returns the values after it.
  std::vector<ValueId> BeginLoop(LoopKind kind, ValueId begin, ValueId end, ValueId step,
                                 std::span<const ValueId> init = {});
  void BeginIf(ValueId condition, Branch branch = Branch::kEven);
  // Of the `if` that is open, where what is expected is known once its blocks are.
  void SetBranch(Branch branch) { kernel_.code[open_.back()].branch = branch; }
  size_t code_size() const { return kernel_.code.size(); }
  void BeginElse(std::span<const ValueId> yield = {});
  // In a thread loop: what its iterations yield is combined. The left values, then the right ones;
  // End with what two of them make returns what all of them do.
  std::vector<ValueId> BeginCombine(std::span<const ValueId> yield);
  std::vector<ValueId> End(std::span<const ValueId> yield = {});

  // The same with the body as a function.
  void For(LoopKind kind, int64_t begin, int64_t end, const std::function<void(ValueId)>& body,
           int64_t step = 1);
  using Carry = std::vector<ValueId>;
  Carry Reduce(int64_t begin, int64_t end, const Carry& init,
               const std::function<Carry(ValueId, const Carry&)>& body, int64_t step = 1,
               LoopKind kind = LoopKind::kSerial);
  void If(ValueId condition, const std::function<void()>& body);

  Kernel Build() &&;  // all blocks closed

 private:
  ValueId Constant(Type type, uint64_t bits);
  ValueId NewValue(Type type);
  ValueId Append(Instr instr);  // with one result
  std::optional<ValueId> FoldIndex(Op op, ValueId a, ValueId b);
  void OpenBlock() { blocks_.push_back(next_block_++); }
  // An `if` that computes what the last open block's does: the number of its end.
  std::optional<size_t> FindSameIf(size_t begin, std::span<const ValueId> yield) const;

  struct Known {
    size_t instr;   // in kernel_.code
    int64_t block;  // where it stands
  };
  bool reuse_ = false, latency_bound_ = false, slow_subnormals_ = false, functions_ = false;
  std::unordered_multimap<size_t, Known> known_;  // by hash of the instruction
  struct KnownIf {
    size_t begin, end;  // in kernel_.code
    int64_t block;
  };
  std::vector<KnownIf> known_ifs_;     // those that only compute
  std::vector<int64_t> blocks_ = {0};  // open ones, the outermost first
  int64_t next_block_ = 1;
  Kernel kernel_;
  std::vector<size_t> open_;  // instructions of the open blocks
  std::map<std::tuple<DType, int, uint64_t>, ValueId> constants_;
  std::set<std::string> names_;
};

// Buffers and steps.
BufferId AddBuffer(Program& program, std::string name, Shape shape, BufferKind kind,
                   int64_t index = 0);
BufferId AddConstant(Program& program, std::string name, Literal value);
BufferId AddView(Program& program, std::string name, Shape shape, BufferId base, int64_t offset);
int32_t AddKernel(Program& program, Kernel kernel);

Use Whole(const Program& program, Access access, BufferId buffer);
inline Use In(const Program& p, BufferId b) {
  return Whole(p, Access::kRead, b);
}
inline Use Out(const Program& p, BufferId b) {
  return Whole(p, Access::kWrite, b);
}
template <class Op>
Step MakeStep(Op op, std::vector<Use> uses, std::string name = "") {
  Step step;
  step.op = std::move(op);
  step.uses = std::move(uses);
  step.name = std::move(name);
  return step;
}

}  // namespace weft::program
