// weft program: what a module is lowered to.
#include <cstdio>

#include "commands.h"
#include "compiler/lower/compile.h"
#include "cpu/device.h"
#include "gpu/render_program.h"
#include "input.h"
#include "program/program.h"
#include "target.h"

namespace weft::tools {
namespace {

void Write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

// LLVM IR, as the device of this machine makes it.
Status WriteLlvm(program::Program program) {
  std::unique_ptr<runtime::Device> device = TRY(cpu::CreateDevice());
  runtime::LoadOptions load;
  load.compile_threads = 1;
  load.show = [](std::string_view name, std::string_view text) {
    if (!name.ends_with(".ll")) return;
    Write(StrCat("; ", name, "\n"));
    Write(text);
  };
  TRY(device->Load(std::move(program), load));
  return {};
}

Status CheckEmit(std::string_view emit, std::string_view target) {
  bool on_cpu = target == "cpu";
  bool known = emit == "program" || emit == "llvm" || emit == "cuda";
  if (!known) return InvalidArgument("unknown form: ", emit, "; known are program, llvm, cuda");
  if (emit == "llvm" && !on_cpu) return InvalidArgument("--emit=llvm is for --target=cpu");
  if (emit == "cuda" && target != "h200")
    return InvalidArgument("--emit=cuda is for --target=h200");
  return {};
}

Result<int> RunProgram(Args args) {
  std::string target = args.Value("--target").value_or("cpu");
  std::string emit = args.Value("--emit").value_or("program");
  bool copies = args.Flag("--copies");
  compiler::CompileOptions options;
  TRY(TakeOptions(args, options));
  std::vector<std::string> files = TRY(args.Finish(1, 1));
  TRY(CheckEmit(emit, target));
  program::TargetInfo info = TRY(FindTarget(target));
  Status status = [&]() -> Status {
    std::unique_ptr<hlo::Module> module = TRY(LoadModule(files[0]));
    compiler::Compiled compiled = TRY(compiler::Compile(*module, options, info));
    TRY(program::Verify(compiled.program));
    for (const compiler::CopyNote& copy : compiled.copies) {
      if (copies) Write(StrCat(ToString(copy), "\n"));
    }
    if (copies) return {};
    if (emit == "llvm") return WriteLlvm(std::move(compiled.program));
    Write(emit == "cuda" ? gpu::RenderProgram(compiled.program).text
                         : program::Print(compiled.program));
    return {};
  }();
  if (status) return kOk;
  Report(status.error(), files[0]);
  return kFailed;
}

}  // namespace

constexpr Command kProgramCommand = {
    "program", "prints the Program that a module is lowered to",
    R"(usage: weft program [--target=cpu|generic|h200] [--emit=program|llvm|cuda]
                    [--copies] [--options=k=v,...] FILE

Runs the passes, lowers the module and prints the Program: buffers, kernels, steps; or the code
that is made of it.

  --target=T        the machine: cpu (this one, the default), generic (any CPU), h200
  --emit=F          program (the default), llvm (LLVM IR, for cpu), cuda (CUDA C, for h200)
  --copies          instead, a line for each copy that the program makes: bytes, place, reason
  --options=k=v,... compile options

examples:
  weft program model.hlo
  weft program --target=h200 --emit=cuda model.hlo
)",
    RunProgram};

}  // namespace weft::tools
