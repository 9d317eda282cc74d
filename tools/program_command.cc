// weft program: what a module is lowered to.
#include <algorithm>
#include <cstdio>

#include "base/digest.h"
#include "check_files.h"
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

Result<std::string> TextOf(const program::Program& program, std::string_view emit,
                           const program::TargetInfo& target,
                           const compiler::CompileOptions& options) {
  if (emit == "asm") return cpu::AssemblyText(program, target, options.cpu.disable);
  if (emit == "llvm") return cpu::LlvmText(program, target);
  return emit == "cuda" ? gpu::RenderProgram(program).text : program::Print(program);
}

// "FILE target program-hash code-hash", or "FILE target error hash-of-the-message".
std::string DigestLine(const std::string& file, const std::string& name,
                       const program::TargetInfo& target, const compiler::CompileOptions& options,
                       std::string_view form) {
  auto digests = [&]() -> Result<std::string> {
    std::unique_ptr<hlo::Module> module = TRY(LoadModule(file));
    compiler::Compiled compiled = TRY(compiler::Compile(*module, options, target));
    std::string_view emit = form == "asm" ? form : target.RunsOnHost() ? "llvm" : "cuda";
    std::string code = TRY(TextOf(compiled.program, emit, target, options));
    constexpr size_t kDigits = 16;
    return StrCat(Digest::Hex(program::Print(compiled.program)).substr(0, kDigits), " ",
                  Digest::Hex(code).substr(0, kDigits));
  };
  Result<std::string> line = digests();
  return StrCat(file, " ", name, " ",
                line ? *line : StrCat("error ", Digest::Hex(line.error().message()).substr(0, 16)));
}

Result<int> PrintDigests(const std::vector<std::string>& files, std::string_view targets,
                         const compiler::CompileOptions& options, std::string_view form) {
  std::vector<std::pair<std::string, program::TargetInfo>> known;
  while (!targets.empty()) {
    std::string_view name = targets.substr(0, targets.find(','));
    targets.remove_prefix(std::min(name.size() + 1, targets.size()));
    known.emplace_back(name, TRY(FindTarget(name)));
  }
  CheckAll(static_cast<int64_t>(files.size()), [&](int64_t i) {
    std::string lines;
    for (const auto& [name, target] : known) {
      StrAppend(lines, lines.empty() ? "" : "\n",
                DigestLine(files[static_cast<size_t>(i)], name, target, options, form));
    }
    return lines;
  });
  return kOk;
}

Status CheckEmit(std::string_view emit, const program::TargetInfo& target) {
  bool on_cpu = target.RunsOnHost();
  bool known = emit == "program" || emit == "llvm" || emit == "cuda" || emit == "asm";
  if (!known)
    return InvalidArgument("unknown form: ", emit, "; known are program, llvm, asm, cuda");
  if ((emit == "llvm" || emit == "asm") && !on_cpu)
    return InvalidArgument("--emit=", emit, " is for CPUs");
  if (emit == "cuda" && on_cpu) return InvalidArgument("--emit=cuda is for GPUs: --target=h200");
  return {};
}

Result<int> RunProgram(Args args) {
  std::string target = args.Value("--target").value_or("cpu");
  std::string emit = args.Value("--emit").value_or("program");
  bool copies = args.Flag("--copies"), why = args.Flag("--why");
  compiler::CompileOptions options;
  TRY(TakeOptions(args, options));
  std::vector<std::string> lists = args.Values("--files-from");
  bool digest = args.Flag("--digest");
  std::vector<std::string> files = TRY(args.Finish(lists.empty() ? 1 : 0));
  for (const std::string& list : lists) {
    std::vector<std::string> more = TRY(ReadList(list));
    files.insert(files.end(), more.begin(), more.end());
  }
  if (digest) return PrintDigests(files, target, options, emit);
  if (files.size() > 1) return InvalidArgument("several files are for --digest");
  program::TargetInfo info = TRY(FindTarget(target));
  TRY(CheckEmit(emit, info));
  Status status = [&]() -> Status {
    std::unique_ptr<hlo::Module> module = TRY(LoadModule(files[0]));
    compiler::Compiled compiled = TRY(compiler::Compile(*module, options, info, {}, why));
    TRY(program::Verify(compiled.program));
    for (const compiler::CopyNote& copy : compiled.copies) {
      if (copies) Write(StrCat(ToString(copy), "\n"));
    }
    for (const compiler::LoweringChoice& choice : compiled.choices) Write(ToString(choice));
    if (copies || why) return {};
    Write(TRY(TextOf(compiled.program, emit, info, options)));
    return {};
  }();
  if (status) return kOk;
  Report(status.error(), files[0]);
  return kFailed;
}

}  // namespace

constexpr Command kProgramCommand = {
    "program", "prints the Program that a module is lowered to",
    R"(usage: weft program [--target=T] [--emit=program|llvm|asm|cuda]
                    [--copies] [--why] [--options=k=v,...] FILE
       weft program --digest [--target=T,T] [--files-from LIST] FILE...

Runs the passes, lowers the module and prints the Program: buffers, kernels, steps; or the code
that is made of it.

  --target=T        the machine: cpu (this one, the default), generic (any CPU), cpu-avx512,
                    cpu-neon, a100, h200, b200, rtx5090
  --emit=F          program (the default), llvm (LLVM IR, for CPUs), asm (machine code, for
                    CPUs of this architecture), cuda (CUDA C, for GPUs)
  --copies          instead, a line for each copy that the program makes: bytes, place, reason
  --why             instead, how each instruction is lowered: the row of the target's table that
                    took it and its reason, then why the rows before it refused
  --options=k=v,... compile options
  --digest          instead, hashes of the Program and its code, a line for each file and target
                    (--target=a,b); for `./dev replay`. With --emit=asm of the machine code
  --files-from LIST with --digest: the files named in LIST, one a line (`-`: standard input)

examples:
  weft program model.hlo
  weft program --target=h200 --emit=cuda model.hlo
  weft program --why --target=cpu-avx512 model.hlo
)",
    RunProgram};

}  // namespace weft::tools
