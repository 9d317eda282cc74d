// HLO in memory. A Module owns Computations, a Computation owns Instructions.
//
// Semantics in brief. A computation is a pure dataflow graph over immutable tensor values, except
// for ops with trait kSideEffect, which are ordered by data, tokens and control dependencies.
// Integers wrap; floats follow IEEE with round-to-nearest-even after every op (bf16 and smaller
// round after every op too). Integer division by zero gives -1 (unsigned: all ones), the remainder
// then is the dividend; INT_MIN / -1 is INT_MIN, remainder 0. Shifts by the width or more give 0
// (arithmetic right: the sign). Out-of-range start indices of dynamic-slice, dynamic-update-slice
// and gather are clamped; out-of-range scatter updates are dropped. min/max return NaN when either
// side is NaN. Reduction order is free.
//
// Invariants: a computation's instruction list is in topological order (operands and control
// predecessors first); when Module::is_scheduled it is the schedule. Operands live in the same
// computation. users() lists each user once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/inline_vec.h"
#include "base/shape.h"
#include "base/value_ptr.h"
#include "hlo/attrs.h"
#include "hlo/fwd.h"
#include "hlo/metadata.h"
#include "hlo/op.h"
#include "hlo/sharding.h"

namespace weft::hlo {

// Facts that few instructions carry; all of them survive cloning (clone.h).
struct InstructionExtras {
  ValuePtr<Sharding> sharding;
  FrontendAttributes frontend_attributes;
  BackendConfig backend_config;
  ValuePtr<Statistics> statistics;
  std::vector<bool> parameter_replication;
  ValuePtr<OriginNode> origin;
  std::vector<Instruction*> control_predecessors, control_successors;
};

class Instruction {
 public:
  Op op() const { return op_; }
  const OpDef& def() const { return GetOp(op_); }
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  int64_t id() const { return id_; }  // unique in the module, stable
  const Shape& shape() const { return shape_; }
  Shape& mutable_shape() { return shape_; }
  Computation* parent() const { return parent_; }
  bool IsRoot() const;

  std::span<Instruction* const> operands() const { return operands_; }
  Instruction* operand(int64_t i) const { return operands_[static_cast<size_t>(i)]; }
  int64_t operand_count() const { return static_cast<int64_t>(operands_.size()); }
  const std::vector<Instruction*>& users() const { return users_; }
  void ReplaceOperand(int64_t i, Instruction* with);
  void AppendOperand(Instruction* operand);

  const Attrs& attrs() const { return attrs_; }
  Attrs& mutable_attrs() { return attrs_; }
  template <class T>
  const T& attrs() const {
    return attrs_.As<T>();
  }
  template <class T>
  T& mutable_attrs() {
    return attrs_.Mutable<T>();
  }
  const Literal& literal() const { return attrs<ConstantAttrs>().literal; }    // constant
  int64_t parameter_number() const { return attrs<ParameterAttrs>().number; }  // parameter
  int64_t tuple_index() const { return attrs<GetTupleElementAttrs>().index; }  // get-tuple-element
  bool IsConstant() const { return op_ == Op::kConstant; }
  bool IsParameter() const { return op_ == Op::kParameter; }

  // Computations that this instruction's attributes name, in attribute order; null fields are left
  // out.
  InlineVec<Computation*, 4> called_computations() const;
  // Replaces every mention of `from` in the attributes.
  void ReplaceCalledComputation(Computation* from, Computation* to);

  const Metadata* metadata() const { return metadata_.get(); }
  Metadata& mutable_metadata() { return metadata_.Make(); }
  const InstructionExtras* extras() const { return extras_.get(); }
  InstructionExtras& mutable_extras() {
    if (!extras_) extras_ = std::make_unique<InstructionExtras>();
    return *extras_;
  }
  const Sharding* sharding() const {
    return extras_ && extras_->sharding ? extras_->sharding.get() : nullptr;
  }
  // The value of a frontend attribute, null when there is none.
  const std::string* FrontendAttributeValue(std::string_view key) const;

  std::span<Instruction* const> control_predecessors() const {
    return extras_ ? std::span<Instruction* const>(extras_->control_predecessors)
                   : std::span<Instruction* const>();
  }
  std::span<Instruction* const> control_successors() const {
    return extras_ ? std::span<Instruction* const>(extras_->control_successors)
                   : std::span<Instruction* const>();
  }
  void AddControlPredecessor(Instruction* before);  // no-op when there already
  void DropControlDependencies();

  // All users read `with` instead; if this is the root, `with` becomes it. This instruction stays,
  // unused.
  void ReplaceAllUsesWith(Instruction* with);

  // "add.3 = f32[4] add(a, b)": for messages.
  std::string ToString() const;
  // "file.py:12 (function)" from metadata or stack frames; empty when unknown.
  std::string SourceLocation() const;

  Instruction* next() const { return next_; }
  Instruction* prev() const { return prev_; }

 private:
  friend class Computation;
  Instruction() = default;
  bool Reads(const Instruction* value) const;
  void AddUser(Instruction* user);
  void RemoveUser(Instruction* user);

  Op op_ = Op::kAdd;
  int64_t id_ = 0;
  std::string name_;
  Shape shape_;
  InlineVec<Instruction*, 2> operands_;
  std::vector<Instruction*> users_;
  Attrs attrs_;
  ValuePtr<Metadata> metadata_;
  std::unique_ptr<InstructionExtras> extras_;
  Computation* parent_ = nullptr;
  Instruction* next_ = nullptr;
  Instruction* prev_ = nullptr;
};

}  // namespace weft::hlo
