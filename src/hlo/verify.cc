#include "hlo/verify.h"

#include "hlo/verify/rules.h"

namespace weft::hlo {
namespace {

// All-reduces of a module are all layout-constrained, or none is.
Status VerifyConstrainedAllReduces(const Module& module) {
  const Instruction* first = nullptr;
  for (const auto& computation : module.computations()) {
    for (const Instruction* instruction : *computation) {
      if (instruction->op() != Op::kAllReduce && instruction->op() != Op::kAllReduceStart) continue;
      if (first == nullptr) first = instruction;
      if (first->attrs().Collective()->constrain_layout !=
          instruction->attrs().Collective()->constrain_layout) {
        Error error(Code::kInvalidArgument,
                    StrCat("constrain_layout differs from that of ", first->name()));
        return std::unexpected(AtInstruction(std::move(error), *instruction));
      }
    }
  }
  return {};
}

}  // namespace

bool StartsWithOp(std::string_view message, std::string_view mnemonic) {
  if (!message.starts_with(mnemonic)) return false;
  message.remove_prefix(mnemonic.size());
  return message.starts_with(':') || message.starts_with(' ');
}

Error AtInstruction(Error error, const Instruction& instruction) {
  std::string_view mnemonic = Mnemonic(instruction.op());
  if (!StartsWithOp(error.message(), mnemonic)) error.Prefix(StrCat(mnemonic, ": "));
  std::string where = instruction.parent() == nullptr
                          ? std::string()
                          : StrCat(" of ", instruction.parent()->name());
  error.Note(StrCat("in ", instruction.ToString(), where));
  if (std::string source = instruction.SourceLocation(); !source.empty()) {
    error.Source(std::move(source));
  }
  return error;
}

Status Verify(const Module& module, const VerifyOptions& options) {
  TRY(VerifyStructure(module));
  for (const auto& computation : module.computations()) {
    for (const Instruction* instruction : *computation) {
      Status status = VerifyInstruction(*instruction, options);
      if (status) status = VerifyPairs(*instruction);
      if (!status) {
        return std::unexpected(AtInstruction(std::move(status).error(), *instruction));
      }
    }
  }
  TRY(VerifyConstrainedAllReduces(module));
  return VerifyHeader(module);
}

}  // namespace weft::hlo
