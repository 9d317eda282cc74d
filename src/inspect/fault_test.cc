// Faults planted in a pass, in lowering and in native code are found where they are. The device is
// the interpreter, so that nothing depends on a code generator.
#include "inspect/fault.h"

#include <gtest/gtest.h>

#include <cstring>

#include "hlo/random_arguments.h"
#include "hlo/text.h"
#include "program/interpret.h"
#include "runtime/host_device.h"

namespace weft::inspect {
namespace {

enum class Plant { kNothing, kCode, kLowering };

class InterpretedProgram : public runtime::LoadedProgram {
 public:
  InterpretedProgram(program::Program program, Plant plant)
      : program_(std::move(program)), plant_(plant) {}
  const program::Program& program() const override { return program_; }
  const runtime::LoadStats& stats() const override { return stats_; }
  int64_t temp_bytes() const override { return 0; }

  Status Run(const runtime::Call& call) const override {
    std::vector<std::vector<std::byte>> own(program_.buffers.size());
    std::vector<std::byte*> address(program_.buffers.size(), nullptr);
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const program::Buffer& buffer = program_.buffers[i];
      if (buffer.kind == program::BufferKind::kParameter) {
        address[i] = call.parameters[buffer.index];
      } else if (buffer.kind == program::BufferKind::kResult) {
        address[i] = call.results[buffer.index];
      } else if (buffer.base < 0) {
        own[i].resize(static_cast<size_t>(*program::ByteSize(buffer)));
        address[i] = own[i].data();
        if (buffer.value.IsValid()) std::memcpy(address[i], buffer.value.data(), own[i].size());
      }
    }
    for (const program::Step& step : program_.steps) {
      std::vector<std::span<std::byte>> memory;
      for (const program::Use& use : step.uses) {
        program::Slice slice = Resolve(program_, use.slice);
        memory.emplace_back(address[slice.buffer] + slice.offset, static_cast<size_t>(slice.size));
      }
      if (call.before_step) TRY((*call.before_step)(step, memory));
      TRY(RunStep(step, memory));
      if (call.after_step) TRY((*call.after_step)(step, 0, memory));
    }
    return {};
  }

 private:
  Status RunStep(const program::Step& step, std::span<const std::span<std::byte>> memory) const {
    if (std::holds_alternative<program::CopyStep>(step.op)) {
      std::memcpy(memory[1].data(), memory[0].data(), memory[0].size());
      return {};
    }
    const auto* launch = std::get_if<program::KernelStep>(&step.op);
    if (launch == nullptr) return Unimplemented("only kernels");
    program::detail::Budget budget{1 << 24, 1 << 24};
    TRY(RunKernel(program_.kernels[launch->kernel], memory, budget, false));
    if (plant_ == Plant::kCode) memory.back()[1] ^= std::byte{0x40};
    return {};
  }

  const program::Program program_;
  const Plant plant_;
  runtime::LoadStats stats_;
};

class InterpretedDevice : public runtime::HostDevice {
 public:
  explicit InterpretedDevice(Plant plant) : plant_(plant) {}
  const program::TargetInfo& target() const override { return target_; }
  Result<std::unique_ptr<runtime::LoadedProgram>> Load(program::Program program,
                                                       const runtime::LoadOptions&) override {
    if (plant_ == Plant::kLowering) {
      for (program::Kernel& kernel : program.kernels) {
        for (program::Instr& instr : kernel.code) {
          if (instr.op == program::Op::kAdd && IsFloat(instr.type.dtype)) {
            instr.op = program::Op::kSub;
          }
        }
      }
    }
    return std::make_unique<InterpretedProgram>(std::move(program), plant_);
  }

 private:
  program::TargetInfo target_;
  Plant plant_;
};

// Multiplications become additions.
Result<bool> BreakMultiply(hlo::Module& module, const compiler::PassContext&) {
  hlo::Computation& entry = *module.entry();
  for (hlo::Instruction* i : entry.Snapshot()) {
    if (i->op() != hlo::Op::kMultiply) continue;
    hlo::Instruction* operands[] = {i->operand(0), i->operand(1)};
    hlo::Instruction* sum =
        entry.Add(hlo::Op::kAdd, i->name(), i->shape(), operands, hlo::Attrs(), i);
    sum->mutable_metadata() = *i->metadata();
    i->set_name("old");
    i->ReplaceAllUsesWith(sum);
    return true;
  }
  return false;
}

constexpr const char* kModule = R"(
HloModule planted
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  s = f32[8] add(x, y), metadata={source_file="model.py" source_line=3}
  p = f32[8] multiply(s, x), metadata={source_file="model.py" source_line=4}
  ROOT r = f32[8] negate(p)
})";

Result<Fault> FaultOf(Plant plant, std::vector<const compiler::Pass*> passes) {
  std::unique_ptr<hlo::Module> module = TRY(hlo::ParseModule(kModule));
  std::vector<Literal> arguments = TRY(hlo::RandomArguments(*module->entry(), 1));
  InterpretedDevice device(plant);
  compiler::CompileOptions options;
  return FindFault({.module = *module,
                    .options = options,
                    .device = device,
                    .arguments = arguments,
                    .passes = std::move(passes)});
}

TEST(Fault, NothingWrong) {
  auto fault = FaultOf(Plant::kNothing, {});
  ASSERT_TRUE(fault) << fault.error().ToString();
  EXPECT_EQ(fault->kind, FaultKind::kNone);
  EXPECT_EQ(fault->ToString(), "");
}

TEST(Fault, Pass) {
  const compiler::Pass broken{"break-multiply", BreakMultiply};
  std::vector<const compiler::Pass*> passes = *compiler::NativePipeline();
  passes.insert(passes.begin() + 3, &broken);
  auto fault = FaultOf(Plant::kNothing, passes);
  ASSERT_TRUE(fault) << fault.error().ToString();
  EXPECT_EQ(fault->kind, FaultKind::kPass);
  EXPECT_EQ(fault->pass, "break-multiply");
  EXPECT_TRUE(fault->op.starts_with("p = ")) << fault->op;
  EXPECT_EQ(fault->source, "model.py:4");
  EXPECT_TRUE(fault->what.contains("ULP apart")) << fault->what;
}

TEST(Fault, Lowering) {
  auto fault = FaultOf(Plant::kLowering, {});
  ASSERT_TRUE(fault) << fault.error().ToString();
  EXPECT_EQ(fault->kind, FaultKind::kLowering);
  EXPECT_FALSE(fault->op.empty());
  EXPECT_TRUE(fault->source.starts_with("model.py:")) << fault->ToString();
}

TEST(Fault, Code) {
  auto fault = FaultOf(Plant::kCode, {});
  ASSERT_TRUE(fault) << fault.error().ToString();
  EXPECT_EQ(fault->kind, FaultKind::kCode);
  EXPECT_TRUE(fault->what.contains("native code is wrong: element 0")) << fault->what;
}

}  // namespace
}  // namespace weft::inspect
