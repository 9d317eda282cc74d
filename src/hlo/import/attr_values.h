// The attributes of an operation as the values that handlers want. Each accepts the forms in which
// versions and dialects write the same thing (a dense tensor, array<i64: ...>, an array of
// integers).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "hlo/attrs.h"
#include "hlo/import/tree.h"

namespace weft::hlo::mlir {

Result<Ints> IntsOf(const Attr& attr);                             // one dimension
Result<std::vector<Ints>> IntRowsOf(const Attr& attr);             // two
std::optional<int64_t> IntOf(const Attr& attr);                    // an integer or a bool
Result<Literal> LiteralOf(const Attr& dense, const Shape& shape);  // splats written out

// By name. Without the attribute: empty, `otherwise` or, for the Required ones, an error.
Result<Ints> IntsAttr(const Operation& op, std::string_view name);
Result<Ints> RequiredInts(const Operation& op, std::string_view name);
Result<std::vector<Ints>> IntRowsAttr(const Operation& op, std::string_view name);
Result<int64_t> IntAttr(const Operation& op, std::string_view name, int64_t otherwise);
Result<int64_t> RequiredInt(const Operation& op, std::string_view name);
Result<double> FloatAttr(const Operation& op, std::string_view name, double otherwise);
bool BoolAttr(const Operation& op, std::string_view name, bool otherwise = false);
std::string_view TextAttr(const Operation& op, std::string_view name);  // enum, string or symbol
// The bits as unsigned numbers would be: the elements of array<i1: ...> or dense<...> :
// tensor<xi1>.
Result<std::vector<bool>> BoolsAttr(const Operation& op, std::string_view name);

// The value of an enum by its keyword, letters of either case.
template <class E>
Result<E> EnumOf(std::string_view what, std::string_view keyword, E) {
  std::span<const std::string_view> names = Names(E());
  auto same = [](std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if ((a[i] | 0x20) != (b[i] | 0x20)) return false;
    }
    return true;
  };
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty() && same(names[i], keyword)) return static_cast<E>(i);
  }
  return InvalidArgument(what, " is ", keyword.empty() ? "missing" : keyword);
}

}  // namespace weft::hlo::mlir
