// Tensors in JSON: nested lists of numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "serve/json.h"

namespace weft::serve {

// Collects elements of one type from one value or several, whose dimensions must agree.
class TensorReader {
 public:
  explicit TensorReader(DType type) : type_(type) {}
  // A value of nested lists. {"b64": "..."} stands for a list of bytes.
  Status Read(JsonReader& json);
  // The values that were read: one of them has its own shape; with `rows` each is one row of it.
  Result<Literal> Take(bool rows) const;
  // The same elements in a shape that is known.
  Result<Literal> TakeAs(const Shape& shape) const;
  int64_t values() const { return values_; }

 private:
  Status ReadAt(JsonReader& json, size_t depth);
  Status ReadElement(JsonReader& json);
  Status ReadBytes(JsonReader& json, size_t depth);
  Status Leaf(JsonReader& json, size_t depth);
  Status Ended(JsonReader& json, size_t depth, int64_t count);
  size_t elements() const { return floats_.size() + ints_.size(); }

  DType type_;
  std::vector<int64_t> dims_;  // of one value; -1: not known yet
  bool rank_known_ = false;
  int64_t values_ = 0;
  std::vector<double> floats_;  // for floating-point types
  std::vector<int64_t> ints_;   // for others; u64 as its bits
};

// Nested lists by the shape; `flat`: one list.
void AppendTensor(std::string& out, const Literal& value, bool flat = false);
// One row (index into the first dimension) as a value.
void AppendRow(std::string& out, const Literal& value, int64_t row);

}  // namespace weft::serve
