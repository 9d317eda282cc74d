// Builds without LLVM.
#include "cpu/llvm/llvm.h"

namespace weft::cpu {

bool HasLlvm() {
  return false;
}
std::string LlvmVersion() {
  return "";
}
CodeTarget HostCodeTarget() {
  return {};
}
Result<std::unique_ptr<Compiler>> Compiler::Create(const CodeTarget&) {
  return Unimplemented("cpu: this build has no LLVM");
}
Result<std::unique_ptr<CodeImage>> CodeImage::Link(std::span<const std::string>) {
  return Unimplemented("cpu: this build has no LLVM");
}

}  // namespace weft::cpu
