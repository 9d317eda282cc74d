// The parts that partitioning is made of: values as they lie on the devices, what an op is cut by,
// and the program of one device, computation by computation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compiler/spmd/emit.h"
#include "compiler/spmd/factors.h"
#include "compiler/spmd/form.h"
#include "compiler/spmd/reshard.h"
#include "compiler/spmd/values.h"
#include "hlo/clone.h"
#include "hlo/dim_rule.h"

namespace weft::compiler::spmd {

// One leaf of a value in the program of a device: the forms in which it is there already.
struct LocalValue {
  const Shape* whole = nullptr;
  Form declared;  // how the shardings say that it lies
  std::vector<std::pair<Form, hlo::Instruction*>> forms;
};

// What each factor of an op is cut by on the way to its result, no axis twice. Factors that the op
// needs whole have none.
struct Cut {
  const hlo::DimRule& rule;
  FactorAxes axes;
  AxisList reduced;  // axes of factors that are reduced
  Form FormOf(const hlo::DimRule::Tensor& tensor, const DeviceMesh& mesh) const;
  void Clear() {
    for (AxisList& list : axes) list = {};
    reduced = {};
  }
};
// The cut refers to the rule.
Cut ChooseCut(const hlo::Instruction& i, const hlo::DimRule& rule, std::span<const Form> operands,
              std::span<const Form> results, const DeviceMesh& mesh);
// Axes of dimensions that the op needs whole cut another dimension of it instead, where one is
// free: an all-to-all moves less than gathering does, and every device computes its share alone.
void CutElsewhere(const hlo::Instruction& i, std::span<const Form> operands, const DeviceMesh& mesh,
                  const LinkModel& link, Cut& cut);
// Whether parts of the op's reduction can be reduced one after the other: its initial values may
// count more than once.
bool HasRepeatableReduction(const hlo::Instruction& i);

// The whole program.
class Partitioner {
 public:
  Partitioner(hlo::Module& module, const DeviceMesh& mesh, ValueTable& table, LinkModel link);
  Status Run();

  ProgramState& state() { return state_; }
  const DeviceMesh& mesh() const { return mesh_; }
  const LinkModel& link() const { return link_; }
  // How leaf k of what an instruction makes lies by its sharding.
  Form FormOf(const hlo::Instruction* i, size_t leaf) const;
  std::vector<Form> FormsOf(const hlo::Instruction* i) const;
  // The rule that the table has, or the op's in `own`.
  const hlo::DimRule& RuleOf(const hlo::Instruction& i, hlo::DimRule& own) const {
    const hlo::DimRule* known = table_.FindRule(&i);
    return known != nullptr ? *known : own = hlo::RuleOf(i);
  }
  // Whether it is part of a manual computation.
  bool IsManual(const hlo::Instruction* i) const;
  // The program of one device for a computation, whose result lies as `root` says; it stands before
  // its caller's (null: last).
  Result<hlo::Computation*> Emit(const hlo::Computation& from, std::span<const Form> root,
                                 hlo::Computation* caller);

 private:
  void UpdateConfig(const hlo::Computation& whole);

  hlo::Module& module_;
  const DeviceMesh& mesh_;
  ValueTable& table_;
  LinkModel link_;
  ProgramState state_;
};

// One computation.
class ComputationPartitioner {
 public:
  ComputationPartitioner(Partitioner& program, const hlo::Computation& from, hlo::Computation& into,
                         bool entry);
  Status Run(std::span<const Form> root);

 private:
  using Leaves = std::vector<LocalValue>;

  Status EmitParameter(const hlo::Instruction& i);
  Status EmitInstruction(const hlo::Instruction& i);
  Status EmitStructure(const hlo::Instruction& i, bool& done);
  Status EmitCalls(const hlo::Instruction& i);
  Status EmitBoundary(const hlo::Instruction& i);
  Status EmitSource(const hlo::Instruction& i);
  Status EmitOp(const hlo::Instruction& i);
  bool MayHideSize(const hlo::Instruction& i);
  // False: it is no such op.
  Result<bool> EmitNarrowSlice(const hlo::Instruction& i, const Cut& cut, const Form& from);
  Result<bool> EmitSortedFront(const hlo::Instruction& i, const Cut& cut,
                               std::span<const Form> operands);
  bool IsRotation(const hlo::Instruction& i) const;
  Result<bool> EmitRotation(const hlo::Instruction& i);
  Result<hlo::Instruction*> EmitCumulative(const hlo::Instruction& i, const Cut& cut,
                                           const Shape& shape,
                                           std::span<hlo::Instruction* const> operands);
  void KeepSummands(const hlo::Instruction& i, std::vector<Form>& operands, Form& result);
  Status EmitCustomCall(const hlo::Instruction& i);
  Status EmitRandomBits(const hlo::Instruction& i);
  Status EmitOnce(const hlo::Instruction& i, int64_t device);
  Result<hlo::Computation*> OnceBranch(const hlo::Instruction& i, const Shape& operands, bool runs);
  Result<hlo::Instruction*> EmitLocal(const hlo::Instruction& i, const Cut& cut,
                                      std::span<const Form> made,
                                      std::vector<hlo::Instruction*> operands);
  Result<hlo::Instruction*> KeepFirst(const hlo::Instruction& i, hlo::Instruction* local,
                                      Form& form);
  // The partial results of reduced factors are combined.
  Status FinishReduction(const hlo::Instruction& i, const Cut& cut, hlo::Instruction* local,
                         Leaves& leaves);
  Result<std::vector<hlo::Instruction*>> MaskReduced(const hlo::Instruction& i, const Cut& cut,
                                                     std::vector<hlo::Instruction*> operands);
  Status CombineByGather(const hlo::Instruction& i, const Cut& cut,
                         std::vector<hlo::Instruction*>& parts);

  // The value in a form that it may have to be brought into.
  Result<hlo::Instruction*> Get(LocalValue& value, const Form& form);
  Result<hlo::Instruction*> GetPlaced(LocalValue& value, const Form& wanted);
  Result<hlo::Instruction*> Build(const Shape& shape, std::span<LocalValue> leaves,
                                  std::span<const Form> forms, size_t& at);
  Result<hlo::Instruction*> BuildAll(const hlo::Instruction* whole, std::span<const Form> forms);
  Status BroadcastAgain(const hlo::Instruction& i, const Form& form);
  // Leaves of `local`, which lie as `forms` say, become what `i` makes.
  Status Bind(const hlo::Instruction& i, hlo::Instruction* local, std::span<const Form> forms) {
    return Bind(i, local, forms, NewLeaves(i));
  }
  Status Bind(const hlo::Instruction& i, hlo::Instruction* local, std::span<const Form> forms,
              Leaves leaves);
  Leaves NewLeaves(const hlo::Instruction& i) const;
  hlo::Instruction* Clone(const hlo::Instruction& i, Shape shape,
                          std::span<hlo::Instruction* const> operands);

  Partitioner& program_;
  const DeviceMesh& mesh_;
  const hlo::Computation& from_;
  Emitter emitter_;
  bool entry_;
  hlo::CloneMap map_;
  std::unordered_map<const hlo::Instruction*, Leaves> values_;  // looked up only
  std::unordered_set<const hlo::Instruction*> hidden_sizes_;    // likewise
};

// The shape of a value whose leaves lie as `forms` say, on one device.
Shape LocalShapeOf(const Shape& shape, std::span<const Form> forms, size_t& at,
                   const DeviceMesh& mesh);

// An error for what means nothing in the program of one of several devices.
Status CheckHasParts(const hlo::Instruction& i, bool manual);

}  // namespace weft::compiler::spmd
