// LLVM IR as text: types, constants and a writer that numbers temporaries.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/str.h"
#include "program/kernel.h"
#include "program/target.h"

namespace weft::cpu {

// Facts about the machine that change the text.
struct RenderTarget {
  program::OpLatency latency = {};
  bool bf16_conversion = false;  // float -> bfloat in one exact instruction
  // Integer division is total: 0 for a divisor of 0, wrapping for the least number by -1. LLVM's
  // is not, so the instruction is named.
  bool arm_division = false;
  bool add_faster_than_fma = false;      // the latency of a sum is less than that of an FMA
  bool casts_lanes = false;              // floats to integers, saturating, in vectors
  bool scalar_gathers = false;           // there is no instruction for gathers
  bool slow_gathers = false;             // there is, but scalar loads are faster
  bool prefer_256bit_stores = false;     // memory takes vectors of 32 bytes sooner than those of 64
  bool avx512_lowers_frequency = false;  // of the core, for a while after vectors of 64 bytes
};

std::string IrType(program::Type type);  // "<8 x float>", "i1"
std::string IrVector(std::string_view element, int lanes);
std::string IrSuffix(program::Type type);             // of intrinsics: "v8f32", "i1"
std::string_view StorageType(DType dtype);            // in memory: "i8" for pred, "i16" for bf16
std::string_view StorageSuffix(DType dtype);          // of masked loads: "i8", "f32", "i16"
std::string IrConstant(const program::Value& value);  // without its type
// The number in every lane of a vector (or alone), without its type. T: "i32".
std::string IrSplat(std::string_view element, std::string_view number, int lanes);
std::string IrFloat(double value);  // a float or double, in hex
std::string IrFloatBits(uint32_t bits);
void AppendComment(std::string& out, std::string_view text);  // a line

// The body of a function: one instruction a line.
class IrBody {
 public:
  template <class... Args>
  std::string Def(const Args&... args) {
    std::string name = StrCat("%t", next_++);
    StrAppend(text_, "  ", name, " = ", args..., "\n");
    return name;
  }
  template <class... Args>
  void Line(const Args&... args) {
    StrAppend(text_, "  ", args..., "\n");
  }
  std::string NewLabel() { return StrCat("block", next_label_++); }
  void Begin(const std::string& label) {
    StrAppend(text_, label, ":\n");
    block_ = label;
  }
  void Branch(const std::string& to, std::string_view metadata = "") {
    Line("br label %", to, metadata);
  }
  void Branch(std::string_view condition, const std::string& yes, const std::string& no,
              std::string_view metadata = "") {
    Line("br i1 ", condition, ", label %", yes, ", label %", no, metadata);
  }
  const std::string& block() const { return block_; }  // the one that is open
  std::string& text() { return text_; }

 private:
  std::string text_, block_ = "entry";
  int64_t next_ = 0, next_label_ = 0;
};

// What one module has beside its kernels, written after them: numbered metadata, and functions
// that several kernels may call.
class IrMetadata {
 public:
  // The name of an internal function, "@..."; the same for the same text. `result`: its type;
  // `rest`: parameters in parentheses, then the body in braces.
  std::string AddFunction(std::string_view result, std::string_view rest);
  template <class... Args>
  std::string Add(const Args&... args) {
    std::string name = StrCat("!", next_++);
    StrAppend(text_, name, " = ", args..., "\n");
    return name;
  }
  // A node that lists itself first: the identity of a loop.
  template <class... Args>
  std::string AddLoop(const Args&... args) {
    std::string name = StrCat("!", next_++);
    StrAppend(text_, name, " = distinct !{", name, args..., "}\n");
    return name;
  }
  std::string text() const { return functions_ + text_; }

 private:
  std::string functions_, text_;
  std::unordered_set<std::string> known_;
  int64_t next_ = 0;
};

}  // namespace weft::cpu
