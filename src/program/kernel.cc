#include "program/kernel.h"

#include <algorithm>

#include "base/str.h"

namespace weft::program {

std::string Type::ToString() const {
  return lanes == 1 ? std::string(weft::Name(dtype)) : StrCat(weft::Name(dtype), "x", lanes);
}

std::optional<Type> ParseType(std::string_view text) {
  int lanes = 1;
  if (size_t x = text.find('x'); x != text.npos) {
    std::optional<int64_t> n = ParseInt(text.substr(x + 1));
    if (!n || *n < 2 || *n > kMaxLanes) return std::nullopt;
    lanes = static_cast<int>(*n);
    text = text.substr(0, x);
  }
  std::optional<DType> dtype = ParseDType(text);
  if (!dtype || !IsArrayType(*dtype)) return std::nullopt;
  return Type{*dtype, lanes};
}

bool IsComputeType(DType dtype) {
  if (dtype == DType::kPred || dtype == DType::kF32 || dtype == DType::kF64) return true;
  return IsInteger(dtype) && BitWidth(dtype) >= 8;
}

bool FitsInteger(int64_t value, DType dtype) {
  int bits = BitWidth(dtype);
  if (bits >= 64) return dtype == DType::kS64 || value >= 0;
  int64_t limit = int64_t{1} << (IsSigned(dtype) ? bits - 1 : bits);
  return value < limit && value >= (IsSigned(dtype) ? -limit : 0);
}

DType ComputeType(DType storage) {
  if (!IsArrayType(storage) || IsComplex(storage)) return DType::kInvalid;
  if (IsComputeType(storage)) return storage;
  if (IsFloat(storage)) return DType::kF32;
  return IsSigned(storage) ? DType::kS8 : DType::kU8;
}

std::string_view Name(Access access) {
  return access == Access::kRead ? "read" : access == Access::kWrite ? "write" : "update";
}

std::optional<Op> ParseOp(std::string_view name) {
  for (int i = 0; i < kOpCount; ++i) {
    if (detail::kOpInfo[i].name == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

namespace {
constexpr std::string_view kLoopNames[] = {"serial", "unroll", "parallel", "thread", "vector"};
constexpr std::string_view kBranchNames[] = {"", "likely", "unlikely", "guard"};
}  // namespace

std::string_view Name(LoopKind kind) {
  return kLoopNames[static_cast<int>(kind)];
}

std::optional<LoopKind> ParseLoopKind(std::string_view name) {
  for (int i = 0; i < 5; ++i) {
    if (kLoopNames[i] == name) return static_cast<LoopKind>(i);
  }
  return std::nullopt;
}

std::string_view Name(Branch branch) {
  return kBranchNames[static_cast<int>(branch)];
}

std::optional<Branch> ParseBranch(std::string_view text) {
  for (int i = 1; i < 4; ++i) {
    if (kBranchNames[i] == text) return static_cast<Branch>(i);
  }
  return std::nullopt;
}

std::optional<int64_t> TripCount(const Kernel& kernel, const Instr& loop) {
  const Value& begin = kernel.value(loop.args[0]);
  const Value& end = kernel.value(loop.args[1]);
  const Value& step = kernel.value(loop.args[2]);
  if (!begin.is_constant || !end.is_constant || !step.is_constant || step.AsInt() <= 0) {
    return std::nullopt;
  }
  if (end.AsInt() <= begin.AsInt()) return 0;
  int64_t distance;
  if (__builtin_sub_overflow(end.AsInt(), begin.AsInt(), &distance)) return std::nullopt;
  return (distance - 1) / step.AsInt() + 1;
}

Blocks MatchBlocks(const Kernel& kernel) {
  Blocks blocks;
  blocks.else_at.resize(kernel.code.size());
  blocks.end_at.resize(kernel.code.size());
  std::vector<size_t> open;
  for (size_t pc = 0; pc < kernel.code.size(); ++pc) {
    Op op = kernel.code[pc].op;
    if (op == Op::kLoop || op == Op::kIf) open.push_back(pc);
    if (op == Op::kElse || op == Op::kCombine) blocks.else_at[open.back()] = pc;
    if (op != Op::kEnd) continue;
    blocks.end_at[open.back()] = pc;
    open.pop_back();
  }
  return blocks;
}

LaunchExtents Extents(const Kernel& kernel) {
  LaunchExtents extents;
  std::vector<int64_t> threads = {1};  // product of the enclosing thread loops
  for (const Instr& instr : kernel.code) {
    if (instr.op == Op::kEnd) threads.pop_back();
    if (instr.op != Op::kLoop && instr.op != Op::kIf) continue;
    threads.push_back(threads.back());
    if (instr.op == Op::kIf) continue;
    int64_t trips = TripCount(kernel, instr).value_or(1);
    if (instr.loop == LoopKind::kParallel) extents.grid.push_back(trips);
    if (instr.loop == LoopKind::kThread) threads.back() *= trips;
    extents.threads = std::max(extents.threads, threads.back());
  }
  return extents;
}

}  // namespace weft::program
