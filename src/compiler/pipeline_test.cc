#include "compiler/pipeline.h"

#include <gtest/gtest.h>

#include "hlo/builder.h"
#include "hlo/computation.h"
#include "hlo/text.h"

namespace weft::compiler {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Op;

// Adds to the entry a negation of an instruction of another computation, which then goes: what
// cloning without a mapped operand leaves.
Result<bool> ReadWhatIsGone(hlo::Module& module, const PassContext&) {
  Computation* other = module.AddComputation("other", module.entry());
  Instruction* far = TRY(hlo::Builder(*other).Parameter(0, Shape::Scalar(DType::kF32)));
  other->set_root(far);
  Instruction* operands[] = {far};
  module.entry()->set_root(
      module.entry()->Add(Op::kNegate, "far_negation", far->shape(), operands, hlo::NoAttrs{}));
  module.RemoveUnusedComputations();
  return true;
}

// The root before what it reads.
Result<bool> ReadWhatIsLater(hlo::Module& module, const PassContext&) {
  module.entry()->MoveBefore(module.entry()->root(), module.entry()->first());
  return true;
}

Result<bool> RootElsewhere(hlo::Module& module, const PassContext&) {
  Computation* other = module.AddComputation("other", module.entry());
  Instruction* far = TRY(hlo::Builder(*other).Parameter(0, Shape::Scalar(DType::kF32)));
  other->set_root(far);
  module.entry()->set_root(far);
  return true;
}

Error ErrorOf(const Pass& pass) {
  auto module = hlo::ParseModule(
      "HloModule m\nENTRY main {\n  p = f32[] parameter(0)\n  ROOT r = f32[] negate(p)\n}\n");
  EXPECT_TRUE(module);
  const Pass* passes[] = {&pass};
  auto runs = RunPasses(**module, passes, {});
  EXPECT_FALSE(runs) << pass.name;
  return runs ? Error(Code::kOk, "") : runs.error();
}

TEST(Pipeline, AnInvalidModuleIsAnInternalErrorThatNamesThePass) {
  struct Case {
    Pass pass;
    std::string_view what;
  };
  const Case cases[] = {
      {{"read-what-is-gone", ReadWhatIsGone}, "far_negation: operand is not in main"},
      {{"read-what-is-later", ReadWhatIsLater}, "r: operand p does not come before it"},
      {{"root-elsewhere", RootElsewhere}, "computation main has no root"},
  };
  for (const Case& c : cases) {
    Error error = ErrorOf(c.pass);
    EXPECT_EQ(error.code(), Code::kInternal);
    EXPECT_EQ(error.message(), StrCat("pass ", c.pass.name, " left an invalid module: ", c.what));
    EXPECT_EQ(error.hint(), StrCat("pipeline.disable=", c.pass.name, " leaves the pass out"));
  }
}

}  // namespace
}  // namespace weft::compiler
