// Pieces of CUDA C text: types, constants, names, indented lines.
#pragma once

#include <string>
#include <string_view>

#include "base/str.h"
#include "program/kernel.h"

namespace weft::gpu {

std::string_view CudaType(DType compute_type);          // "f32", as lib/numbers.cuh declares them
std::string CudaType(program::Type type);               // "Vec<f32, 4>" with lanes
std::string_view CudaStorageType(DType storage);        // what an element lies in memory as
std::string CudaConstant(const program::Value& value);  // one lane of it
// A C name that starts with the prefix and says what `name` does.
std::string CudaName(std::string_view prefix, std::string_view name);

class CudaText {
 public:
  template <class... Args>
  void Line(const Args&... args) {
    out_.append(static_cast<size_t>(indent_) * 2, ' ');
    StrAppend(out_, args..., "\n");
  }
  // A line that opens a block, and the end of one.
  template <class... Args>
  void Open(const Args&... args) {
    Line(args...);
    ++indent_;
  }
  void Close(std::string_view text = "}") {
    --indent_;
    Line(text);
  }
  void Else() {
    Close("} else {");
    ++indent_;
  }
  const std::string& text() const { return out_; }

 private:
  std::string out_;
  int indent_ = 0;
};

}  // namespace weft::gpu
