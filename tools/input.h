// Input files: reading them, finding out what they are, and where in them an error lies.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "hlo/module.h"
#include "program/program.h"

namespace weft::tools {

enum class InputKind { kHlo, kProgram, kMlirText, kMlirBytecode, kHloProto };

// By content alone. Text that is nothing else is taken for HLO.
InputKind Recognise(std::string_view content);

// The content of a file; `-` is standard input.
Result<std::string> ReadInput(const std::string& path);

// Lines of a list file that are not empty; `-` is standard input.
Result<std::vector<std::string>> ReadList(const std::string& path);

// A parsed input: a module, from any of the formats that hlo::ReadModule takes, or a Program.
using Input = std::variant<std::unique_ptr<hlo::Module>, program::Program>;
Result<Input> ParseInput(std::string_view content);
Status VerifyInput(const Input& input, std::string_view content);
Result<Input> LoadVerified(const std::string& path);  // read, parse, verify; errors have positions

// An HLO module alone; a Program is an error that says so.
Result<std::unique_ptr<hlo::Module>> LoadModule(const std::string& path);

// Gives an error of the verifier or evaluator, which names instructions, the position in the text
// where the first one it names is defined (line 1 when there is none).
Error Locate(Error error, std::string_view text);

// The same of an error of the compiler, whose instructions need not be in the text: without a
// position when its notes name none that is.
Error LocateNote(Error error, std::string_view text);

// To standard error: FILE:LINE:COLUMN: error: ...
void Report(const Error& error, const std::string& file);

}  // namespace weft::tools
