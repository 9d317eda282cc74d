// Loads and stores of a kernel as LLVM's: addresses, masked accesses, gathers and scatters, and
// scalarized gathers, which load lane by lane.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/render/alias_scopes.h"
#include "cpu/render/ir_text.h"
#include "cpu/render/strength_reduction.h"
#include "program/kernel.h"

namespace weft::cpu {

// A loop over threads that is open; its counter once it has a name.
struct ThreadLoop {
  std::string counter;
  int64_t begin, step, trips;
  program::Type type;
};

class AccessRenderer {
 public:
  // `names`: of the kernel's values, as they get them.
  AccessRenderer(const program::Kernel& kernel, const RenderTarget& target, IrBody& ir,
                 const std::vector<std::string>& names);

  // The name of what is loaded. `how`: of a load without lanes.
  std::string Load(const program::Instr& instr, std::string_view how = "");
  void Store(const program::Instr& instr);
  void Atomic(const program::Instr& instr);

  static bool HasMask(const program::Instr& instr) {
    return instr.args.size() > (instr.op == program::Op::kLoad ? 1u : 2u);
  }
  // The instruction that makes a value, and its place in the code; null and -1: it is a constant.
  const program::Instr* Definition(program::ValueId id) const;
  int32_t DefinedAt(program::ValueId id) const { return defined_[static_cast<size_t>(id)]; }

  AddressStrengthReduction& indices() { return indices_; }
  std::vector<ThreadLoop>& threads() { return threads_; }
  std::string& group() { return group_; }  // of the vector loop that is open
  void set_scopes(AccessScopes scopes) { scopes_ = std::move(scopes); }

 private:
  // A vector of indices at an even distance from each other: first + distance * lane.
  struct Spaced {
    program::ValueId first;
    int64_t distance;
  };
  // Indices that were in memory, and are there still: the load of them, and a number that is added
  // to all of them (-1: none). Null: they were not.
  struct Stored {
    const program::Instr* load = nullptr;
    program::ValueId more = -1;
  };

  const std::string& NameOf(program::ValueId id) const { return names_[static_cast<size_t>(id)]; }
  std::string ThreadNumber();
  std::string BaseOf(const program::Memory& m, int32_t number);
  std::string Address(const program::Instr& instr);
  std::string MaskOf(const program::Instr& instr);
  int64_t AlignOf(const program::Instr& instr) const;
  std::string Facts(const program::Instr& instr) const;
  std::optional<Spaced> FindSpaced(program::ValueId id) const;
  bool IsNeverNegative(program::ValueId id) const;
  Stored IndicesInMemory(program::ValueId id) const;
  std::vector<std::string> PlacesOf(program::Type type, std::string index);
  std::string PlaceInMemory(const program::Instr& load, const std::string& first, int lane);
  std::string ScalarizeGather(const program::Instr& instr);
  bool IsRounded(program::ValueId id, DType format) const;  // it is a number of the format
  std::string StoredValue(program::ValueId id, DType dtype, int lanes);

  const program::Kernel& kernel_;
  const RenderTarget& target_;
  IrBody& ir_;
  const std::vector<std::string>& names_;
  std::vector<int32_t> defined_;  // by value: the instruction that makes it, or -1
  std::vector<ThreadLoop> threads_;
  std::string group_;
  AddressStrengthReduction indices_;
  AccessScopes scopes_;
};

}  // namespace weft::cpu
