#include "cpu/render/slow_path.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cpu/render/kernel.h"
#include "cpu/render/ops.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::cpu {
namespace {

using program::Instr;
using program::Kernel;
using program::Op;
using program::OpClass;
using program::Type;
using program::ValueId;

constexpr size_t kFewInstructions = program::CodeBounds::kWrittenOut;  // not worth a call
// Lanes of a vector that the slow path takes at once.
constexpr int kLanesAtOnce = program::TargetFacts::kNarrowLanes;
// Of arrays that a slow path is given.
constexpr int64_t kArgumentBytes =
    program::TargetFacts::kArgumentRegisters * program::TargetFacts::kLineBytes;

bool WorksByLane(const Instr& instr) {
  OpClass cls = Info(instr.op).cls;
  return cls != OpClass::kLanes && cls != OpClass::kMemory && cls != OpClass::kControl;
}

class SlowPathBuilder {
 public:
  SlowPathBuilder(const Kernel& from, size_t begin, size_t end)
      : from_(from), begin_(begin), end_(end) {}

  std::optional<SlowPath> Build() {
    for (size_t k = begin_; k < end_; ++k) {
      const Instr& instr = from_.code[k];
      if (!WorksByLane(instr) || !HasLanes(instr.type)) return std::nullopt;
      inside_.insert(instr.results.begin(), instr.results.end());
    }
    Kernel& part = part_.kernel;
    part.name = "slow_path";
    AddLoop();
    for (size_t k = begin_; k < end_; ++k) {
      if (!AddInstr(from_.code[k])) return std::nullopt;
    }
    for (ValueId id : from_.code[end_].args) {
      if (inside_.contains(id)) AddOutput(id);
    }
    part.num_params = static_cast<int32_t>(part.memories.size());
    part.code.insert(part.code.begin() + 1, loads_.begin(), loads_.end());
    Instr end;
    end.op = Op::kEnd;
    part.code.push_back(std::move(end));
    return std::move(part_);
  }

 private:
  // All vectors are of one width.
  bool HasLanes(Type type) {
    if (lanes_ == 0) lanes_ = type.lanes;
    return type.lanes == lanes_ && lanes_ > kLanesAtOnce && lanes_ % kLanesAtOnce == 0;
  }

  ValueId AddValue(program::Value value) {
    part_.kernel.values.push_back(std::move(value));
    return static_cast<ValueId>(part_.kernel.values.size() - 1);
  }
  ValueId AddIndex(int64_t value) {
    program::Value constant{{DType::kS64, 1}, "", true, static_cast<uint64_t>(value)};
    return AddValue(std::move(constant));
  }

  void AddLoop() {
    Instr loop;
    loop.op = Op::kLoop;
    loop.type = {DType::kS64, 1};
    loop.args = {AddIndex(0), AddIndex(lanes_), AddIndex(kLanesAtOnce)};
    lane_ = AddValue({{DType::kS64, 1}, ""});
    loop.results = {lane_};
    part_.kernel.code.push_back(std::move(loop));
  }

  int32_t AddMemory(DType dtype, program::Access access) {
    program::Memory memory;
    memory.dtype = dtype;
    memory.count = lanes_;
    memory.access = access;
    part_.kernel.memories.push_back(std::move(memory));
    return static_cast<int32_t>(part_.kernel.memories.size() - 1);
  }

  bool AddInstr(const Instr& instr) {
    Instr copy = instr;
    copy.type.lanes = kLanesAtOnce;
    for (ValueId& id : copy.args) {
      std::optional<ValueId> known = Operand(id);
      if (!known) return false;
      id = *known;
    }
    for (ValueId& id : copy.results) {
      ValueId result = AddValue({{from_.type(id).dtype, kLanesAtOnce}, ""});
      names_[id] = result;
      id = result;
    }
    part_.kernel.code.push_back(std::move(copy));
    return true;
  }

  std::optional<ValueId> Operand(ValueId id) {
    if (auto found = names_.find(id); found != names_.end()) return found->second;
    if (!HasLanes(from_.type(id))) return std::nullopt;
    program::Value value = from_.value(id);
    value.type.lanes = kLanesAtOnce;
    value.name.clear();
    ValueId known = AddValue(value);
    names_[id] = known;
    if (value.is_constant) return known;
    part_.inputs.push_back(id);
    Instr load;
    load.op = Op::kLoad;
    load.type = value.type;
    load.memory = AddMemory(value.type.dtype, program::Access::kRead);
    load.args = {lane_};
    load.results = {known};
    loads_.push_back(std::move(load));
    return known;
  }

  void AddOutput(ValueId id) {
    std::vector<ValueId>& outputs = part_.outputs;
    if (std::find(outputs.begin(), outputs.end(), id) != outputs.end()) return;
    outputs.push_back(id);
    Instr store;
    store.op = Op::kStore;
    store.type = {from_.type(id).dtype, kLanesAtOnce};
    store.memory = AddMemory(store.type.dtype, program::Access::kWrite);
    store.args = {lane_, names_.at(id)};
    part_.kernel.code.push_back(std::move(store));
  }

  const Kernel& from_;
  size_t begin_, end_;
  SlowPath part_;
  std::vector<Instr> loads_;
  std::unordered_set<ValueId> inside_;
  std::unordered_map<ValueId, ValueId> names_;  // of the kernel's values in the part
  ValueId lane_ = -1;
  int lanes_ = 0;
};

}  // namespace

std::optional<SlowPath> FindSlowPath(const Kernel& kernel, size_t at, size_t other) {
  if (other - at <= kFewInstructions) return std::nullopt;
  std::optional<SlowPath> part = SlowPathBuilder(kernel, at + 1, other).Build();
  if (!part) return part;
  for (const program::Memory& m : part->kernel.memories) {
    if (m.count * ByteWidth(m.dtype) > kArgumentBytes) return std::nullopt;
  }
  return part;
}

std::string SlowPathCalls::Argument(size_t n) {
  for (; arguments_ <= n; ++arguments_) {
    StrAppend(entry_, "  %cold_arguments", arguments_, " = alloca [", kArgumentBytes,
              " x i8], align 64\n");
  }
  return StrCat("%cold_arguments", n);
}

void SlowPathCalls::Render(const Kernel& kernel, const SlowPath& part, const RenderTarget& target,
                           IrMetadata& metadata, IrBody& ir, std::vector<std::string>& names) {
  std::string text, arguments;
  RenderKernel(part.kernel, {"", "internal", "#3"}, target, metadata, text);
  std::string function = metadata.AddFunction("void", text.substr(text.find('(')));
  size_t n = 0;
  for (ValueId id : part.inputs) {
    Type type = kernel.type(id);
    std::string value = ToStorage(ir, type.dtype, type.lanes, names[id], target);
    std::string to = Argument(n++);
    ir.Line("store ", IrVector(StorageType(type.dtype), type.lanes), " ", value, ", ptr ", to,
            ", align 64");
    StrAppend(arguments, "ptr ", to, ", ");
  }
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    StrAppend(arguments, "ptr ", Argument(n + i), ", ");
  }
  ir.Line("call void ", function, "(", arguments, "i64 0, i64 1)");
  for (ValueId id : part.outputs) {
    Type type = kernel.type(id);
    std::string value = ir.Def("load ", IrVector(StorageType(type.dtype), type.lanes), ", ptr ",
                               Argument(n++), ", align 64");
    names[id] = FromStorage(ir, type.dtype, type.lanes, value);
  }
}

}  // namespace weft::cpu
