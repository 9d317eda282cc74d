#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "hlo/evaluate.h"
#include "hlo/import/import.h"
#include "hlo/text.h"
#include "hlo/verify.h"

namespace weft::hlo {
namespace {

// Real payloads, where they are at hand.
std::vector<std::string> PayloadFiles() {
  std::vector<std::string> files;
  for (const char* folder : {"lowered", "compile_payloads"}) {
    std::error_code error;
    std::filesystem::path root = std::filesystem::path("../shared/pjrt/artifacts") / folder;
    for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
      std::string name = entry.path().filename().string();
      if (name.starts_with("b_") || name.starts_with("t_") || name.starts_with("prog_")) {
        files.push_back(entry.path().string());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(ToHlo, ImportsPayloads) {
  std::vector<std::string> files = PayloadFiles();
  if (files.empty()) GTEST_SKIP() << "../shared/pjrt is not here";
  EXPECT_EQ(files.size(), 300u);
  for (const std::string& file : files) {
    Result<std::string> contents = ReadFile(file);
    ASSERT_TRUE(contents.has_value());
    auto module = ImportStableHlo(std::move(*contents));
    EXPECT_TRUE(module.has_value()) << module.error().ToString(file);
    if (!module) continue;
    std::string text = PrintModule(**module);
    auto again = ParseModule(text);
    EXPECT_TRUE(again.has_value()) << again.error().ToString(file);
    if (!again) continue;
    EXPECT_EQ(text, PrintModule(**again)) << file;
    EXPECT_EQ(Fingerprint(**module), Fingerprint(**again)) << file;
  }
}

std::unique_ptr<Module> ImportText(std::string_view text) {
  auto module = ImportStableHlo(std::string(text));
  EXPECT_TRUE(module.has_value()) << module.error().ToString("test");
  return module ? std::move(*module) : nullptr;
}

std::string ImportError(std::string_view text) {
  auto module = ImportStableHlo(std::string(text));
  EXPECT_FALSE(module.has_value());
  return module ? "" : module.error().ToString("test");
}

Literal EvaluateText(std::string_view text, std::vector<Literal> arguments) {
  std::unique_ptr<Module> module = ImportText(text);
  if (module == nullptr) return {};
  Result<Literal> result = Evaluate(*module, arguments);
  EXPECT_TRUE(result.has_value()) << result.error().ToString();
  return result ? *result : Literal();
}

Literal Floats(std::vector<float> values) {
  Literal literal(Shape(DType::kF32, {static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), literal.values<float>().begin());
  return literal;
}

// The loop reads %y and %limit, which are not part of its state.
TEST(ToHlo, LoopStateHoldsCaptures) {
  Literal result =
      EvaluateText(R"(
    module @m {
      func.func public @main(%x: tensor<2xf32>, %y: tensor<2xf32>, %n: tensor<i32>) -> (tensor<2xf32>, tensor<i32>) {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %r:2 = stablehlo.while(%a = %x, %i = %zero) : tensor<2xf32>, tensor<i32>
        cond {
          %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %b = stablehlo.add %a, %y : tensor<2xf32>
          %j = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %b, %j : tensor<2xf32>, tensor<i32>
        }
        return %r#0, %r#1 : tensor<2xf32>, tensor<i32>
      }
    })",
                   {Floats({1, 2}), Floats({10, 20}), Literal::Scalar<int32_t>(DType::kS32, 3)});
  ASSERT_EQ(result.tuple().size(), 2u);
  EXPECT_EQ(result.tuple()[0], Floats({31, 62}));
  EXPECT_EQ(result.tuple()[1].GetInt(0), 3);
}

TEST(ToHlo, BranchesTakeCaptures) {
  constexpr std::string_view kText = R"(
    module @m {
      func.func public @main(%p: tensor<i1>, %x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
        %r = "stablehlo.if"(%p) ({
          %s = stablehlo.add %x, %y : tensor<2xf32>
          stablehlo.return %s : tensor<2xf32>
        }, {
          stablehlo.return %y : tensor<2xf32>
        }) : (tensor<i1>) -> tensor<2xf32>
        return %r : tensor<2xf32>
      }
    })";
  auto pred = [](bool value) { return Literal::Scalar<bool>(DType::kPred, value); };
  EXPECT_EQ(EvaluateText(kText, {pred(true), Floats({1, 2}), Floats({3, 5})}), Floats({4, 7}));
  EXPECT_EQ(EvaluateText(kText, {pred(false), Floats({1, 2}), Floats({3, 5})}), Floats({3, 5}));
}

// A reducer may use constants from outside.
TEST(ToHlo, RegionsCloneConstants) {
  Literal result = EvaluateText(R"(
    module @m {
      func.func public @main(%x: tensor<3xf32>) -> tensor<f32> {
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %two = stablehlo.constant dense<2.0> : tensor<f32>
        %r = "stablehlo.reduce"(%x, %zero) <{dimensions = array<i64: 0>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.multiply %b, %two : tensor<f32>
          %d = stablehlo.add %a, %c : tensor<f32>
          stablehlo.return %d : tensor<f32>
        }) : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
        return %r : tensor<f32>
      }
    })",
                                {Floats({1, 2, 3})});
  EXPECT_TRUE(result.IsValid());
}

TEST(ToHlo, EntryAttributes) {
  std::unique_ptr<Module> module = ImportText(R"(
    module @jit_f attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
      sdy.mesh @mesh = <["x"=2]>
      func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 1 : i32, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                             %b: tensor<4xf32> {jax.buffer_donor = true, mhlo.memory_kind = "pinned_host"})
          -> (tensor<4xf32> {jax.result_info = "result[0]"}, tensor<4xf32> {jax.result_info = "a,b"}) {
        return %b, %a : tensor<4xf32>, tensor<4xf32>
      }
    })");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->name(), "jit_f");
  EXPECT_EQ(module->config().num_partitions, 2);
  ASSERT_EQ(module->config().input_output_alias.size(), 1u);
  EXPECT_EQ(module->config().input_output_alias[0].output, ShapeIndex({1}));
  ASSERT_EQ(module->config().buffer_donors.size(), 1u);
  EXPECT_EQ(module->config().buffer_donors[0].parameter, 1);
  EXPECT_EQ(EntryList(*module, "parameter_memory_kinds"),
            (std::vector<std::string>{"", "pinned_host"}));
  EXPECT_EQ(EntryList(*module, "result_infos"), (std::vector<std::string>{"result[0]", "a,b"}));
  ASSERT_NE(module->entry()->parameter(0)->sharding(), nullptr);
  EXPECT_EQ(module->entry()->parameter(0)->sharding()->ToString(), "{mesh[\"x\"=2], [{\"x\"}]}");
  EXPECT_EQ(module->entry()->parameter(1)->sharding(), nullptr);
}

TEST(ToHlo, PropagationBarriersAndEdges) {
  std::unique_ptr<Module> module = ImportText(R"(
    module @jit_f attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
      sdy.mesh @mesh = <["x"=2]>
      func.func public @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
        %b = sdy.propagation_barrier %a allowed_direction=BACKWARD : tensor<4xf32>
        %c = sdy.data_flow_edge %a sharding=<@mesh, [{"x"}]> : tensor<4xf32>
        return %b, %c : tensor<4xf32>, tensor<4xf32>
      }
    })");
  ASSERT_NE(module, nullptr);
  const Instruction* root = module->entry()->root();
  const std::string* direction = root->operand(0)->FrontendAttributeValue("sharding.barrier");
  ASSERT_NE(direction, nullptr);
  EXPECT_EQ(*direction, "BACKWARD");
  ASSERT_NE(root->operand(1)->sharding(), nullptr);
  EXPECT_EQ(root->operand(1)->sharding()->ToString(), "{mesh[\"x\"=2], [{\"x\"}]}");
}

TEST(ToHlo, DynamicFormsWithConstants) {
  Literal result = EvaluateText(R"(
    module @m {
      func.func public @main(%x: tensor<4xf32>) -> tensor<2x2xf32> {
        %s = stablehlo.constant dense<[2, 2]> : tensor<2xi32>
        %r = stablehlo.dynamic_reshape %x, %s : (tensor<4xf32>, tensor<2xi32>) -> tensor<2x2xf32>
        %low = stablehlo.constant dense<0> : tensor<2xi32>
        %high = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
        %v = stablehlo.constant dense<9.0> : tensor<f32>
        %p = stablehlo.dynamic_pad %r, %v, %low, %high, %low : (tensor<2x2xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x3xf32>
        %start = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
        %limit = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
        %one = stablehlo.constant dense<1> : tensor<2xi32>
        %q = stablehlo.real_dynamic_slice %p, %start, %limit, %one : (tensor<2x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x2xf32>
        return %q : tensor<2x2xf32>
      }
    })",
                                {Floats({1, 2, 3, 4})});
  ASSERT_EQ(result.size(), 4);
  for (auto [i, want] : {std::pair(0, 2), {1, 9}, {2, 4}, {3, 9}}) {
    EXPECT_EQ(result.GetInt(i), want);
  }
}

TEST(ToHlo, Errors) {
  std::string error = ImportError(R"(
    module @m {
      func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %r = chlo.unheard_of %x : tensor<4xf32> -> tensor<4xf32>
        return %r : tensor<4xf32>
      }
    })");
  EXPECT_NE(error.find("chlo.unheard_of"), std::string::npos) << error;
  EXPECT_NE(error.find("f32[4]"), std::string::npos) << error;
  error = ImportError(R"(
    module @m {
      func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %r = func.call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
        return %r : tensor<4xf32>
      }
    })");
  EXPECT_NE(error.find("calls itself"), std::string::npos) << error;
  error = ImportError(R"(
    module @m {
      func.func public @main(%x: tensor<4xf32>) -> tensor<5xf32> {
        %r = stablehlo.negate %x : (tensor<4xf32>) -> tensor<5xf32>
        return %r : tensor<5xf32>
      }
    })");
  EXPECT_NE(error.find("negate"), std::string::npos) << error;
}

// On one device the body stands in place; on several it is called between annotations.
TEST(ToHlo, ManualComputations) {
  auto text = [](int size) {
    return StrCat(R"(
      module @m {
        sdy.mesh @mesh = <["x"=)",
                  size, R"(]>
        func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
          %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%b: tensor<)",
                  4 / size, R"(xf32>) {
            %c = stablehlo.negate %b : tensor<)",
                  4 / size, R"(xf32>
            sdy.return %c : tensor<)",
                  4 / size, R"(xf32>
          } : (tensor<4xf32>) -> tensor<4xf32>
          return %r : tensor<4xf32>
        }
      })");
  };
  std::unique_ptr<Module> one = ImportText(text(1));
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->entry()->root()->op(), Op::kNegate);
  std::unique_ptr<Module> two = ImportText(text(2));
  ASSERT_NE(two, nullptr);
  const Instruction* out = two->entry()->root();
  ASSERT_EQ(out->op(), Op::kCustomCall);
  EXPECT_EQ(out->attrs<CustomCallAttrs>().custom_call_target, "SPMDShardToFullShape");
  ASSERT_NE(out->sharding(), nullptr);
  const Instruction* call = out->operand(0);
  ASSERT_EQ(call->op(), Op::kCall);
  ASSERT_NE(call->FrontendAttributeValue("manual.axes"), nullptr);
  EXPECT_EQ(*call->FrontendAttributeValue("manual.axes"), "x");
  ASSERT_NE(call->FrontendAttributeValue("manual.in"), nullptr);
  EXPECT_TRUE(ParseSharding(*call->FrontendAttributeValue("manual.in")).has_value());
}

// JAX's lax.ragged_all_to_all.
TEST(ToHlo, RaggedAllToAllIsACollective) {
  std::unique_ptr<Module> module = ImportText(R"(
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<4xf32>, %o: tensor<4xf32>, %i: tensor<2xi32>) -> tensor<4xf32> {
    %r = stablehlo.custom_call @ragged_all_to_all(%x, %o, %i, %i, %i, %i) {
        api_version = 4 : i32,
        backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}
        : (tensor<4xf32>, tensor<4xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
})");
  ASSERT_NE(module, nullptr);
  const Instruction* root = module->entry()->root();
  ASSERT_EQ(root->op(), Op::kRaggedAllToAll);
  EXPECT_EQ(root->attrs<RaggedAllToAllAttrs>().channel_id, 1);
  EXPECT_EQ(root->attrs<RaggedAllToAllAttrs>().replica_groups.groups, (std::vector<Ints>{{0, 1}}));
}

// f0 calls f1 calls f2 ...: an answer, whatever the length of the chain.
TEST(ToHlo, DeepCallChainsAreAnswered) {
  for (int length : {50, 5000}) {
    std::string text = "module @m {\n";
    for (int i = 0; i <= length; ++i) {
      std::string name = i == 0 ? "main" : StrCat("f", i);
      StrAppend(text, "func.func ", i == 0 ? "public" : "private", " @", name,
                "(%x: tensor<f32>) -> tensor<f32> {\n");
      if (i < length) {
        StrAppend(text, "%r = call @f", i + 1, "(%x) : (tensor<f32>) -> tensor<f32>\n");
      } else {
        StrAppend(text, "%r = stablehlo.negate %x : tensor<f32>\n");
      }
      StrAppend(text, "return %r : tensor<f32>\n}\n");
    }
    auto module = ImportStableHlo(text + "}\n");
    EXPECT_EQ(module.has_value(), length == 50);
  }
}

}  // namespace
}  // namespace weft::hlo
