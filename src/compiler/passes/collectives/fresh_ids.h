// Channels, scheduling groups and wrapped computations of copied instructions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "hlo/clone.h"
#include "hlo/module.h"

namespace weft::compiler {

// Ids that the module does not have yet. Members of one group that are copied together stay one
// group, with an id of their own.
class FreshIds {
 public:
  explicit FreshIds(hlo::Module& module);

  // What is renamed from here on belongs to another copy.
  void NextCopy() {
    groups_.clear();
    copies_.computations.clear();
  }
  // Gives a copied instruction a channel, a scheduling group and an async computation of its own.
  void Renumber(hlo::Instruction& i);
  // And copies of what it runs: collectives inside have channels too, and a loop inside may be
  // changed for one of them.
  void Rename(hlo::Instruction& i);

 private:
  void CopyCallees(hlo::Instruction& i);

  hlo::Module& module_;
  int64_t channel_ = 1, group_ = 1;
  std::map<std::string, int64_t> groups_;
  hlo::CloneMap copies_;  // computations, of this copy
};

}  // namespace weft::compiler
