// weft program: what a module is lowered to.
#include <cstdio>

#include "commands.h"
#include "compiler/lower/compile.h"
#include "cpu/device.h"
#include "input.h"
#include "program/program.h"

namespace weft::tools {
namespace {

Result<int> RunProgram(Args args) {
  std::string target = args.Value("--target").value_or("cpu");
  compiler::CompileOptions options;
  TRY(compiler::ParseOptions(args.Value("--options").value_or(""), options));
  std::vector<std::string> files = TRY(args.Finish(1, 1));
  program::TargetInfo info;
  if (target == "cpu") {
    info = cpu::HostTarget();
  } else if (target == "generic") {
    info = program::TargetInfo::GenericCpu();
  } else if (target == "h200") {
    info = program::TargetInfo::H200();
  } else {
    return InvalidArgument("unknown target: ", target, "; known are cpu, generic, h200");
  }
  Status status = [&]() -> Status {
    std::unique_ptr<hlo::Module> module = TRY(LoadModule(files[0]));
    compiler::Compiled compiled = TRY(compiler::Compile(*module, options, info));
    TRY(program::Verify(compiled.program));
    std::string text = program::Print(compiled.program);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};
  }();
  if (status) return kOk;
  Report(status.error(), files[0]);
  return kFailed;
}

}  // namespace

constexpr Command kProgramCommand = {"program", "prints the Program that a module is lowered to",
                                     R"(usage: weft program [--target=cpu|generic|h200] [--options=k=v,...] FILE

Runs the passes, lowers the module and prints the Program: buffers, kernels, steps.

  --target=T        the machine: cpu (this one, the default), generic (any CPU), h200
  --options=k=v,... compile options

example:
  weft program model.hlo
)",
                                     RunProgram};

}  // namespace weft::tools
