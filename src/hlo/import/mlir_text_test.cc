#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "hlo/import/readers.h"

namespace weft::hlo::mlir {
namespace {

// The tree of `body` in a function of (%a: tensor<4x8xf32>, %i: tensor<i32>), as PrintTree has it,
// without the function around it.
std::string Body(std::string_view body) {
  auto tree =
      ReadText(StrCat("module {\n  func.func @main(%a: tensor<4x8xf32>, %i: tensor<i32>) {\n", body,
                      "\n    return\n  }\n}\n"));
  if (!tree) return tree.error().ToString("text");
  std::string printed = PrintTree(**tree);
  size_t begin = printed.find("):\n") + 3;
  size_t end = printed.rfind("    \"return\"()");
  return printed.substr(begin, end - begin);
}

std::string ErrorOf(std::string text) {
  auto tree = ReadText(std::move(text));
  return tree ? "none" : tree.error().ToString("f.mlir");
}

std::string AttrText(std::string_view text) {
  Tree tree;
  auto attr = ReadAttr(text, tree);
  if (!attr) return attr.error().message();
  std::string out;
  AppendAttr(out, **attr);
  return out;
}

TEST(MlirTextTest, Attributes) {
  EXPECT_EQ(AttrText("{index = 3 : ui64, names = [\"a\", \"b\\22\\n\"], on, f = 1.5 : f32}"),
            "{f = 1.5 : f32, index = 3 : ui64, names = [\"a\", \"b\\22\\0A\"], on}");
  EXPECT_EQ(AttrText("-5"), "-5 : i64");
  EXPECT_EQ(AttrText("18446744073709551615 : ui64"), "18446744073709551615 : ui64");
  EXPECT_EQ(AttrText("0x7F800000 : f32"), "0x7F800000 : f32");
  EXPECT_EQ(AttrText("array<i64: 1, -2>"), "array<i64: 1, -2>");
  EXPECT_EQ(AttrText("array<i1: true, false>"), "array<i1: true, false>");
  EXPECT_EQ(AttrText("array<f32: 1.5, 0xFF800000>"), "array<f32: 1.5, 0xFF800000>");
  EXPECT_EQ(AttrText("tensor<?x4xbf16>"), "tensor<?x4xbf16>");
  EXPECT_EQ(AttrText("@a::@b"), "@a::@b");
  EXPECT_EQ(AttrText("[true, unit]"), "[true, unit]");
  EXPECT_EQ(AttrText("1 2"), "expected the end of the attribute, found '2'");
  EXPECT_EQ(AttrText("18446744073709551616"),
            "integer does not fit in 64 bits: 18446744073709551616");
  EXPECT_EQ(AttrText("{a = 1, a = 2}"), "a dictionary with two entries named a");
}

TEST(MlirTextTest, Constants) {
  EXPECT_EQ(AttrText("dense<[[1, 2], [3, -4]]> : tensor<2x2xi8>"),
            "dense<[[1, 2], [3, -4]]> : tensor<2x2xi8>");
  EXPECT_EQ(AttrText("dense<[7, 7]> : tensor<2xi64>"), "dense<7> : tensor<2xi64>");
  EXPECT_EQ(AttrText("dense<> : tensor<0x3xf32>"), "dense<> : tensor<0x3xf32>");
  EXPECT_EQ(AttrText("dense<(1.5,-2.0)> : tensor<4xcomplex<f32>>"),
            "dense<(1.5, -2.0)> : tensor<4xcomplex<f32>>");
  EXPECT_EQ(AttrText("dense<[0x7FC0, 1.0]> : tensor<2xbf16>"),
            "dense<[0x7FC0, 1.0]> : tensor<2xbf16>");
  EXPECT_EQ(AttrText("dense<[true, false]> : tensor<2xi1>"), "dense<[true, false]> : tensor<2xi1>");
  EXPECT_EQ(AttrText("dense<\"0x0000803F00000040\"> : tensor<2xf32>"),
            "dense<[1.0, 2.0]> : tensor<2xf32>");
  EXPECT_EQ(AttrText("dense<\"0x05\"> : tensor<3xi1>"),
            "dense<[true, false, true]> : tensor<3xi1>");
  EXPECT_EQ(AttrText("dense<\"0x010F\"> : tensor<2xi4>"), "dense<[1, -1]> : tensor<2xi4>");
  EXPECT_EQ(AttrText("dense<[1, 2, 3]> : tensor<2xi32>"),
            "the elements of a constant do not fit its type: 2 of s32 expected");
  EXPECT_EQ(AttrText("dense<300> : tensor<i8>"), "expected one s8");
  EXPECT_EQ(AttrText("dense<[1]> : tensor<99999999999999x99999999999xi8>"),
            "a constant whose size is not known");
}

TEST(MlirTextTest, ShortForms) {
  EXPECT_EQ(
      Body("%0 = stablehlo.slice %a [0:1, 2:8:3] : (tensor<4x8xf32>) -> tensor<1x2xf32>"),
      "    %2 = \"slice\"(%0) {limit_indices = dense<[1, 8]> : tensor<2xi64>, start_indices = "
      "dense<[0, 2]> : tensor<2xi64>, strides = dense<[1, 3]> : tensor<2xi64>} : "
      "(tensor<4x8xf32>) -> (tensor<1x2xf32>)\n");
  EXPECT_EQ(
      Body("%0 = stablehlo.compare LT, %i, %i, SIGNED : (tensor<i32>, tensor<i32>) -> "
           "tensor<i1>"),
      "    %2 = \"compare\"(%1, %1) {compare_type = #stablehlo<SIGNED>, comparison_direction = "
      "#stablehlo<LT>} : (tensor<i32>, tensor<i32>) -> (tensor<i1>)\n");
  EXPECT_EQ(
      Body("%0 = stablehlo.exponential %a {x.y = 1 : i32} : tensor<4x8xf32>"),
      "    %2 = \"exponential\"(%0) {x.y = 1 : i32, result_accuracy = #result_accuracy<{atol = "
      "0.0 : f64, rtol = 0.0 : f64, ulps = 0 : i64, mode = #stablehlo<DEFAULT>}>} : "
      "(tensor<4x8xf32>) -> (tensor<4x8xf32>)\n");
  EXPECT_EQ(
      Body("%0 = stablehlo.reduce_precision %a, format = e5m10 : tensor<4x8xf32>"),
      "    %2 = \"reduce_precision\"(%0) {exponent_bits = 5 : i32, mantissa_bits = 10 : i32} : "
      "(tensor<4x8xf32>) -> (tensor<4x8xf32>)\n");
}

TEST(MlirTextTest, GenericFormSaysTheSame) {
  std::string pretty = Body(
      "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x8xf32>) -> "
      "tensor<8x4xf32>\n %1 = stablehlo.add %0, %0 : tensor<8x4xf32>");
  EXPECT_EQ(pretty, Body("%0 = \"stablehlo.transpose\"(%a) <{permutation = array<i64: 1, 0>}> : "
                         "(tensor<4x8xf32>) -> tensor<8x4xf32>\n %1 = \"stablehlo.add\"(%0, %0) : "
                         "(tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>"));
}

TEST(MlirTextTest, Regions) {
  EXPECT_EQ(Body("%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
                 "%0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] "
                 ": (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>"),
            Body("%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
                 "%0 = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<4x8xf32>, "
                 "tensor<f32>) -> tensor<4xf32>\n reducer(%x: tensor<f32>, %y: tensor<f32>) {\n"
                 "  %s = stablehlo.add %x, %y : tensor<f32>\n"
                 "  stablehlo.return %s : tensor<f32>\n}"));
  EXPECT_EQ(Body("%0:2 = stablehlo.while(%x = %i, %y = %a) : tensor<i32>, tensor<4x8xf32>\n"
                 "cond {\n  %c = stablehlo.compare LT, %x, %x : (tensor<i32>, tensor<i32>) -> "
                 "tensor<i1>\n  stablehlo.return %c : tensor<i1>\n} do {\n"
                 "  stablehlo.return %x, %y : tensor<i32>, tensor<4x8xf32>\n}\n"
                 "%1 = stablehlo.negate %0#1 : tensor<4x8xf32>")
                .substr(0, 36),
            "    %2, %3 = \"while\"(%1, %0) ({\n    ");
}

TEST(MlirTextTest, Shardings) {
  auto tree = ReadText(
      "sdy.mesh @mesh = <[\"x\"=2, \"y\"=4], device_ids=[1, 0]>\n"
      "func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\", ?}p1], "
      "replicated={\"y\":(1)2}>}) { return }");
  ASSERT_TRUE(tree) << tree.error().ToString("text");
  const Block& block = (*tree)->module->regions[0].blocks[0];
  const Attr* mesh = block.operations[0]->Find("mesh");
  EXPECT_EQ(mesh->Find("axes")->elements[1]->Find("size")->integer, 4);
  EXPECT_EQ(mesh->Find("device_ids")->ints, (std::vector<int64_t>{1, 0}));
  const Attr* sharding = block.operations[1]->Find("arg_attrs")->elements[0]->Find("sdy.sharding");
  EXPECT_EQ(sharding->text, "sharding");
  EXPECT_EQ(sharding->Find("mesh_or_ref")->text, "mesh");
  const Attr* dim = sharding->Find("dim_shardings")->elements[0];
  EXPECT_FALSE(dim->Find("is_closed")->boolean);
  EXPECT_EQ(dim->Find("priority")->integer, 1);
  const Attr* axis = sharding->Find("replicated_axes")->elements[0];
  EXPECT_EQ(axis->Find("sub_axis_info")->Find("size")->integer, 2);
}

TEST(MlirTextTest, Locations) {
  auto tree = ReadText(
      "func.func @main(%a: tensor<f32> loc(\"x\")) -> tensor<f32> {\n"
      "  %0 = stablehlo.sine %a : tensor<f32> loc(#loc4)\n"
      "  return %0 : tensor<f32> loc(#loc)\n} loc(#loc)\n"
      "#loc = loc(unknown)\n"
      "#loc1 = loc(\"f\"(\"a.py\":3:4 to :9))\n"
      "#loc2 = loc(\"main\"(\"b.py\":7:0 to 8:1))\n"
      "#loc3 = loc(callsite(#loc1 at #loc2))\n"
      "#loc4 = loc(\"jit(main)/sin\"(#loc3))\n");
  ASSERT_TRUE(tree) << tree.error().ToString("text");
  const Operation& func = *(*tree)->module->regions[0].blocks[0].operations[0];
  EXPECT_EQ(func.location, nullptr);
  const Location& location = *func.regions[0].blocks[0].operations[0]->location;
  EXPECT_EQ(location.name, "jit(main)/sin");
  EXPECT_EQ(location.frame->function, "f");
  EXPECT_EQ(location.frame->file, "a.py");
  EXPECT_EQ(location.frame->end_column, 9);
  EXPECT_EQ(location.frame->caller->function, "main");
  EXPECT_EQ(location.frame->caller->end_line, 8);
  EXPECT_EQ(func.regions[0].blocks[0].operations[0]->line, 2);
}

TEST(MlirTextTest, Errors) {
  EXPECT_EQ(ErrorOf("module {\n  func.func @main(%a: tensor<f32>) {\n    %0 = stablehlo.abs %b : "
                    "tensor<f32>\n  }\n}"),
            "f.mlir:3:24: error: stablehlo.abs: %b is not defined here\n"
            "      %0 = stablehlo.abs %b : tensor<f32>\n"
            "                         ^");
  EXPECT_NE(ErrorOf("func.func @f(%a: tensor<f32>) { %0 = stablehlo.abs %a : tensor<f64> }")
                .find("another type"),
            std::string::npos);
  EXPECT_NE(ErrorOf("#a = [#b]\n#b = [#a]\nmodule attributes {x = #a} {}").find("contains itself"),
            std::string::npos);
  EXPECT_NE(ErrorOf("\"foo.op\"(").find("found the end"), std::string::npos);
  std::string deep = "module attributes {x = ";
  for (int i = 0; i < 100000; ++i) deep += '[';
  EXPECT_NE(ErrorOf(deep).find("levels deep"), std::string::npos);
  std::string laughs = "#a0 = [1]\n";
  for (int i = 1; i < 60; ++i) StrAppend(laughs, "#a", i, " = [#a", i - 1, ", #a", i - 1, "]\n");
  EXPECT_NE(ErrorOf(laughs + "module attributes {x = #a59} {}").find("too much"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::hlo::mlir
