// Instruction selection: how an instruction is lowered is the first row of its target's table that
// takes it. A way of lowering is one file, which ends in its row, and a line in the tables of the
// targets that have it; `weft program --why` prints what was chosen.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/lower/lowering.h"

namespace weft::compiler {

// Whether a row takes an instruction, and why, or why not: half a sentence about the instruction.
struct Decision {
  bool taken = false;
  std::string_view reason;   // of static storage
  std::string figures = {};  // of the cost model, where it decides
};
inline Decision Take(std::string_view reason, std::string figures = {}) {
  return {true, reason, std::move(figures)};
}
inline Decision Refuse(std::string_view reason, std::string figures = {}) {
  return {false, reason, std::move(figures)};
}

// The reduces that are the results of a kernel, once each.
struct ReduceGroup {
  std::vector<const hlo::Instruction*> reduces;
  std::vector<size_t> wanted;  // for each output: which of all their results it is
  size_t count = 0;            // of all their results
  ReduceDims dims;
  bool same_dims = true;  // all of them
  LoopShape shape;        // over their operands
};

// An instruction that is to be lowered, and what rows want to know about it, found out once.
class Subject {
 public:
  Subject(LowerContext& context, const hlo::Instruction& the_instruction, Steps& the_steps)
      : cx(context), instruction(the_instruction), steps(the_steps) {}
  Subject(const Subject&) = delete;

  LowerContext& cx;
  const hlo::Instruction& instruction;
  Steps& steps;  // to which those of the instruction are added

  // Of a dot in canonical form.
  const std::optional<DotSizes>& dot();

  // What its kernel computes, without results that nobody reads; and what computes the first of
  // them: the instruction, or the reduce, loop, ... inside of a fusion.
  const KernelBody& body();
  const hlo::Instruction& producer();
  // Of the loop over the first result.
  const LoopShape& shape();
  // Of a fusion of reductions along rows with what is made of their results.
  const std::optional<RowSpace>& row_space();
  // Of a kernel all of whose results are reduces.
  const std::optional<ReduceGroup>& reduces();

 private:
  std::optional<std::optional<DotSizes>> dot_;
  std::optional<KernelBody> body_;
  std::optional<LoopShape> shape_;
  std::optional<std::optional<RowSpace>> row_space_;
  std::optional<std::optional<ReduceGroup>> reduces_;
};

// Opcodes; none listed: any.
class OpSet {
 public:
  constexpr OpSet() : any_(true) {}
  constexpr OpSet(std::initializer_list<hlo::Op> ops) {
    for (hlo::Op op : ops) words_[Word(op)] |= Bit(op);
  }
  constexpr bool Has(hlo::Op op) const { return any_ || (words_[Word(op)] & Bit(op)) != 0; }

 private:
  static constexpr size_t Word(hlo::Op op) { return static_cast<size_t>(op) / 64; }
  static constexpr uint64_t Bit(hlo::Op op) {
    return uint64_t{1} << (static_cast<size_t>(op) % 64);
  }
  bool any_ = false;
  std::array<uint64_t, 4> words_ = {};
};

struct LoweringRow {
  std::string_view name;
  OpSet ops;  // that it is for: of the instruction; of rows for kernels: of what makes the result
  Decision (*matches)(Subject&);
  Status (*lower)(Subject&);
};

// The rows of a target. Those for opcodes come first, then those for opcodes that all targets
// share; what none of them takes is a kernel.
struct LoweringTable {
  std::span<const LoweringRow* const> ops, kernels;
};
LoweringTable CpuTable();                         // cpu/table.cc
LoweringTable GpuTable();                         // gpu/table.cc
std::span<const LoweringRow* const> SharedOps();  // shared_ops.cc

// An error for a name of lower.disable that neither a row of the target nor a rule of elements has.
Status CheckDisabled(const program::TargetInfo& target, const LowerOptions& options);

// Lowers by the first row that takes it, and notes which and why where the context asks.
Status LowerByTable(LowerContext& cx, const hlo::Instruction& instruction, Steps& steps);

}  // namespace weft::compiler
