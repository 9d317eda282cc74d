// weft print.
#include <cstdio>

#include "commands.h"
#include "hlo/import/import.h"
#include "hlo/text.h"
#include "input.h"

namespace weft::tools {
namespace {

Result<int> PrintOne(Args args) {
  bool brief = args.Flag("--short"), canonical = args.Flag("--canonical"),
       fingerprint = args.Flag("--fingerprint"), proto = args.Flag("--proto");
  if (brief + canonical + fingerprint + proto > 1) {
    return InvalidArgument("--short, --canonical, --fingerprint and --proto exclude each other");
  }
  std::vector<std::string> files = TRY(args.Finish(1, 1));
  auto text = [&]() -> Result<std::string> {
    std::string content = TRY(ReadInput(files[0]));
    Input input = TRY(ParseInput(content));
    if (const auto* program = std::get_if<program::Program>(&input)) {
      if (canonical || fingerprint || proto)
        return InvalidArgument("this is a Program; it has one form");
      return program::Print(*program);
    }
    const hlo::Module& module = *std::get<0>(input);
    if (proto) return hlo::ExportHloProto(module);
    if (fingerprint) {
      char hex[32];
      std::snprintf(hex, sizeof(hex), "%016llx\n",
                    static_cast<unsigned long long>(hlo::Fingerprint(module)));
      return std::string(hex);
    }
    return hlo::PrintModule(module, brief       ? hlo::PrintOptions::Short()
                                    : canonical ? hlo::PrintOptions::Canonical()
                                                : hlo::PrintOptions::Full());
  }();
  if (!text) {
    Report(text.error(), files[0]);
    return kFailed;
  }
  if (!proto && (text->empty() || text->back() != '\n')) text->push_back('\n');
  std::fwrite(text->data(), 1, text->size(), stdout);
  return kOk;
}

}  // namespace

constexpr Command kPrintCommand = {
    "print", "reads a file and prints it",
    R"(usage: weft print [--short|--canonical|--fingerprint|--proto] FILE

Prints the module as Weft spells it. The same module always gives the same text.

  --short        for people: without %, metadata, layouts and configs; large constants elided
  --canonical    without names and metadata: the same for modules that differ only in those
  --fingerprint  a 64-bit number of the canonical form
  --proto        as XLA's HloModuleProto in wire format (verify the module first)

examples:
  weft print --short model.hlo
  weft print --fingerprint model.hlo
)",
    PrintOne};

}  // namespace weft::tools
