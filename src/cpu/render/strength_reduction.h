// Strength reduction of addresses: an index is a sum of what outer loops compute (hoisted there),
// of what inner ones add, and of a number. Accesses beside each other then differ in the number
// alone, the immediate offset of their instructions: LLVM has nothing left to find out about
// addresses.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cpu/render/ir_text.h"
#include "program/kernel.h"

namespace weft::cpu {

class AddressStrengthReduction {
 public:
  AddressStrengthReduction() = default;  // of no kernel
  explicit AddressStrengthReduction(const program::Kernel& kernel);

  // Whether the instruction only adds to indices or multiplies them by numbers.
  bool Takes(const program::Instr& instr) const;
  // Keeps the sum of such an instruction, and names it in `names` (of the kernel's values) if it is
  // used by others.
  void Add(const program::Instr& instr, IrBody& ir, std::vector<std::string>& names);
  // The value is known by its name alone: something else makes or takes it.
  void Exclude(program::ValueId id) {
    named_[static_cast<size_t>(id)] = true;
    summed_[static_cast<size_t>(id)] = false;
  }

  // The address of an access to the memory at `base`, if its index is one of these.
  bool HasAddress(const program::Instr& access) const;
  std::string Address(const program::Instr& access, std::string base, IrBody& ir,
                      const std::vector<std::string>& names);

 private:
  struct Term {
    std::string text;
    int depth;  // of the loop that computes it
  };
  struct Sum {
    std::vector<Term> terms;  // one of each depth, the outermost first
    uint64_t number = 0;      // wraps around
  };
  static bool IsIndex(program::Type type) { return type == program::Type{DType::kS64, 1}; }
  bool IsNumber(program::ValueId id) const { return kernel_->value(id).is_constant; }
  Sum SumOf(program::ValueId id, const std::vector<std::string>& names) const;
  Sum Added(const Sum& a, const Sum& b, IrBody& ir);
  Sum Multiplied(const Sum& a, uint64_t factor, IrBody& ir);
  std::string Whole(const Sum& sum, IrBody& ir);
  std::string Once(std::string text, IrBody& ir);

  const program::Kernel* kernel_ = nullptr;
  std::vector<bool> named_;                  // by value
  std::vector<int> depth_;                   // by value
  std::vector<Sum> sums_;                    // by value, of instructions taken
  std::vector<bool> summed_;                 // by value
  std::map<std::string, std::string> once_;  // what the open block computes already
  std::string block_;
};

}  // namespace weft::cpu
