// Programs as bytes: what a compiled program is saved as, and the key that names it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "client/compile_options.h"
#include "hlo/module.h"

namespace weft::client {

// Hex; the same for programs that differ only in names and source positions, compiled in the same
// way by the same compiler (build.h) for the same machine.
std::string ProgramFingerprint(const hlo::Module& module, const CompileRequest& request,
                               std::string_view compiler_options, std::string_view machine);

struct SavedExecutable {
  std::unique_ptr<hlo::Module> module;
  CompileRequest request;
  std::string fingerprint;
};
// With a checksum; anything else than what SaveExecutable returned is an error.
std::string SaveExecutable(const hlo::Module& module, const CompileRequest& request,
                           std::string_view fingerprint);
Result<SavedExecutable> ReadExecutable(std::string_view bytes);

}  // namespace weft::client
