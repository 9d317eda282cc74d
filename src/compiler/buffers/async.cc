// Liveness across asynchronous ops: what a start reads and writes is its own up to the done.
#include <algorithm>

#include "compiler/buffers/buffers.h"
#include "hlo/computation.h"

namespace weft::compiler {

using hlo::Instruction;

// (operands, result ...): the operands under their own names, and what is written from here on.
std::vector<MemValue> Memory::WalkStart(const Instruction& start, bool in_loop) {
  const int32_t at = NextMoment(start);
  std::vector<MemValue> mine;
  for (const Instruction* operand : start.operands()) {
    for (MemValue v : Leaves(*operand)) {
      UseAt(v, at);
      mine.push_back(v);
    }
  }
  const size_t operands = mine.size();
  size_t leaf = 0;
  ForEachLeaf(start.shape(), [&](const Shape& shape) {
    if (leaf++ < operands) return;
    const MemValue v = NewValue(shape, &start, in_loop);
    DefineAt(v, at);
    mine.push_back(v);
  });
  return mine;
}

// The same, where what is written is what a computation makes, with values of its own on the way.
Result<std::vector<MemValue>> Memory::WalkAsyncCall(const Instruction& start, bool in_loop) {
  const hlo::Computation& callee = *start.attrs<hlo::AsyncAttrs>().calls;
  const int32_t at = NextMoment(start);
  std::vector<MemValue> mine;
  for (int64_t k = 0; k < start.operand_count(); ++k) {
    const auto given = Leaves(*start.operand(k));
    for (MemValue v : given) UseAt(v, at);
    mine.insert(mine.end(), given.begin(), given.end());
    leaves_[callee.parameter(k)] = given;
  }
  scopes_.push_back({scope_, at});
  scope_ = scope_of_[&start] = static_cast<int32_t>(scopes_.size()) - 1;
  TRY(Walk(callee, in_loop));
  const int32_t end = NextMoment(start);
  for (MemValue v : Leaves(*callee.root())) {
    UseAt(v, end);
    mine.push_back(v);
  }
  scope_ = scopes_[static_cast<size_t>(scope_)].outer;
  for (int64_t k = 2; k < start.shape().tuple_size(); ++k) {
    ForEachLeaf(start.shape().tuple_element(k), [&](const Shape& shape) {
      const MemValue v = NewValue(shape, &start, in_loop);
      DefineAt(v, end + 1);
      mine.push_back(v);
    });
  }
  return mine;
}

// What the start reads and writes is its own up to here.
std::vector<MemValue> Memory::WalkDone(const Instruction& done) {
  const int32_t at = NextMoment(done);
  const Instruction& start = *done.operand(0);
  const std::vector<MemValue>& all = Leaves(start);
  for (MemValue v : all) UseAt(v, at + 1);
  if (auto found = scope_of_.find(&start); found != scope_of_.end()) {
    scopes_[static_cast<size_t>(found->second)].done = at + 1;
  }
  const auto result = all.begin() + LeafCount(start.shape().tuple_element(0));
  return {result, result + LeafCount(done.shape())};
}

}  // namespace weft::compiler
