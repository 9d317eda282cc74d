// The rules of kernels: values, types and memories (verify_kernel.cc), blocks (verify_control.cc).
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/str.h"
#include "program/verify.h"

namespace weft::program {

class KernelVerifier {
 public:
  KernelVerifier(const Kernel& kernel, std::string_view text)
      : kernel_(kernel), text_(text), accesses_(kernel) {}

  Status Run();

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

  Status CheckIds() const;
  Status CheckMemories() const;
  Status CheckValues() const;
  Position PositionOf(const Value& value) const;
  Type T(ValueId id) const { return kernel_.type(id); }
  std::string Show(ValueId id) const;
  Status CheckInstr(const Instr& instr);
  Status Define(const Instr& instr, ValueId id, Type type);
  Status DefineOnly(const Instr& instr, Type type);
  Status CheckArity(const Instr& instr) const;
  Status Need(const Instr& instr, ValueId id, Type type) const;
  Status CheckCompute(const Instr& instr);
  Status CheckConvert(const Instr& instr);
  Status CheckLanes(const Instr& instr);
  Status CheckMemory(const Instr& instr);

  // What comes out is the same in any order.
  Status CheckAtomic(const Instr& instr) const;

  // Stores, arrays and blocks do not stand beside a parallel loop, nor between nested thread loops.
  Status MarkOther(const Instr& instr);
  Status CheckControl(const Instr& instr);
  bool InCombine() const;
  Status CheckCombine(const Instr& instr);
  Status Open(const Instr& instr);
  void HideBlock();

  // How many of the open blocks are loops of that kind.
  int Enclosing(LoopKind kind) const;
  Status CheckLoop(const Instr& instr);

  // Where loops of each kind may stand.
  Status CheckPlace(const Instr& instr);
  Status CheckThreads(const Instr& instr) const;
  Status CheckEnd(const Instr& instr);

  const Kernel& kernel_;
  std::string_view text_;
  AccessChecker accesses_;
  std::vector<Block> blocks_;
  std::vector<bool> visible_, live_, declared_;
  std::unordered_set<ValueId> defined_;
};

}  // namespace weft::program
