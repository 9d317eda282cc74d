// The parts of the pass `fuse`, which says at its top what it does. fuse_kinds: what may be fused
// and what an edge costs; fuse_groups: which instructions go together; fuse_merge: groups that
// share their loops; fuse: groups become fusions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "compiler/analysis/row_space.h"
#include "compiler/fusion_note.h"
#include "hlo/computation.h"
#include "hlo/instruction.h"
#include "program/target.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

// Instructions of a kernel.
inline constexpr size_t kMaxFusionMembers = program::CodeBounds::kMembers;
// Arrays that a kernel writes.
inline constexpr size_t kMaxFusionOutputs = program::TargetFacts::kGeneralRegisters;

enum class GroupKind : uint8_t {
  kNone,     // a step of its own: library calls, control flow, scatter, ...
  kLoop,     // one element of the result from any index
  kReduce,   // loops of its own around the operand's elements
  kUpdate,   // dynamic-update-slice: a loop over the update
  kScatter,  // a loop over the updates, one after the other
  kRow,      // reductions of rows and what is computed from them, row by row
};
GroupKind GroupKindOf(const hlo::Instruction& i);  // never kRow

int64_t ReduceLength(const hlo::Instruction& reduce);  // elements behind one of the result

// How many elements of operand k one evaluation of `user` asks for, and whether at the same index.
struct FusionEdge {
  bool same_index = false;
  double ratio = 1;
};
FusionEdge EdgeTo(const hlo::Instruction& user, int64_t k);

struct FusionGroup {
  hlo::Instruction* root = nullptr;
  GroupKind kind = GroupKind::kLoop;
  std::vector<hlo::Instruction*> outputs;                           // the root first
  std::vector<hlo::Instruction*> members;                           // users before what they use
  std::unordered_map<const hlo::Instruction*, double> evaluations;  // of members, a run
  // Places of members in the code, one for each index that they are read at.
  std::unordered_map<const hlo::Instruction*, std::vector<int32_t>> sites;
  int32_t next_site = 1;
  // How often the code of a site is written out: terms of the short reductions around it.
  std::unordered_map<const hlo::Instruction*, double> repeats;
  double emitted = 0;                 // sites of what is not free
  double written = 0;                 // the same with repeats
  hlo::Instruction* place = nullptr;  // where it will stand
  int32_t position = 0;               // of that
  RowSpace space;                     // of a kRow
  bool dead = false;                  // merged into another
};

// The places of the group's code where `i` would be emitted: its users' own where they read it at
// their index, new ones elsewhere. They double with each slice and concatenate on the way, which
// evaluations, halved by each branch, do not.
std::vector<int32_t> SitesIn(const FusionGroup& group, const hlo::Instruction& i);
// Reductions of reductions that are written out multiply: levels of pairs double at each.
double RepeatsIn(const FusionGroup& group, const hlo::Instruction& i);

// The fusions of one computation.
class Fuser {
 public:
  // `not_fused`: gets what stays apart, and why; may be null.
  Fuser(hlo::Computation& computation, const program::TargetInfo& target,
        std::vector<FusionNote>* not_fused)
      : computation_(computation),
        on_gpu_(target.HasThreadGrid()),
        large_(target.LargeRecomputation()),
        not_fused_(not_fused) {}
  Result<bool> Run();

 private:
  // fuse_groups.cc
  void Visit(hlo::Instruction& i);
  bool VisitShortTuple(hlo::Instruction& i);
  bool EnterRows(hlo::Instruction& i, int32_t g);
  // As one more output of a group; `wanted`: not only by the group itself.
  bool TryOutput(hlo::Instruction& i, int32_t g, bool wanted);
  static bool ShedsMemory(const hlo::Instruction& i);
  int32_t OwnGroup(hlo::Instruction& i, GroupKind kind);
  void Join(hlo::Instruction& i, int32_t g, double evaluations);
  bool Fits(const hlo::Instruction& i, int32_t g, double limit) const;
  bool Repeats(const hlo::Instruction& i, std::span<const int32_t> groups, bool must) const;
  double Evaluations(const hlo::Instruction& i, const FusionGroup& group) const;
  static bool CodeFits(const hlo::Instruction& i, const FusionGroup& group);
  bool MayEnter(const hlo::Instruction& i, const FusionGroup& group) const;
  bool CanWorkOnRows(const FusionGroup& group, const RowSpace& space) const;
  bool EndsWithinLanes(const hlo::Instruction& i) const;
  // Lanes run along several dimensions: ends of rows are no ends of loops.
  static bool RunsOverRows(const RowSpace& space) { return space.wide.size() > space.kept + 1; }
  int RepeatDepth(const hlo::Instruction& i) const;
  static int LargeOperands(const hlo::Instruction& i);
  void NoteStep(const hlo::Instruction& i) const;
  void Refuse(const hlo::Instruction& i, std::string_view reason) const;

  // fuse_merge.cc
  void MergeReduces();
  void MergeUsers(const hlo::Instruction& i, std::vector<int32_t>& groups);
  bool AreIndependent(const FusionGroup& early, const FusionGroup& late) const;
  bool TryMerge(size_t a, size_t b);
  int32_t MadeAt(const hlo::Instruction& i) const;
  static bool Merges(const FusionGroup& group);
  static bool SameLoops(const FusionGroup& a, const FusionGroup& b);

  // fuse.cc
  Result<bool> Materialise(FusionGroup& group);
  void KeepReached(FusionGroup& group);
  void Trim(FusionGroup& group);
  std::string NameOf(const FusionGroup& group) const;

  hlo::Computation& computation_;
  const bool on_gpu_;
  const program::TargetInfo::Recomputation large_;
  std::vector<FusionNote>* const not_fused_;
  std::unordered_map<const hlo::Instruction*, int32_t> position_;
  std::unordered_map<const hlo::Instruction*, std::vector<int32_t>> in_;
  std::unordered_map<const hlo::Instruction*, int> repeat_depth_;
  std::vector<FusionGroup> groups_;
};

}  // namespace weft::compiler
