#include "help.h"

#include <string_view>

#include "base/str.h"
#include "client/build.h"
#include "client/environment.h"
#include "compiler/options.h"
#include "cpu/llvm/llvm.h"

namespace weft::tools {
namespace {

constexpr size_t kHelpColumns = 100;

// Words in lines behind so many spaces.
void AppendWrapped(std::string& out, std::string_view text, size_t indent) {
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    std::string_view word = text.substr(at, end - at);
    const bool first = at == 0;
    at = end + 1;
    if (first || column + 1 + word.size() > kHelpColumns) {
      if (!first) out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  out += '\n';
}

}  // namespace

std::string HelpOnVariables() {
  std::string out =
      "Variables of the environment, for JAX and for this command. A value that a variable does "
      "not "
      "take is an\nerror; an empty one counts as none.\n";
  for (const client::Variable& variable : client::Variables()) {
    StrAppend(out, "\n", variable.name, "\n");
    AppendWrapped(out, variable.doc, 2);
    AppendWrapped(out, StrCat("takes: ", variable.takes), 2);
    AppendWrapped(out, StrCat("default: ", variable.otherwise), 2);
  }
  return out;
}

std::string HelpOnOptions() {
  std::string out =
      "Options of the compiler: --options=key=value,... of a command, or WEFT_OPTIONS.\n";
  for (const compiler::OptionInfo& option : compiler::ListOptions()) {
    StrAppend(out, "\n", option.key, "\n");
    AppendWrapped(out, option.doc, 2);
    AppendWrapped(out, StrCat("takes: ", option.takes), 2);
    AppendWrapped(out, StrCat("default: ", option.otherwise.empty() ? "empty" : option.otherwise),
                  2);
  }
  return out;
}

std::string VersionLine() {
  return StrCat("weft ", client::Version(), ", sources ", client::SourceHash(), ", ",
                cpu::HasLlvm() ? StrCat("LLVM ", cpu::LlvmVersion()) : "without LLVM", "\n");
}

}  // namespace weft::tools
