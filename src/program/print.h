// Pieces of text that the printers and the verifier's messages share.
#pragma once

#include <string>
#include <string_view>

#include "program/program.h"

namespace weft::program {

void AppendName(std::string& out, std::string_view name);  // quoted when not an identifier
bool IsIdentifier(std::string_view name);
void AppendConstant(std::string& out, const Value& value);  // "1", "-0.5", "inf", "true"
void AppendSlice(std::string& out, const Program& program, const Slice& slice);
// Flat list of elements or hex bytes, whichever reads better.
void AppendLiteral(std::string& out, const Literal& literal);
void AppendKernel(std::string& out, const Kernel& kernel);

std::string_view Name(CollectiveKind kind);
std::string_view Name(ReduceOp op);
std::string_view Name(MemorySpace space);
inline constexpr int kCollectiveKinds = 5, kReduceOps = 6, kMemorySpaces = 3;

}  // namespace weft::program
