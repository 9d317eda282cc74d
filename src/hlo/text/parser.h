// The reader of modules: recursive descent. Its methods are spread over parse_*.cc by subject.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "hlo/module.h"
#include "hlo/text/name_table.h"
#include "hlo/text/value_reader.h"

namespace weft::hlo::text {

// Attributes that any instruction may have.
struct CommonAttrs {
  Metadata metadata;
  InstructionExtras extras;  // control successors unused
  bool has_metadata = false, has_extras = false;
  uint32_t seen = 0;         // of the above
  uint32_t seen_fields = 0;  // of the op's own fields, by position
};

// The names of one computation while it is read.
struct Scope {
  Computation* computation = nullptr;
  Scope* outer = nullptr;
  NameTable<Instruction> names;
  std::vector<std::pair<Instruction*, std::string>> unnamed;  // and the name they would like
  std::map<std::pair<Instruction*, int64_t>, Instruction*> tuple_elements;  // of `x#1`
};

class Parser : public ValueReader {
 public:
  using ValueReader::ValueReader;

  // parse_module.cc
  Result<std::unique_ptr<Module>> ReadModule();

 private:
  // parse_module.cc
  Status ReadHeader();
  Status ReadHeaderAttribute(std::string_view name);
  Status ReadInputOutputAlias();
  Status ReadBufferDonors();
  Status ReadEntryLayout();
  Status ReadBools(std::vector<bool>& bools);
  Status ReadFrameFields(std::initializer_list<std::pair<std::string_view, int32_t*>> wanted);
  Status ReadStackFrames();
  Status ReadComputations();
  Status ReadSingleInstruction();
  Status CheckAliases();
  Status CheckAsyncCallers();
  void NameComputations();

  // parse_computation.cc
  Status ReadComputation();
  Status ReadBody(Computation* computation);
  Status ReadInlineBody(std::string wish, Computation*& computation);
  Status FinishBody(Scope& scope, const char* at);
  Status ReadInstruction();
  Status ReadRightHandSide(std::string_view name, const char* at, bool attributes,
                           Instruction*& result);
  struct Pending;  // an instruction being read
  Status ReadParameterNumber(Pending& p);
  Status ReadConstantLiteral(Pending& p);
  Status CreateInstruction(Pending& p, Instruction*& result);
  Status InferMissingShape(Pending& p);
  bool TakeShapeNodes(int64_t nodes);
  Status ReadOpcode(Pending& p);
  Status ReadOperands(std::vector<Instruction*>& operands);
  Status ReadOperand(Instruction*& operand);
  Status ReadTupleAccess(Instruction*& operand, const char* at);

  // parse_check.cc
  Status CheckInstruction(const Pending& p);
  std::string WhatIsWrong(const Pending& p) const;

  // parse_async.cc
  Status ReadAsync(Pending& p);
  Status WrapAsync(Pending& p);
  Status InheritAsync(Pending& p);

  // parse_attributes.cc
  Status ReadAttributes(Op op, Attrs& attrs, Attrs* outer, CommonAttrs& common, const char* op_at,
                        bool allowed);
  Status ReadCommonAttribute(int which, CommonAttrs& common);
  Status ReadDomain(DomainAttrs& domain);
  Status ReadFrontendAttributes(FrontendAttributes& attributes);
  Status ReadStatistics(Statistics& statistics);
  Status ReadControlPredecessors(std::vector<Instruction*>& predecessors);
  void ApplyCommon(CommonAttrs&& common, Instruction* instruction);

  // parse_attr_values.cc
  Status ReadField(const FieldRef& field);
  Status ReadComputationRef(std::string_view attribute, Computation*& computation);

  std::unique_ptr<Module> module_;
  Scope* scope_ = nullptr;
  bool single_ = false;       // one instruction: unknown operands become parameters
  std::string_view current_;  // name of the instruction being read
  int64_t single_parameters_ = 0;
  int64_t inferred_nodes_ = 0;  // of shapes that were not written
  NameTable<Computation> computations_;
  std::vector<std::pair<Computation*, std::string>> unnamed_computations_;
  std::unordered_set<const Computation*> async_computations_;
};

}  // namespace weft::hlo::text
