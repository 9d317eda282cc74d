// The evaluator core on modules built by hand: control flow, lifetimes, limits, errors.
#include "hlo/evaluate.h"

#include <gtest/gtest.h>

#include "hlo/evaluate/plan.h"

namespace weft::hlo {
namespace {

Shape F32(std::initializer_list<int64_t> dims) {
  return Shape(DType::kF32, dims);
}
Shape S32() {
  return Shape::Scalar(DType::kS32);
}

// Short spellings for instructions of one computation.
struct Body {
  Module& module;
  Computation* computation;

  Body(Module& m, std::string name) : module(m), computation(m.AddComputation(std::move(name))) {}
  Instruction* Add(Op op, Shape shape, std::vector<Instruction*> operands, Attrs attrs) {
    return computation->Add(op, module.UniqueName(Mnemonic(op)), std::move(shape), operands,
                            std::move(attrs));
  }
  Instruction* Add(Op op, Shape shape, std::vector<Instruction*> operands) {
    return Add(op, std::move(shape), std::move(operands), Attrs(GetOp(op).attrs));
  }
  Instruction* Parameter(int64_t number, Shape shape) {
    ParameterAttrs attrs;
    attrs.number = number;
    return Add(Op::kParameter, std::move(shape), {}, attrs);
  }
  Instruction* Constant(Literal literal) {
    ConstantAttrs attrs;
    Shape shape = literal.shape();
    attrs.literal = std::move(literal);
    return Add(Op::kConstant, std::move(shape), {}, attrs);
  }
  Instruction* Element(Instruction* tuple, int64_t index) {
    GetTupleElementAttrs attrs;
    attrs.index = index;
    return Add(Op::kGetTupleElement, tuple->shape().tuple_element(index), {tuple}, attrs);
  }
  void Root(Instruction* root) { computation->set_root(root); }
};

Literal Int(int32_t value) {
  return Literal::Scalar(DType::kS32, value);
}

// while (i < limit) i += 1, over (i, payload).
Instruction* AddCountingLoop(Module& module, Body& main, Instruction* init, int32_t limit) {
  Shape state = init->shape();
  Body condition(module, "condition");
  Instruction* p = condition.Parameter(0, state);
  CompareAttrs less;
  less.direction = Direction::kLt;
  condition.Root(condition.Add(Op::kCompare, Shape::Scalar(DType::kPred),
                               {condition.Element(p, 0), condition.Constant(Int(limit))}, less));
  Body body(module, "body");
  Instruction* q = body.Parameter(0, state);
  Instruction* next = body.Add(Op::kAdd, S32(), {body.Element(q, 0), body.Constant(Int(1))});
  body.Root(body.Add(Op::kTuple, state, {next, body.Element(q, 1)}));
  WhileAttrs attrs;
  attrs.condition = condition.computation;
  attrs.body = body.computation;
  return main.Add(Op::kWhile, state, {init}, attrs);
}

TEST(Evaluate, WhileCountsAndKeepsItsBytes) {
  Module module("m");
  Body main(module, "main");
  Instruction* p = main.Parameter(0, F32({1000}));
  Instruction* init =
      main.Add(Op::kTuple, Shape::Tuple({S32(), F32({1000})}), {main.Constant(Int(0)), p});
  main.Root(AddCountingLoop(module, main, init, 100'000));
  module.set_entry(main.computation);
  std::vector<Literal> arguments = {Literal(F32({1000}))};
  const std::byte* bytes = arguments[0].data();
  Result<Literal> result = Evaluate(module, arguments);
  ASSERT_TRUE(result.has_value()) << result.error().ToString();
  EXPECT_EQ(result->tuple()[0].GetInt(0), 100'000);
  EXPECT_EQ(result->tuple()[1].data(), bytes);  // handed on, never copied
}

TEST(Evaluate, LoopLimit) {
  Module module("m");
  Body main(module, "main");
  Instruction* init = main.Add(Op::kTuple, Shape::Tuple({S32(), S32()}),
                               {main.Constant(Int(0)), main.Constant(Int(0))});
  main.Root(AddCountingLoop(module, main, init, 1000));
  module.set_entry(main.computation);
  EvalOptions options;
  options.max_loop_steps = 999;
  Result<Literal> result = Evaluate(module, {}, options);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(result.error().message(), "while: more than 999 loop iterations");
  options.max_loop_steps = 1000;
  EXPECT_TRUE(Evaluate(module, {}, options).has_value());
}

TEST(Evaluate, CallDepthIsBounded) {
  Module module("m");
  Computation* callee = nullptr;
  // Not as many as the usual limit: a sanitizer makes each level take 10 KB of stack and more.
  for (int i = 0; i < 560; ++i) {
    Body level(module, StrCat("level", i));
    Instruction* p = level.Parameter(0, S32());
    if (callee != nullptr) {
      CallAttrs attrs;
      attrs.to_apply = callee;
      p = level.Add(Op::kCall, S32(), {p}, attrs);
    }
    level.Root(p);
    callee = level.computation;
  }
  module.set_entry(callee);
  std::vector<Literal> arguments = {Int(7)};
  EvalOptions options;
  options.max_call_depth = 500;
  Result<Literal> result = Evaluate(module, arguments, options);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), Code::kResourceExhausted);
  options.max_call_depth = 600;
  result = Evaluate(module, arguments, options);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->GetInt(0), 7);
}

TEST(Evaluate, ResultTooLarge) {
  Module module("m");
  Body main(module, "main");
  Instruction* p = main.Parameter(0, F32({}));
  main.Root(main.Add(Op::kBroadcast, F32({1 << 20, 1 << 20}), {p}));
  module.set_entry(main.computation);
  std::vector<Literal> arguments = {Literal(F32({}))};
  Result<Literal> result = Evaluate(module, arguments);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), Code::kResourceExhausted);
  EXPECT_TRUE(result.error().message().starts_with("broadcast: the result f32[1048576,1048576]"));
}

TEST(Evaluate, ArgumentsAreChecked) {
  Module module("m");
  Body main(module, "main");
  main.Root(main.Parameter(0, F32({2})));
  module.set_entry(main.computation);
  EXPECT_FALSE(Evaluate(module, {}).has_value());
  std::vector<Literal> wrong = {Literal(F32({3}))};
  Result<Literal> result = Evaluate(module, wrong);
  ASSERT_FALSE(result.has_value());
  EXPECT_TRUE(result.error().message().starts_with("argument 0 has shape f32[3]"));
}

TEST(Evaluate, DeadCodeIsNotEvaluated) {
  Module module("m");
  Body main(module, "main");
  Instruction* p = main.Parameter(0, S32());
  CustomCallAttrs attrs;
  attrs.custom_call_target = "nobody knows";
  main.Add(Op::kCustomCall, S32(), {p}, attrs);
  main.Root(p);
  module.set_entry(main.computation);
  std::vector<Literal> arguments = {Int(3)};
  EXPECT_TRUE(Evaluate(module, arguments).has_value());
}

TEST(Evaluate, CustomCallsOfTheCaller) {
  Module module("m");
  Body main(module, "main");
  CustomCallAttrs attrs;
  attrs.custom_call_target = "twice";
  Instruction* call = main.Add(Op::kCustomCall, S32(), {main.Parameter(0, S32())}, attrs);
  call->mutable_metadata().source_file = "model.py";
  call->mutable_metadata().source_line = 12;
  main.Root(call);
  module.set_entry(main.computation);
  std::vector<Literal> arguments = {Int(21)};
  Result<Literal> result = Evaluate(module, arguments);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), Code::kUnimplemented);
  EXPECT_NE(result.error().ToString().find("target twice is not known"), std::string::npos);
  EXPECT_NE(result.error().ToString().find("at model.py:12"), std::string::npos);
  EvalOptions options;
  options.custom_call = [](const Instruction&, std::span<Literal> operands) -> Result<Literal> {
    return Int(static_cast<int32_t>(2 * operands[0].GetInt(0)));
  };
  result = Evaluate(module, arguments, options);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->GetInt(0), 42);
}

TEST(Evaluate, ConditionalTakesTheLastBranchOutOfRange) {
  Module module("m");
  ConditionalAttrs attrs;
  for (int b = 0; b < 3; ++b) {
    Body branch(module, StrCat("branch", b));
    branch.Parameter(0, S32());
    branch.Root(branch.Constant(Int(10 * b)));
    attrs.branch_computations.push_back(branch.computation);
  }
  Body main(module, "main");
  Instruction* index = main.Parameter(0, S32());
  main.Root(main.Add(Op::kConditional, S32(), {index, index, index, index}, attrs));
  module.set_entry(main.computation);
  for (auto [selector, expected] : {std::pair{0, 0}, {1, 10}, {2, 20}, {3, 20}, {-1, 20}}) {
    std::vector<Literal> arguments = {Int(selector)};
    Result<Literal> result = Evaluate(module, arguments);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->GetInt(0), expected) << selector;
  }
}

TEST(Plan, TakesElementsAtTheirLastUse) {
  Module module("m");
  Body main(module, "main");
  Instruction* p = main.Parameter(0, Shape::Tuple({S32(), S32()}));
  Instruction* a = main.Element(p, 0);
  Instruction* b = main.Element(p, 1);
  Instruction* again = main.Element(p, 0);
  main.Root(main.Add(Op::kTuple, Shape::Tuple({S32(), S32(), S32()}), {a, b, again}));
  module.set_entry(main.computation);
  EffectsCache effects;
  EvalPlan plan = MakeEvalPlan(*main.computation, 1 << 20, effects);
  ASSERT_TRUE(plan.status.has_value());
  ASSERT_EQ(plan.steps.size(), 4u);
  EXPECT_FALSE(plan.steps[0].take_element);  // read again below
  EXPECT_TRUE(plan.steps[1].take_element);
  EXPECT_TRUE(plan.steps[2].take_element);
  EXPECT_TRUE(plan.uses[2].last);
}

TEST(Plan, SizesDoNotOverflow) {
  EXPECT_TRUE(FitsIn(F32({4}), 16));
  EXPECT_FALSE(FitsIn(F32({5}), 16));
  EXPECT_FALSE(FitsIn(F32({int64_t{1} << 40, int64_t{1} << 40}), INT64_MAX));
  EXPECT_FALSE(FitsIn(Shape::Tuple({F32({3}), F32({2})}), 16));
}

}  // namespace
}  // namespace weft::hlo
