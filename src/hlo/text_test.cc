#include "hlo/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace weft::hlo {
namespace {

std::unique_ptr<Module> ParseText(std::string_view text) {
  auto module = ParseModule(text);
  EXPECT_TRUE(module.has_value()) << module.error().ToString("test");
  return module ? std::move(*module) : nullptr;
}

// Parses; checks that printing is a fixed point in several forms; gives the full print.
std::string TextRoundTrip(std::string_view text) {
  std::unique_ptr<Module> module = ParseText(text);
  if (module == nullptr) return "";
  PrintOptions plain;
  plain.async_sugar = plain.percent = false;
  plain.operand_shapes = true;
  for (const PrintOptions& options : {PrintOptions::Full(), plain, PrintOptions::Canonical()}) {
    std::string once = PrintModule(*module, options);
    std::unique_ptr<Module> again = ParseText(once);
    if (again == nullptr) return "";
    EXPECT_EQ(once, PrintModule(*again, options));
  }
  return PrintModule(*module);
}

// The instruction of that name in the entry.
const Instruction& FindInEntry(const Module& module, std::string_view name) {
  for (const Instruction* i : *module.entry()) {
    if (i->name() == name) return *i;
  }
  ADD_FAILURE() << "no instruction " << name;
  return *module.entry()->root();
}

// The root of a module whose entry ends with this line; x and y are f32[4] parameters, i is s32[].
std::unique_ptr<Module> TextWithRoot(std::string_view line, std::string_view before = "") {
  std::string text = StrCat("HloModule m\n", before,
                            "\nENTRY e {\n  x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n"
                            "  i = s32[] parameter(2)\n  ROOT r = ",
                            line, "\n}\n");
  TextRoundTrip(text);
  return ParseText(text);
}

constexpr std::string_view kTextAdd =
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }";

std::string TextErrorOf(std::string_view text) {
  auto module = ParseModule(text);
  return module ? "no error" : module.error().ToString("f");
}
std::string TextRootError(std::string_view line) {
  return TextErrorOf(StrCat("ENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = ", line, "\n}"));
}
#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST(Text, Module) {
  auto m = ParseText(R"(
// a comment
HloModule jit_f.3, is_scheduled=true, replica_count=2, num_partitions=4, input_output_alias={ {}: (0, {}, must-alias) },
  buffer_donor={ (1, {}) }, entry_computation_layout={(f32[2]{0}, f32[2]{0})->f32[2]{0}},
  frontend_attributes={k="v",d={"a":{}}}, allow_spmd_sharding_propagation_to_output={true,false}
%f (p: f32[2]) -> f32[2] { ROOT %p = f32[2]{0} parameter(0) /* inside */ }, execution_thread="host"
ENTRY %main {
  %a = f32[2]{0} parameter(0)
  %b = f32[2]{0} parameter(1), metadata={op_name="jit(f)/x" source_file="a.py" source_line=3}
  ROOT %c = f32[2]{0} call(%b), to_apply=%f, control-predecessors={%a}
})");
  EXPECT_EQ(m->name(), "jit_f.3");
  const ModuleConfig& c = m->config();
  EXPECT_TRUE(c.is_scheduled);
  EXPECT_EQ(c.replica_count, 2);
  EXPECT_EQ(c.num_partitions, 4);
  ASSERT_EQ(c.input_output_alias.size(), 1u);
  EXPECT_EQ(c.input_output_alias[0].kind, AliasKind::kMust);
  ASSERT_EQ(c.buffer_donors.size(), 1u);
  EXPECT_EQ(c.buffer_donors[0].parameter, 1);
  ASSERT_TRUE(c.entry_layout.has_value());
  EXPECT_EQ(c.entry_layout->parameters.size(), 2u);
  EXPECT_EQ(c.propagate_sharding_to_output, (std::vector<bool>{true, false}));
  EXPECT_EQ(c.frontend_attributes[1], (FrontendAttribute{"d", "{\"a\":{}}", true}));
  ASSERT_EQ(m->computations().size(), 2u);
  EXPECT_EQ(m->computations()[0]->execution_thread(), "host");
  EXPECT_EQ(m->entry()->name(), "main");
  const Instruction* root = m->entry()->root();
  EXPECT_EQ(root->attrs<CallAttrs>().to_apply, m->computations()[0].get());
  ASSERT_EQ(root->control_predecessors().size(), 1u);
  EXPECT_EQ(root->control_predecessors()[0]->name(), "a");
  EXPECT_EQ(root->operand(0)->metadata()->op_name, "jit(f)/x");
  EXPECT_EQ(root->operand(0)->metadata()->source_line, 3);
  TextRoundTrip(PrintModule(*m));
}

TEST(Text, Print) {
  std::string text = R"(HloModule m

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

ENTRY %e (x: f32[4,8]) -> f32[4] {
  %x = f32[4,8]{1,0:T(8,128)S(5)} parameter(0), sharding={devices=[2,1]<=[2]}
  %z = f32[] constant(-0)
  ROOT %r = f32[4]{0} reduce(%x, %z), dimensions={1}, to_apply=%add, metadata={op_name="sum"}
}
)";
  EXPECT_EQ(TextRoundTrip(text), text);
  auto m = ParseText(text);
  EXPECT_EQ(m->entry()->root()->ToString(),
            "r = f32[4] reduce(x, z), dimensions={1}, to_apply=add");
  EXPECT_HAS(PrintModule(*m, PrintOptions::Canonical()), "ROOT %i2 = f32[4]{0} reduce(%i0, %i1)");
}

TEST(Text, HeaderlessAndSingle) {
  auto m = ParseText("ENTRY e { ROOT x = f32[] parameter(0) }");
  EXPECT_EQ(m->name(), "module_e");
  m = ParseText("a { ROOT x = f32[] parameter(0) } b { ROOT x = f32[2] parameter(0) }");
  EXPECT_EQ(m->entry()->name(), "b");
  m = ParseText("f32[10] add(f32[10] x, f32[10])");
  EXPECT_TRUE(m->config().is_scheduled);
  EXPECT_EQ(m->entry()->parameters().size(), 2u);
  EXPECT_EQ(m->entry()->root()->op(), Op::kAdd);
  m = ParseText(
      "r = f32[] reduce(f32[8] x, f32[] z), dimensions={0}, to_apply={ a = f32[] parameter(0) "
      "b = f32[] parameter(1) ROOT s = f32[] add(a, b) }");
  EXPECT_EQ(m->entry()->root()->attrs<ReduceAttrs>().to_apply->name(), "r.to_apply");
  TextRoundTrip(PrintModule(*m));
}

TEST(Text, Operands) {
  auto m = ParseText(R"(ENTRY e {
  t = (f32[4], (f32[], s32[2])) parameter(0)
  add.anon = f32[] constant(1)
  u = s32[2] copy(t#1#1)
  v = (s32[2], s32[2]) tuple(t#1#1, u)
  ROOT r = f32[] add(f32[] multiply(t#1#0, add.anon), f32[] add(f32[] %add.anon, add.anon))
})");
  const Instruction* root = m->entry()->root();
  EXPECT_EQ(root->operand(0)->op(), Op::kMultiply);
  EXPECT_EQ(root->operand(1)->name(), "add.anon.2");
  const Instruction& u = FindInEntry(*m, "u");
  EXPECT_EQ(u.operand(0)->name(), "t_1_1");
  EXPECT_EQ(u.operand(0), FindInEntry(*m, "v").operand(0));
  EXPECT_EQ(u.operand(0)->operand(0), root->operand(0)->operand(0)->operand(0));
  TextRoundTrip(PrintModule(*m));
  EXPECT_EQ(ParseText("ENTRY e { token = token[] after-all() ROOT r = token[] after-all(token) }")
                ->entry()
                ->root()
                ->operand(0)
                ->name(),
            "token");
}

TEST(Text, Window) {
  auto m = ParseText(StrCat(kTextAdd, R"( ENTRY e { x = f32[4,4] parameter(0) z = f32[] constant(0)
    ROOT r = f32[2,4] reduce-window(x, z), window={pad=-1_2x0_0 size=3x1 stride=2x1 rhs_reversal=1x0}, to_apply=add })"));
  const Window& w = m->entry()->root()->attrs<ReduceWindowAttrs>().window;
  ASSERT_EQ(w.dims.size(), 2u);
  EXPECT_EQ(w.dims[0],
            (WindowDim{.size = 3, .stride = 2, .pad_low = -1, .pad_high = 2, .reversal = true}));
  EXPECT_EQ(w.dims[1], WindowDim{});
  EXPECT_HAS(TextRoundTrip(PrintModule(*m)),
             "window={size=3x1 stride=2x1 pad=-1_2x0_0 rhs_reversal=1x0}");
}

TEST(Text, ConvolutionLabels) {
  auto m = ParseText(R"(ENTRY e { x = f32[1,8,8,3] parameter(0) k = f32[3,3,3,16] parameter(1)
    ROOT r = f32[1,8,8,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f,
      operand_precision={HIGHEST,default}, feature_group_count=1 })");
  const auto& a = m->entry()->root()->attrs<ConvolutionAttrs>();
  EXPECT_EQ(a.dim_labels.input_feature, 3);
  EXPECT_EQ(a.dim_labels.kernel_spatial, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(a.operand_precision[0], Precision::kHighest);
  EXPECT_HAS(TextRoundTrip(PrintModule(*m)),
             "dim_labels=b01f_01io->b01f, operand_precision={highest,default}");
}

TEST(Text, OtherValues) {
  auto attrs = [](std::string_view line, std::string_view before = "") {
    auto m = TextWithRoot(line, before);
    return m->entry()->root()->attrs();
  };
  EXPECT_EQ(attrs("f32[9] pad(x, i), padding=1_-1_2").As<PadAttrs>().padding,
            (Padding{{1, -1, 2}}));
  EXPECT_EQ(attrs("f32[2] slice(x), slice={[0:4:2]}").As<SliceAttrs>().slice,
            (SliceDims{{0, 4, 2}}));
  EXPECT_EQ(attrs("pred[4] compare(x, y), direction=LT, type=TOTALORDER").As<CompareAttrs>().type,
            ComparisonType::kTotalOrder);
  EXPECT_EQ(attrs("f32[4] sine(x), result_accuracy={mode=HIGHEST}")
                .As<UnaryMathAttrs>()
                .result_accuracy.mode,
            ResultAccuracy::Mode::kHighest);
  EXPECT_EQ(attrs("f32[4] tan(x), result_accuracy={tolerance={atol=0.5,rtol=0,ulps=3}}")
                .As<UnaryMathAttrs>()
                .result_accuracy.ulps,
            3);
  EXPECT_EQ(attrs("f32[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}, channel_id=3")
                .As<CollectivePermuteAttrs>()
                .source_target_pairs,
            (IntPairs{{0, 1}, {1, 0}}));
  auto call =
      attrs(R"(f32[4] custom-call(x, y), custom_call_target="a\"b", literal=s32[2]{0} {1, 2},
      operand_layout_constraints={f32[4]{0}, f32[4]{0}}, output_to_operand_aliasing={{}: (1, {})},
      called_computations={add}, api_version=API_VERSION_TYPED_FFI, backend_config={"k": [1, {}]})",
            kTextAdd)
          .As<CustomCallAttrs>();
  EXPECT_EQ(call.custom_call_target, "a\"b");
  EXPECT_EQ(call.literal.GetInt(1), 2);
  EXPECT_EQ(call.output_to_operand_aliasing[0].operand, 1);
  EXPECT_EQ(call.called_computations.size(), 1u);
  EXPECT_EQ(call.operand_layout_constraints.size(), 2u);
  auto domain =
      attrs(R"(f32[4] domain(x), domain={kind="sharding", entry={maximal device=1}, exit={}})");
  EXPECT_EQ(domain.As<DomainAttrs>().entry.device, 1);
  EXPECT_EQ(domain.As<DomainAttrs>().exit.kind, Sharding::Kind::kTuple);
}

TEST(Text, CommonAttributes) {
  auto m = TextWithRoot(
      R"(f32[4] add(x, y), sharding={replicated}, frontend_attributes={a="1",b={x:{"}"}}},
      statistics={visualizing_index=1,stat-1=33,s=0.5}, origin={({"v" {0}}, {}, ({"w"}))},
      metadata={op_type="t" op_name="n" source_line=7 profile_type={1} scheduling_name="s"}, backend_config="text")");
  const Instruction* r = m->entry()->root();
  const InstructionExtras& x = *r->extras();
  EXPECT_EQ(x.frontend_attributes[1].value, "{x:{\"}\"}}");
  EXPECT_EQ(x.statistics->values[0].name, "stat-1");
  EXPECT_EQ(x.origin->elements[0].index, (ShapeIndex{0}));
  EXPECT_EQ(x.origin->elements[2].elements[0].instruction, "w");
  EXPECT_EQ(x.backend_config.text, "text");
  EXPECT_EQ(r->metadata()->profile_type, (std::vector<int64_t>{1}));
}

TEST(Text, Shapes) {
  for (std::string_view text :
       {"f32[]", "f32[2,<=5,?]", "bf16[2,3]{0,1}", "()", "(f32[], (s32[2]{0}, token[]))",
        "b(f32[4]{0})", "f32[]{:T(128)}", "opaque[]",
        "s4[8,128]{1,0:T(8,128)(2,1)L(64)#(u32)*(u8)E(4)S(5)SC(0:1,2)M(16)}",
        "f32[4,4]{1,0:D(D,C+~)}", "f32[2,3]{1,0:T(*,8)}"}) {
    auto shape = ParseShape(text);
    ASSERT_TRUE(shape.has_value()) << shape.error().message();
    EXPECT_EQ(shape->ToString(), text);
  }
  Shape s = *ParseShape("f32[2,<=5,?]");
  EXPECT_TRUE(s.is_dynamic(1) && s.is_unbounded(2) && !s.is_dynamic(0));
  EXPECT_EQ(ParseShape("f32[8]{0:T(128)}")->layout()->extras->tiles[0].dims[0], 128);
  for (std::string_view text :
       {"f32", "f33[2]", "f32[-1]", "f32[2]{1}", "f32[2]{0,1}", "f32[2,2]{0,0}", "f32[2] x",
        "(f32[2]", "token[3]", "f32[2]{0:E(4)T(8)}", "f32[2]{0:P(f32[1])}", "b(token[])"}) {
    EXPECT_FALSE(ParseShape(text).has_value()) << text;
  }
  std::string wide = "f32[1";
  for (int i = 0; i < 64; ++i) wide += ",1";
  EXPECT_FALSE(ParseShape(wide + "]").has_value());
}

std::string LiteralText(std::string_view shape, std::string_view text) {
  auto literal = ParseLiteral(*ParseShape(shape), text);
  return literal ? literal->ToString() : "error: " + literal.error().message();
}

TEST(Text, Literals) {
  EXPECT_EQ(LiteralText("f32[]", "1.5e1"), "15");
  EXPECT_EQ(LiteralText("f32[2]", "{ -inf, nan }"), "{-inf, nan}");
  EXPECT_EQ(LiteralText("f32[2]", "{nan(0x1), -nan}"), "{nan(0x1), -nan}");
  EXPECT_EQ(LiteralText("s32[2,2]", "{ { 1, /*c*/ 2 }, {3,4} }"), "{ { 1, 2 }, { 3, 4 } }");
  EXPECT_EQ(LiteralText("pred[3]", "{1, false, true}"), "{true, false, true}");
  EXPECT_EQ(LiteralText("c64[1]", "{(1, -2.5)}"), "{(1, -2.5)}");
  EXPECT_EQ(LiteralText("(s8[], f32[1])", "(1, {2})"), "(1, {2})");
  EXPECT_EQ(LiteralText("u64[]", "18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(LiteralText("s64[]", "-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(LiteralText("f32[3]", "7"), "{7, 0, 0}");
}

TEST(Text, LiteralErrors) {
  EXPECT_HAS(LiteralText("s8[]", "128"), "128 is out of range for s8");
  EXPECT_HAS(LiteralText("u4[]", "-1"), "out of range for u4");
  EXPECT_HAS(LiteralText("s32[]", "1.5"), "expected an integer for s32");
  EXPECT_HAS(LiteralText("f32[]", "1e39"), "out of range for f32");
  EXPECT_HAS(LiteralText("f16[]", "70000"), "out of range for f16");
  EXPECT_HAS(LiteralText("f64[]", "1e400"), "out of range for f64");
  EXPECT_HAS(LiteralText("s32[3]", "{1, 2}"),
             "expected 3 elements in dimension 0 of s32[3], found 2");
  EXPECT_HAS(LiteralText("s32[2]", "{1, 2, 3}"), "more elements");
  EXPECT_HAS(LiteralText("s32[2,2]", "{1, 2}"), "expected '{'");
  EXPECT_HAS(LiteralText("s32[1000000000]", "{1}"), "fewer elements");
  EXPECT_HAS(LiteralText("s32[1000000000000,1000000000000]", "{}"), "fewer elements");
  EXPECT_HAS(LiteralText("f32[1]", "{nan(0xffffffff)}"), "payload");
  EXPECT_HAS(LiteralText("token[]", "1"), "no literal has the shape");
  EXPECT_EQ(LiteralText("f32[]", "1e-60"), "0");
}

TEST(Text, ElidedConstants) {
  auto m = ParseText(
      "ENTRY e { a = f32[8] constant({...}) b = f32[8] constant({...}) ROOT c = f32[100000000] "
      "constant({...}) }");
  EXPECT_TRUE(FindInEntry(*m, "a").attrs<ConstantAttrs>().elided);
  EXPECT_FALSE(FindInEntry(*m, "a").literal() == FindInEntry(*m, "b").literal());
  EXPECT_FALSE(FindInEntry(*m, "c").literal().IsValid());
  EXPECT_HAS(TextRoundTrip(PrintModule(*m)), "constant({...})");
  EXPECT_FALSE(ParseText("ENTRY e { ROOT c = f32[100000000] constant(1) }")
                   ->entry()
                   ->root()
                   ->literal()
                   .IsValid());
  EXPECT_EQ(ParseText("ENTRY e { ROOT c = f32[1000] constant(1) }")
                ->entry()
                ->root()
                ->literal()
                .GetDouble(0),
            1);
}

TEST(Text, Shardings) {
  for (std::string_view text :
       {"{replicated}",
        "{maximal device=3}",
        "{manual}",
        "{unknown}",
        "{unreduced}",
        "{devices=[2,2]0,1,2,3}",
        "{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
        "{devices=[2,1,2]<=[4] last_tile_dims={manual, replicated}}",
        "{replicated shard_as 7}",
        "{}",
        "{{replicated}, {maximal device=1}}",
        "{replicated metadata={op_name=\"a\"}}",
        "{replicated metadata={{op_name=\"a\"}, {op_name=\"b\"}}}",
        "{mesh[\"x\"=2,\"y\"=4], [{\"x\"}, {\"y\":(1)2, ?}, {}]}",
        "{mesh[\"x\"=2], device_ids=(1,0), [{\"x\"}]}",
        "{mesh[\"x\"=2,\"y\"=4], device_ids=([4,2]T(1,0)), replicated}",
        "{mesh[\"x\"=2], [{}], replicated={\"x\"}, metadata={op_name=\"a\"}}",
        "{mesh[\"x\"=2], [{}], unreduced=max{\"x\"}}",
        "{mesh[\"x\"=2], manual}",
        "{mesh[\"x\"=2], unreduced}",
        "{mesh[\"x\"=2], unreduced=min{\"x\"}}",
        "{maximal_mesh[device_id=3]}"}) {
    auto sharding = ParseSharding(text);
    ASSERT_TRUE(sharding.has_value()) << text << sharding.error().message();
    EXPECT_EQ(sharding->ToString(), text);
  }
  Sharding s = *ParseSharding("{mesh['x'=2,'y'=4] [{'1'}]}");
  EXPECT_EQ(s.named->dims[0].axes[0].axis, 1);
  for (std::string_view text :
       {"{devices=[2,2]0,1,2}", "{devices=[4]<=[2]}", "{devices=[4]<=[2,2]}",
        "{devices=[4]<=[2,2]T(0,0)}", "{maximal}", "{replicated devices=[2]0,1}",
        "{mesh[\"x\"=2], [{\"z\"}]}", "{mesh[\"x\"=2], [{?, \"x\"}]}",
        "{mesh[\"x\"=8], [{\"x\":(3)4}]}", "{mesh[\"x\"=2], device_ids=(1), [{}]}", "{replicated",
        "{devices=[9999999999,9999999999]<=[4]}", "{mesh[\"x\"=0], [{}]}"}) {
    EXPECT_FALSE(ParseSharding(text).has_value()) << text;
  }
}

TEST(Text, ReplicaGroups) {
  using Groups = std::vector<std::vector<int64_t>>;
  auto expand = [](std::string_view text) {
    auto groups = ParseReplicaGroups(text);
    EXPECT_TRUE(groups.has_value()) << text;
    EXPECT_EQ(groups->ToString(), text);
    return *groups->Expand(8);
  };
  EXPECT_EQ(expand("{{0,1},{2,3}}"), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(expand("{}"), (Groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(expand("[2,4]<=[8]"), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(expand("[4,2]<=[2,4]T(1,0)"), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(expand("mesh[\"a\"=2,\"b\"=4]{\"a\"}"), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(expand("mesh[\"a\"=2,\"b\"=4]{\"b\":(2)2, \"a\"}"),
            (Groups{{0, 4, 1, 5}, {2, 6, 3, 7}}));
  EXPECT_EQ(expand("mesh[\"a\"=2], device_ids=(5,3){\"a\"}"), (Groups{{5, 3}}));
  for (std::string_view text :
       {"[2,4]<=[9]", "[2,2,2]<=[8]", "{0,1}", "mesh[\"a\"=2]{\"b\"}", "[2]<=[2]"}) {
    EXPECT_FALSE(ParseReplicaGroups(text).has_value()) << text;
  }
  EXPECT_FALSE(ParseReplicaGroups("[1,1099511627776]<=[1099511627776]")->Expand(8).has_value());
}

TEST(Text, StackFrames) {
  auto m = ParseText(R"(HloModule m
FileNames
1 "a.py"
FunctionNames
1 "f"
FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=9}
StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}
ENTRY e { ROOT x = f32[] parameter(0), metadata={stack_frame_id=2} })");
  EXPECT_EQ(m->stack_frames().frames[0].parent, 0);
  EXPECT_EQ(m->stack_frames().frames[1].parent, 1);
  EXPECT_EQ(m->entry()->root()->SourceLocation(), "a.py:3 (f)");
  TextRoundTrip(PrintModule(*m));
}

TEST(Text, AsyncSugar) {
  std::string text = R"(ENTRY e {
  x = f32[4] parameter(0)
  s = ((f32[4]), f32[4], u32[]) all-to-all-start(x), replica_groups={{0,1}}, async_execution_thread="t", metadata={op_name="n"}
  u = ((f32[4]), f32[4], u32[]) all-to-all-update(s)
  t = (((f32[4]), f32[4], u32[])) tuple(u)
  g = ((f32[4]), f32[4], u32[]) get-tuple-element(t), index=0
  ROOT d = f32[4] all-to-all-done(g)
})";
  auto m = ParseText(text);
  const AsyncAttrs& start = FindInEntry(*m, "s").attrs<AsyncAttrs>();
  EXPECT_EQ(start.async_execution_thread, "t");
  EXPECT_EQ(start.calls->root()->op(), Op::kAllToAll);
  EXPECT_EQ(start.calls->root()->attrs<AllToAllAttrs>().replica_groups.groups.size(), 1u);
  EXPECT_EQ(start.calls->root()->metadata()->op_name, "n");
  EXPECT_EQ(start.calls->execution_thread(), "t");
  EXPECT_EQ(m->entry()->root()->attrs<AsyncAttrs>().calls, start.calls);
  EXPECT_EQ(m->computations()[0].get(), start.calls);
  EXPECT_HAS(TextRoundTrip(text), "%d = f32[4] all-to-all-done(%g)\n");
  PrintOptions plain;
  plain.async_sugar = false;
  EXPECT_HAS(PrintModule(*m, plain),
             "async-start(%x), async_execution_thread=\"t\", calls=%s.wrapped");
}

TEST(Text, AsyncGeneric) {
  std::string text = R"(f { p = f32[4] parameter(0) n = f32[4] negate(p) ROOT r = f32[4] abs(n) }
ENTRY e {
  x = f32[4] parameter(0)
  s = ((f32[4]), f32[4]) async-start(x), calls=f
  ROOT d = f32[4] async-done(s)
})";
  EXPECT_HAS(TextRoundTrip(text), "async-start(%x), calls=%f");
  auto entry = [](std::string_view body) {
    return TextErrorOf(StrCat(
        "f { ROOT p = f32[4] parameter(0) }\nENTRY e { x = f32[4] parameter(0)\n", body, " }"));
  };
  EXPECT_HAS(entry("s = ((f32[4]), f32[4]) async-start(x)"), "attribute calls is missing");
  EXPECT_HAS(entry("s = f32[4] async-start(x), calls=f"), "((operands), result, ...)");
  EXPECT_HAS(entry("s = ((f32[4]), f32[4]) negate-start(x) d = f32[4] abs-done(s)"),
             "wraps negate");
  EXPECT_HAS(entry("s = ((f32[4]), f32[4]) async-start(x), calls=f c = f32[4] call(x), to_apply=f"),
             "called by an async op");
}

TEST(Text, Fingerprint) {
  auto a = ParseText("HloModule a\n" + std::string(kTextAdd) +
                     R"( ENTRY e { x = f32[2] parameter(0) z = f32[] constant(0)
    ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add, metadata={op_name="q"}, backend_config={"a":1,"b":{"d":2,"c":3}} })");
  auto b = ParseText(
      R"(unused { ROOT p = s8[] parameter(0) } plus { a = f32[] parameter(0) q = f32[] parameter(1) ROOT t = f32[] add(a, q) }
    ENTRY f { in = f32[2] parameter(0) zero = f32[] constant(0)
    ROOT out = f32[] reduce(in, zero), dimensions={0}, to_apply=plus, backend_config={ "b": {"c":3,"d":2}, "a": 1 } })");
  auto c = ParseText(kTextAdd.data() +
                     std::string(R"( ENTRY e { x = f32[2] parameter(0) z = f32[] constant(1)
    ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add, backend_config={"a":1,"b":{"d":2,"c":3}} })"));
  EXPECT_EQ(Fingerprint(*a), Fingerprint(*b));
  EXPECT_NE(Fingerprint(*a), Fingerprint(*c));
}

TEST(TextErrors, Position) {
  auto module = ParseModule(
      "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] add(x, q)\n}");
  ASSERT_FALSE(module.has_value());
  EXPECT_EQ(module.error().line(), 5);
  EXPECT_EQ(module.error().column(), 26);
  EXPECT_HAS(
      module.error().ToString("f.hlo"),
      "f.hlo:5:26: error: no instruction named q stands before this one\n    ROOT r = f32[4]");
  module = ParseModule("ENTRY e {\r  x = f32[4] parametre(0)\r}");  // line ends CR alone
  EXPECT_EQ(module.error().line(), 2);
  EXPECT_EQ(module.error().hint(), "did you mean parameter?");
}

TEST(TextErrors, Attributes) {
  EXPECT_HAS(TextRootError("f32[4] sort(x), dimension={0}"),
             "sort: unknown attribute dimension; allowed: dimensions, is_stable, to_apply, "
             "backend_config");
  EXPECT_HAS(TextRootError("f32[4] sort(x), dimension={0}"), "hint: did you mean dimensions?");
  EXPECT_HAS(TextRootError("f32[4] reverse(x)"), "reverse: attribute dimensions is missing");
  EXPECT_HAS(TextRootError("f32[4] reverse(x), dimensions={0}, dimensions={0}"),
             "attribute dimensions twice");
  EXPECT_HAS(TextRootError("f32[4] reverse(x), dimensions={0)"), "expected '}', found ')'");
  EXPECT_HAS(TextRootError("pred[4] compare(x, x), direction=LESS"),
             "expected one of EQ, NE, GE, GT, LE, LT, found 'LESS'");
  EXPECT_HAS(TextRootError("f32[4] add(x)"), "add: takes 2 operands, got 1");
  EXPECT_HAS(TextRootError("f32[4] call(x), to_apply=f"), "no computation named f");
  EXPECT_HAS(TextRootError("bitcast(x)"), "bitcast: the result shape has to be written");
  EXPECT_HAS(TextRootError("f32[4] abs(f32[5] x)"), "written as f32[5] but is f32[4]");
  EXPECT_HAS(TextRootError("f32[4] abs(x), metadata={op_nam=\"\"}"), "metadata: unknown op_nam");
  EXPECT_HAS(TextRootError("f32[4] abs(x), metadata={op_name=\"abc}"),
             "a string that does not end");
  EXPECT_HAS(TextRootError("f32[4] abs(x#0)"), "element 0 of f32[4]");
}

TEST(TextErrors, Structure) {
  EXPECT_HAS(TextErrorOf("ENTRY e { x = f32[] parameter(0) x = f32[] parameter(1) }"),
             "second instruction named x");
  EXPECT_HAS(TextErrorOf("ENTRY e { ROOT x = f32[] parameter(0) ROOT y = f32[] parameter(1) }"),
             "second ROOT");
  EXPECT_HAS(TextErrorOf("ENTRY e { x = f32[] parameter(0) } ENTRY f { x = f32[] parameter(0) }"),
             "second ENTRY");
  EXPECT_HAS(TextErrorOf("e { x = f32[] parameter(0) } e { x = f32[] parameter(0) }"),
             "second computation named e");
  EXPECT_HAS(TextErrorOf("ENTRY e { x = f32[] parameter(99999999999) }"),
             "no such parameter number");
  EXPECT_HAS(TextErrorOf("ENTRY e { x = f32[] parameter(1) }"), "has no parameter 0");
  EXPECT_HAS(TextErrorOf("ENTRY e { x = f32[] parameter(0) y = f32[] parameter(0) }"),
             "second parameter(0)");
  EXPECT_HAS(TextErrorOf("ENTRY e (x: f32[]) -> f32[2] { x = f32[] parameter(0) }"),
             "the signature of e says f32[2]");
  EXPECT_HAS(TextErrorOf("HloModule m, is_schedule=true ENTRY e { x = f32[] parameter(0) }"),
             "unknown module attribute is_schedule");
  EXPECT_HAS(
      TextErrorOf(
          "HloModule m, input_output_alias={ {0}: (0, {}) } ENTRY e { x = f32[] parameter(0) }"),
      "is not in the result shape");
  EXPECT_HAS(TextErrorOf(""), "expected an instruction, found the end of the text");
  EXPECT_HAS(TextErrorOf("HloModule m /* x"), "a comment that does not end");
}

TEST(TextErrors, Nesting) {
  auto repeat = [](std::string_view s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  constexpr int kDeep = 100000;
  EXPECT_FALSE(ParseShape(repeat("(", kDeep)).has_value());
  EXPECT_FALSE(ParseShape(repeat("b(", kDeep)).has_value());
  EXPECT_HAS(TextRootError("f32[4] " + repeat("abs(", kDeep)), "nested more than");
  EXPECT_HAS(TextRootError("f32[4] abs(x), origin={" + repeat("(", kDeep)), "nested more than");
  EXPECT_HAS(TextRootError(repeat("f32[4] call(), to_apply={ r = ", kDeep)), "nested more than");
  EXPECT_FALSE(ParseLiteral(Shape(DType::kF32, {1}), repeat("{", kDeep)).has_value());
  EXPECT_TRUE(ParseShape(repeat("(", 300) + repeat(")", 300)).has_value());
  EXPECT_FALSE(ParseSharding(repeat("{", kDeep)).has_value());
  std::string doubling = "ENTRY e { t0 = f32[] parameter(0) ";
  std::string chain = doubling;
  for (int i = 1; i < 1000; ++i) {
    StrAppend(doubling, "t", i, " = tuple(t", i - 1, ", t", i - 1, ") ");
    StrAppend(chain, "t", i, " = tuple(t", i - 1, ") ");
  }
  EXPECT_HAS(TextErrorOf(doubling + "}"), "grow too large");
  EXPECT_HAS(TextErrorOf(chain + "}"), "nest too deep");
}

}  // namespace
}  // namespace weft::hlo
