// The writer of HLO text: print_*.cc.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hlo/module.h"
#include "hlo/text.h"

namespace weft::hlo::text {

class Printer {
 public:
  Printer(std::string& out, const PrintOptions& options) : out_(out), o_(options) {}

  // print_module.cc
  void PrintModule(const Module& module);
  void PrintComputation(const Computation& computation);
  // print_instruction.cc
  void PrintInstruction(const Instruction& instruction);

 private:
  // print_module.cc
  void Header(const Module& module);
  void Tables(const StackFrames& tables);
  void Signature(const Computation& computation);
  void FindSugar(const Module& module);
  void Number(const Module& module);
  std::vector<const Computation*> Order(const Module& module);

  // print_instruction.cc
  void Name(const Instruction* instruction);
  void Name(const Computation* computation);
  void ShapeText(const Shape& shape) { shape.AppendTo(out_, o_.layouts); }
  void Operands(const Instruction& instruction);
  void Constant(const ConstantAttrs& attrs, const Shape& shape);
  void Fields(const Attrs& attrs, bool inherited);
  void Common(const Instruction& instruction);
  const Instruction* SugarOf(const Instruction& async);  // the op wrapped; null: print as it is

  // print_attr_values.cc
  void Value(const FieldRef& field);
  void WindowText(const Window& window);
  void ConvDimsText(const ConvDims& dims);
  void AliasesText(const OperandAliases& aliases);
  void AccuracyText(const ResultAccuracy& accuracy);
  void SparsityText(const SparsityConfig& config);
  void TypedLiteral(const Literal& literal);
  void FrontendText(const FrontendAttributes& attributes);
  void StatisticsText(const Statistics& statistics);
  void ConfigText(const BackendConfig& config);

  std::string& out_;
  const PrintOptions& o_;
  bool sugar_known_ = false;
  std::unordered_set<const Computation*> sugared_;  // printed inside their callers
  std::unordered_map<const Computation*, int64_t> computation_numbers_;  // canonical form
  std::unordered_map<const Instruction*, int64_t> numbers_;
};

// print_metadata.cc
void AppendMetadata(std::string& out, const Metadata& metadata);
void AppendOrigin(std::string& out, const OriginNode& origin);
// print_sharding.cc
void AppendSharding(std::string& out, const Sharding& sharding, bool metadata);

// async_form.cc: the rules that make X-start and async-start of a computation the same.
// The async op that made a value: looks through tuples and optimisation barriers; null: unknown.
const Instruction* FindAsyncProducer(const Instruction* instruction);
// Whether X-start, X-update and X-done stand for a wrapped X.
bool CanWrapAsync(Op op);
// Whether an async-start can be written as X-start without loss of what the options print.
bool HasSugar(const Instruction& start, const PrintOptions& options);

// canonical_json.cc: the same text for dictionaries that differ in key order and spacing; other
// text comes back as it is.
std::string SortedJson(std::string_view text);

}  // namespace weft::hlo::text
