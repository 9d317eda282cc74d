// Loop distribution, one loop: what can be computed behind it, and the change. distribute_loops.cc
// has the change, distribute_analysis.cc what stays and what goes, distribute_ahead.cc what comes
// first, anti_dependence.cc which reads of arrays that the loop writes are reads of what was there
// before.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/analysis/trip_count.h"
#include "compiler/passes/effects.h"
#include "compiler/passes/loops/batch_loop.h"
#include "compiler/passes/loops/loop_state.h"
#include "hlo/builder.h"
#include "hlo/clone.h"
#include "program/target.h"

namespace weft::compiler {

class LoopDistributor {
 public:
  LoopDistributor(const Loop& loop, const LoopBounds& bounds, const Effects& effects,
                  const program::TargetInfo& target);

  // Whether the stores of the loop, or some, are of use behind it.
  bool Analyse();
  // After Analyse: whether the change is right only where numbers are as they must be.
  bool NeedsChecks() const { return !checks_.empty(); }
  // After Analyse: no store stays.
  bool MovesAll() const { return stores_.size() == store_count_; }
  Status Change();
  // Instead of Analyse and Change: what can be computed before the loop (distribute_ahead.cc).
  bool AnalyseAhead();
  Status ChangeAhead();
  // Two loops, one of which runs where the numbers are so: that one. The loop analysed is gone.
  bool CanBeVersioned() const;
  Result<hlo::Instruction*> Version();

 private:
  // distribute_analysis.cc
  bool IsState(const hlo::Instruction& i) const;
  bool IsCounter(const hlo::Instruction& i) const;
  bool IsPlain(const hlo::Instruction& i) const;
  bool IsOnlyWrite(const ElementStore& store) const;
  bool IsOld(const hlo::Instruction& array) const;
  bool ReadsCarried(const ElementStore& store) const;
  bool IsRow(const hlo::Instruction& index, int64_t rows);
  void FindStores();
  bool IsStore(const hlo::Instruction& i) const;
  void FindCarried();
  bool IsRowRead(const hlo::Instruction& i) const;
  std::optional<int64_t> ColumnRead(const hlo::Instruction& i) const;
  bool IsVectorRead(const hlo::Instruction& i) const;
  bool IsElementRead(const hlo::Instruction& i) const;
  const NumberLoop* InnerLoop(const hlo::Instruction& i) const;
  bool IsOfInnerLoop(const hlo::Instruction& i) const;
  bool IsArrayThatStays(const hlo::Instruction& i) const;
  void FindInnerLoops();
  std::span<hlo::Instruction* const> InputsOf(const hlo::Instruction& i) const;
  bool IsBatched(const hlo::Instruction& i) const;
  void FindAvailable();
  bool FindMoved();
  bool IsLeaf(const hlo::Instruction& i) const;
  bool IsStack(const hlo::Instruction& i) const;
  bool IsOfUse() const;

  // distribute_ahead.cc
  bool FindRounds();
  bool IsReadAhead(const hlo::Instruction& i) const;
  double CollectAhead(const hlo::Instruction& i,
                      std::unordered_set<const hlo::Instruction*>& cone) const;

  // anti_dependence.cc
  struct Check {  // of a number that is the same in all rounds
    const hlo::Instruction* number;
    hlo::Direction direction;
    int64_t bound;
  };
  bool IsSame(const hlo::Instruction& i) const;
  bool IsBeyond(int64_t place) const;
  bool IsAway(const hlo::Instruction& x, bool negated);
  bool IsNotYetWritten(const hlo::Instruction& place);
  bool ReadsOldRows(const ElementStore& store);
  Result<hlo::Instruction*> Outside(hlo::Builder& b, const hlo::Instruction& i);
  Result<hlo::Instruction*> AddCheck(hlo::Builder& b);
  Result<hlo::Instruction*> AddVersion(std::string_view name, hlo::Computation* condition,
                                       hlo::Computation* body);

  // distribute_loops.cc
  Status KeepStacks();
  Result<hlo::Instruction*> Rows(hlo::Builder& b, hlo::Instruction& i);
  Result<hlo::Instruction*> Column(hlo::Builder& b, const hlo::Instruction& i, int64_t column);
  Result<hlo::Instruction*> Vectors(hlo::Builder& b, const hlo::Instruction& i);
  Result<hlo::Instruction*> Whole(const hlo::Instruction& i);
  Result<hlo::Instruction*> InnerRows(hlo::Builder& b, const NumberLoop& inner);
  Status ComputeBehind();
  Result<hlo::Instruction*> UpdateRows(hlo::Builder& b, const ElementStore& store,
                                       hlo::Instruction* all);
  void RemoveUnused();
  Status DropStores();

  Loop loop_;
  const LoopBounds bounds_;
  const Effects& effects_;
  const int64_t spare_bytes_;  // for stacks
  const int64_t lane_bits_;    // of a vector; 0: rows are threads
  std::vector<ElementStore> stores_;
  size_t store_count_ = 0;               // before the analysis
  std::unordered_set<int64_t> renamed_;  // arrays of stores of which old rows are read
  std::vector<Check> checks_;
  int64_t rows_ = 0, first_ = 0;          // of the arrays; the first that is written
  hlo::Instruction* index_ = nullptr;     // the row of a round
  std::optional<int64_t> reversed_from_;  // it is so much less the counter
  std::unordered_set<const hlo::Instruction*> carried_, available_, moved_;
  std::vector<hlo::Instruction*> kept_;
  std::unordered_map<const hlo::Instruction*, NumberLoop> inner_;
  std::unordered_map<const hlo::Instruction*, std::vector<hlo::Instruction*>>
      inner_rows_;  // behind
  hlo::CloneMap behind_;
};

}  // namespace weft::compiler
