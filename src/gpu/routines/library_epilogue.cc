#include "gpu/routines/library_epilogue.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace weft::gpu {
namespace {

using program::Instr;
using program::Kernel;
using program::LoopKind;
using program::Op;
using program::ValueId;

// Follows a kernel from its counters to its one store, and keeps what every value is.
class EpilogueReader {
 public:
  EpilogueReader(const Kernel& kernel, int32_t result, int64_t columns)
      : kernel_(kernel), result_(result), columns_(columns), facts_(kernel.values.size()) {}
  std::optional<LibraryEpilogue> Read();

 private:
  enum class Kind { kOther, kIndex, kValue, kAdded };
  struct Fact {
    Kind kind = Kind::kOther;
    std::vector<int64_t> strides = {};  // kIndex: of the counters, outermost first
    // kValue: what has been done to the result.
    bool has_added = false, has_relu = false;
    int32_t memory = -1;  // kAdded
    bool by_column = false;
  };

  bool TakeLoop(const Instr& loop);
  bool TakeIndex(const Instr& i);
  bool TakeLoad(const Instr& i);
  bool TakeAdd(const Instr& i);
  bool TakeMax(const Instr& i);
  bool TakeStore(const Instr& i);
  bool Take(const Instr& i);

  Fact& fact(ValueId id) { return facts_[static_cast<size_t>(id)]; }
  bool IsConstant(ValueId id, int64_t number) const {
    return kernel_.value(id).is_constant && kernel_.value(id).AsInt() == number;
  }
  DType TypeOf(int32_t memory) const { return kernel_.memories[static_cast<size_t>(memory)].dtype; }
  int64_t CountOf(int32_t memory) const {
    return kernel_.memories[static_cast<size_t>(memory)].count;
  }
  // Whether an access goes through `count` elements one after the other as the inner loops run, and
  // begins again as the others do.
  bool GoesThrough(const Instr& access, int64_t count);

  const Kernel& kernel_;
  const int32_t result_;
  const int64_t columns_;
  std::vector<Fact> facts_;
  std::vector<int64_t> trips_;  // of the nest
  bool stored_ = false;
  LibraryEpilogue found_;
};

bool EpilogueReader::TakeLoop(const Instr& loop) {
  std::optional<int64_t> trips = TripCount(kernel_, loop);
  bool plain = loop.loop == LoopKind::kParallel && trips && IsConstant(loop.args[0], 0) &&
               IsConstant(loop.args[2], 1);
  if (!plain) return false;
  Fact& counter = fact(loop.results[0]);
  counter.kind = Kind::kIndex;
  counter.strides.assign(trips_.size(), 0);
  counter.strides.push_back(1);
  trips_.push_back(*trips);
  return true;
}

bool EpilogueReader::TakeIndex(const Instr& i) {
  const Fact &a = fact(i.args[0]), &b = fact(i.args[1]);
  Fact made = {.kind = Kind::kIndex, .strides = a.strides};
  made.strides.resize(trips_.size());
  if (a.kind != Kind::kIndex) return false;
  if (i.op == Op::kMul) {
    if (!kernel_.value(i.args[1]).is_constant) return false;
    for (int64_t& stride : made.strides) stride *= kernel_.value(i.args[1]).AsInt();
  } else {
    if (b.kind != Kind::kIndex) return false;
    for (size_t d = 0; d < b.strides.size(); ++d) made.strides[d] += b.strides[d];
  }
  fact(i.results[0]) = std::move(made);
  return true;
}

bool EpilogueReader::GoesThrough(const Instr& access, int64_t count) {
  const Fact& index = fact(access.args[0]);
  if (index.kind != Kind::kIndex || access.memory >= kernel_.num_params) return false;
  int64_t through = access.type.lanes;
  for (size_t d = trips_.size(); d-- > 0;) {
    int64_t stride = d < index.strides.size() ? index.strides[d] : 0;
    if (trips_[d] > 1 && stride != (through < count ? through : 0)) return false;
    if (through < count) through *= trips_[d];
  }
  return through == count;
}

bool EpilogueReader::TakeLoad(const Instr& i) {
  if (i.args.size() != 1) return false;
  const int64_t elements = CountOf(result_);
  Fact& f = fact(i.results[0]);
  if (i.memory == result_) {
    f.kind = Kind::kValue;
    return GoesThrough(i, elements);
  }
  const int64_t count = CountOf(i.memory);
  if ((count != elements && count != columns_) || TypeOf(i.memory) != TypeOf(result_)) return false;
  f.kind = Kind::kAdded, f.memory = i.memory, f.by_column = count != elements;
  return GoesThrough(i, count);
}

bool EpilogueReader::TakeAdd(const Instr& i) {
  // Of 16 bits the product is to be rounded before the sum; libraries round once, behind it, and
  // where both cancel that is far from what HLO says.
  const bool rounds = BitWidth(TypeOf(result_)) < BitWidth(DType::kF32);
  for (size_t k : {0, 1}) {
    const Fact &value = fact(i.args[k]), &other = fact(i.args[1 - k]);
    if (value.kind != Kind::kValue || other.kind != Kind::kAdded) continue;
    if (value.has_added || value.has_relu || rounds) return false;
    found_.added = other.memory, found_.by_column = other.by_column;
    fact(i.results[0]) = {.kind = Kind::kValue, .has_added = true};
    return true;
  }
  return TakeIndex(i);
}

bool EpilogueReader::TakeMax(const Instr& i) {
  for (size_t k : {0, 1}) {
    const Fact value = fact(i.args[k]);
    if (value.kind != Kind::kValue || value.has_relu || !IsConstant(i.args[1 - k], 0)) continue;
    found_.relu = true;
    fact(i.results[0]) = {.kind = Kind::kValue, .has_added = value.has_added, .has_relu = true};
    return true;
  }
  return false;
}

bool EpilogueReader::TakeStore(const Instr& i) {
  const Fact& value = fact(i.args[1]);
  bool all = value.kind == Kind::kValue && value.has_added == (found_.added >= 0) &&
             value.has_relu == found_.relu;
  bool first = !std::exchange(stored_, true);
  return first && all && i.memory == result_ && i.args.size() == 2 &&
         GoesThrough(i, CountOf(result_));
}

bool EpilogueReader::Take(const Instr& i) {
  switch (i.op) {
    case Op::kLoop: return TakeLoop(i);
    case Op::kMul: return TakeIndex(i);
    case Op::kAdd: return TakeAdd(i);
    case Op::kLoad: return TakeLoad(i);
    case Op::kMax: return TakeMax(i);
    case Op::kStore: return TakeStore(i);
    case Op::kEnd: return true;
    case Op::kNarrow:  // ReLU and rounding may change places
      fact(i.results[0]) = fact(i.args[0]);
      return i.format == TypeOf(result_) && fact(i.args[0]).kind == Kind::kValue;
    default: return false;
  }
}

std::optional<LibraryEpilogue> EpilogueReader::Read() {
  if (std::ssize(kernel_.memories) != kernel_.num_params) return std::nullopt;
  // What was computed and is not stored is as little taken as what the libraries do not have.
  bool taken = std::ranges::all_of(kernel_.code, [&](const Instr& i) { return Take(i); });
  if (!taken || !stored_ || !found_.any()) return std::nullopt;
  return found_;
}

}  // namespace

std::string_view LibraryEpilogue::name() const {
  if (added < 0) return "ReLU";
  if (by_column) return relu ? "bias and ReLU" : "bias";
  return relu ? "residual and ReLU" : "residual";
}

std::optional<LibraryEpilogue> LibraryEpilogueOf(const Kernel& kernel, int32_t result,
                                                 int64_t columns) {
  return EpilogueReader(kernel, result, columns).Read();
}

Result<int32_t> ResultParameter(const RoutineInputs& inputs, const program::Step& next) {
  if (!std::holds_alternative<program::KernelStep>(next.op) || inputs.step.uses.size() != 3) {
    return Unimplemented("no kernel behind it");
  }
  int32_t found = -1;
  const program::Slice result = Resolve(inputs.program, inputs.step.uses[2].slice);
  for (size_t p = 0; p < next.uses.size(); ++p) {
    program::Slice slice = Resolve(inputs.program, next.uses[p].slice);
    bool same =
        slice.buffer == result.buffer && slice.offset == result.offset && slice.size == result.size;
    if (same && found < 0) {
      found = static_cast<int32_t>(p);
    } else if (Overlap(slice, result)) {
      return Unimplemented("a kernel that reads the product otherwise");
    }
  }
  if (found < 0) return Unimplemented("a kernel of something else");
  return found;
}

Result<LibraryEpilogue> LibraryEpilogueBehind(const RoutineInputs& inputs,
                                              const program::Step& next, int64_t columns) {
  int32_t result = TRY(ResultParameter(inputs, next));
  const auto& launch = std::get<program::KernelStep>(next.op);
  const Kernel& kernel = inputs.program.kernels[static_cast<size_t>(launch.kernel)];
  auto epilogue = LibraryEpilogueOf(kernel, result, columns);
  bool same_type = kernel.memories[static_cast<size_t>(result)].dtype == inputs.type(2);
  if (!epilogue || !same_type) return Unimplemented("a kernel that is no epilogue of libraries");
  return *epilogue;
}

}  // namespace weft::gpu
