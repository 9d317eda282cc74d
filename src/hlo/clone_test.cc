#include "hlo/clone.h"

#include <gtest/gtest.h>

#include <vector>

#include "hlo/builder.h"
#include "hlo/call_graph.h"
#include "hlo/match.h"

namespace weft::hlo {
namespace {

const Shape kVector(DType::kF32, {4});

// main(x) = sum(exp(-x)), with every kind of fact on the negation.
std::unique_ptr<Module> MakeModule() {
  auto module = std::make_unique<Module>("m");
  Computation* main = module->AddComputation(module->UniqueName("main"));
  module->set_entry(main);
  Computation* sum = *AddScalarBinary(*module, Op::kAdd, DType::kF32);
  Builder b(*main);
  Instruction* x = *b.Parameter(0, kVector, "x");
  Instruction* neg = *b.Add(Op::kNegate, {x});
  Instruction* exp = *b.Add(Op::kExponential, {neg});
  Instruction* zero = b.ScalarConstant(DType::kF32, 0);
  main->set_root(*b.Reduce(exp, zero, {0}, sum));
  neg->mutable_metadata().op_name = "neg";
  neg->mutable_metadata().stack_frame_id = 1;
  InstructionExtras& extras = neg->mutable_extras();
  extras.sharding = ValuePtr<Sharding>(Sharding());
  extras.frontend_attributes = {{"k", "v"}};
  extras.backend_config = {"config"};
  extras.statistics = ValuePtr<Statistics>(Statistics{1, {{"s", 2}}});
  extras.origin = ValuePtr<OriginNode>(OriginNode{OriginNode::Kind::kArray, "o", {}, {}});
  zero->AddControlPredecessor(neg);
  module->stack_frames().files = {"f.py"};
  module->stack_frames().functions = {"f"};
  module->stack_frames().locations = {{1, 1, 12, 12, 0, 0}};
  module->stack_frames().frames = {{1, 0}};
  module->config().num_partitions = 2;
  return module;
}

void ExpectFacts(const Instruction& i, bool same_op) {
  ASSERT_NE(i.extras(), nullptr);
  EXPECT_EQ(i.metadata()->op_name, "neg");
  EXPECT_NE(i.sharding(), nullptr);
  EXPECT_EQ(*i.FrontendAttributeValue("k"), "v");
  EXPECT_EQ(i.extras()->backend_config.text, same_op ? "config" : "");
  EXPECT_EQ(i.extras()->statistics->values.size(), 1u);
  EXPECT_EQ(i.extras()->origin->instruction, "o");
}

TEST(CloneTest, ModuleKeepsEverything) {
  auto module = MakeModule();
  auto copy = CloneModule(*module);
  ASSERT_EQ(copy->computations().size(), 2u);
  EXPECT_EQ(copy->config().num_partitions, 2);
  EXPECT_EQ(copy->id_limit(), module->id_limit());
  for (size_t c = 0; c < 2; ++c) {
    const Computation &a = *module->computations()[c], &b = *copy->computations()[c];
    EXPECT_EQ(a.name(), b.name());
    EXPECT_EQ(a.id(), b.id());
    const Instruction* y = b.first();
    for (const Instruction* x : a) {
      ASSERT_NE(y, nullptr);
      EXPECT_EQ(x->name(), y->name());
      EXPECT_EQ(x->id(), y->id());
      EXPECT_EQ(x->shape(), y->shape());
      EXPECT_EQ(y->parent(), &b);
      for (const Computation* called : y->called_computations()) {
        EXPECT_EQ(called->module(), copy.get());
      }
      EXPECT_EQ(x->control_predecessors().size(), y->control_predecessors().size());
      y = y->next();
    }
  }
  const Instruction* neg = copy->entry()->first()->next();
  ExpectFacts(*neg, true);
  EXPECT_EQ(neg->SourceLocation(), "f.py:12 (f)");
  EXPECT_EQ(neg->control_successors()[0]->parent(), copy->entry());
  EXPECT_NE(copy->UniqueName("negate"), "negate");
}

TEST(CloneTest, ComputationSharesOrMapsCallees) {
  auto module = MakeModule();
  Computation* main = module->entry();
  Computation* sum = module->computations()[0].get();
  CloneMap shared;
  Computation* copy = CloneComputation(*main, *module, shared, module->UniqueName("main"));
  EXPECT_EQ(copy->name(), "main.2");
  EXPECT_EQ(copy->root()->called_computations()[0], sum);
  EXPECT_NE(copy->root()->name(), main->root()->name());

  CloneMap map;
  CloneComputation(*sum, *module, map, module->UniqueName("add"), main);
  Computation* second = CloneComputation(*main, *module, map, module->UniqueName("main"));
  EXPECT_EQ(second->root()->called_computations()[0], map.Find(sum));
}

TEST(CloneTest, IntoAnotherModuleWritesPositionsOut) {
  auto module = MakeModule();
  Module other("other");
  CloneMap map;
  map.computations[module->computations()[0].get()] = nullptr;
  Computation* copy = CloneComputation(*module->entry(), other, map, "main");
  EXPECT_EQ(copy->first()->next()->metadata()->stack_frame_id, 0);
  EXPECT_EQ(copy->first()->next()->metadata()->source_file, "f.py");
  EXPECT_EQ(copy->first()->next()->metadata()->source_line, 12);
}

TEST(CloneTest, MapsOfComputationsThatOverlap) {
  auto module = MakeModule();
  Computation* a = module->computations()[0].get();
  Computation* b = *AddScalarBinary(*module, Op::kMultiply, DType::kF32);
  Computation* main = module->entry();
  Builder builder(*main);
  Instruction* p = *builder.Add(Op::kTuple, {});
  Instruction* loop = main->Add(Op::kWhile, "w", p->shape(), std::span(&p, 1),
                                WhileAttrs{.condition = a, .body = b});
  CloneMap map;
  map.computations[a] = b;
  map.computations[b] = a;
  Instruction* copy = CloneInstruction(*loop, *main, map);
  EXPECT_EQ(copy->attrs<WhileAttrs>().condition, b);
  EXPECT_EQ(copy->attrs<WhileAttrs>().body, a);
}

TEST(CloneTest, ReplacementsCarryFacts) {
  auto module = MakeModule();
  Instruction* neg = module->entry()->first()->next();
  Builder b(*module->entry(), neg);
  Instruction* abs = *b.Add(Op::kAbs, {neg->operand(0)});
  Instruction* user = neg->users()[0];
  ReplaceInstruction(neg, abs);
  ExpectFacts(*abs, false);
  EXPECT_EQ(user->operand(0), abs);
  ASSERT_EQ(abs->control_successors().size(), 1u);
  EXPECT_EQ(abs->control_successors()[0]->op(), Op::kConstant);
}

TEST(BuilderTest, InfersShapesAndReportsErrors) {
  auto module = MakeModule();
  Builder b(*module->entry());
  Instruction* x = module->entry()->parameter(0);
  Instruction* neg = *b.Add(Op::kNegate, {x});
  EXPECT_EQ(neg->name(), "negate.2");
  EXPECT_TRUE(Shape::Compatible(neg->shape(), kVector));
  EXPECT_EQ((*b.Fill(Shape(DType::kS32, {2, 3}), 7))->op(), Op::kBroadcast);
  EXPECT_EQ(*b.Convert(x, DType::kF32), x);
  EXPECT_EQ((*b.Convert(x, DType::kS8))->shape().dtype(), DType::kS8);
  EXPECT_FALSE(b.Add(Op::kAdd, {x}));
  EXPECT_FALSE(b.Add(Op::kAdd, {x, b.ScalarConstant(DType::kS32, 1)}));
  EXPECT_FALSE(b.Add(Op::kAdd, {x, x}, IotaAttrs{}));
  EXPECT_FALSE(b.Add(Op::kReshape, {x}));
  int64_t wrong[] = {3};
  EXPECT_FALSE(b.Reshape(x, wrong));
  EXPECT_FALSE(b.GetTupleElement(x, 0));
}

TEST(CallGraphTest, OrderContextsAndCycles) {
  auto module = MakeModule();
  Computation* main = module->entry();
  Computation* sum = module->computations()[0].get();
  CallGraph graph(*module);
  ASSERT_EQ(graph.PostOrder().size(), 2u);
  EXPECT_EQ(graph.PostOrder()[0], sum);
  EXPECT_EQ(graph.callers(sum).size(), 1u);
  EXPECT_EQ(graph.callees(main).size(), 1u);
  EXPECT_EQ(graph.context(main), CallContext::kControlFlow);
  EXPECT_EQ(graph.context(sum), CallContext::kEmbedded);
  EXPECT_FALSE(graph.HasCycle());

  Builder b(*sum);
  Instruction* operands[] = {sum->parameter(0), sum->parameter(1)};
  sum->Add(Op::kCall, "loop", Shape::Scalar(DType::kF32), operands, CallAttrs{.to_apply = sum});
  EXPECT_TRUE(CallGraph(*module).HasCycle());
}

TEST(CallGraphTest, DeepChains) {
  Module module("m");
  Computation* previous = nullptr;
  for (int k = 0; k < 100'000; ++k) {
    Computation* c = module.AddComputation(StrCat("c", k));
    if (previous == nullptr) {
      c->set_root(c->Add(Op::kTuple, "t", Shape::Tuple({}), {}, NoAttrs{}));
    } else {
      c->set_root(c->Add(Op::kCall, "t", Shape::Tuple({}), {}, CallAttrs{.to_apply = previous}));
    }
    previous = c;
  }
  module.set_entry(previous);
  CallGraph graph(module);
  EXPECT_EQ(graph.PostOrder().back(), previous);
  EXPECT_EQ(graph.context(module.computations()[0].get()), CallContext::kControlFlow);
}

TEST(MatchTest, Patterns) {
  auto module = MakeModule();
  Builder b(*module->entry());
  Instruction* x = module->entry()->parameter(0);
  Instruction* two = *b.Fill(kVector, 2);
  Instruction* product = *b.Add(Op::kMultiply, {two, x});
  Instruction* sum = *b.Add(Op::kAdd, {product, x});
  Instruction *y = nullptr, *c = nullptr, *inner = nullptr;
  EXPECT_TRUE(Match(product, m::Multiply(m::Parameter().To(&y), m::Scalar(2))));
  EXPECT_EQ(y, x);
  EXPECT_FALSE(Match(product, m::Multiply(m::Parameter(), m::Scalar(3))));
  EXPECT_TRUE(Match(product, m::Multiply(m::Broadcast(m::Constant(&c)), m::Op())));
  EXPECT_EQ(c, two->operand(0));
  EXPECT_TRUE(
      Match(sum, m::Add(m::Multiply(m::Broadcast(), m::Op(&y)).OneUser().To(&inner), m::Same(y))));
  EXPECT_EQ(inner, product);
  EXPECT_TRUE(Match(sum, m::WithTraits(kElementwise | kCommutative, m::Op(), m::Parameter())));
  EXPECT_FALSE(Match(two, m::WithTraits(kElementwise)));
  Instruction* difference = *b.Add(Op::kSubtract, {x, two});
  EXPECT_FALSE(Match(difference, m::Subtract(m::Broadcast(), m::Parameter())));
  EXPECT_TRUE(Match(difference, m::Is(Op::kSubtract, m::Parameter(), m::Broadcast())));
}

TEST(InstructionTest, ReplaceAllUsesOfAValueWithManyUsers) {
  Module module("m");
  Computation* main = module.AddComputation("main");
  module.set_entry(main);
  Builder b(*main);
  Instruction* x = *b.Parameter(0, kVector, "x");
  Instruction* y = *b.Parameter(1, kVector, "y");
  std::vector<Instruction*> users;
  for (int k = 0; k < 20'000; ++k) {
    users.push_back(
        main->Add(Op::kAdd, StrCat("u", k), kVector, std::vector{x, k % 2 ? x : y}, NoAttrs{}));
  }
  main->set_root(x);
  x->ReplaceAllUsesWith(y);
  EXPECT_TRUE(x->users().empty());
  EXPECT_EQ(y->users().size(), users.size());
  EXPECT_EQ(main->root(), y);
  for (Instruction* u : users) EXPECT_EQ(u->operand(1), y);
}

}  // namespace
}  // namespace weft::hlo
