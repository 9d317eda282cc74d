// CHECK is for our own bugs: it prints what was expected and aborts. Bad input is an Error, never a
// CHECK.
#pragma once

#include <string>

#include "base/str.h"

namespace weft::detail {

// Collects `<< ...` and aborts at the end of the full expression.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  template <class T>
  CheckFailure& operator<<(const T& value) {
    StrAppend(message_, value);
    return *this;
  }

 private:
  std::string message_;
};

}  // namespace weft::detail

#define CHECK(condition)            \
  if (static_cast<bool>(condition)) \
    [[likely]];                     \
  else                              \
    ::weft::detail::CheckFailure(__FILE__, __LINE__, #condition)
