// Errors as values. An `Error` is the user's or the world's fault; our own bugs are CHECKs
// (check.h).
//
//   Result<Shape> Infer(...);                 // a value or an Error
//   Shape s = TRY(Infer(...));                // propagate
//   return InvalidArgument("add: operand shapes differ: ", a, " and ", b);
//
// Messages: lower case, no full stop, name the op and the values.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/str.h"

namespace weft {

// Same numbers as PJRT's error codes.
enum class Code : uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

std::string_view CodeName(Code code);

class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message);

  Code code() const { return data_->code; }
  const std::string& message() const { return data_->message; }
  // Position in the text that was being read; 0 when there is none.
  int line() const { return data_->line; }
  int column() const { return data_->column; }
  const std::string& hint() const { return data_->hint; }

  // Each returns *this, so that errors can be built up in one expression on the way out.
  Error& At(int line, int column, std::string_view line_text);  // first call wins
  Error& Source(std::string where);        // "file.py:12 (function)"; first call wins
  Error& Hint(std::string hint);           // what to do; first call wins
  Error& Note(std::string note);           // a line of context
  Error& Prefix(std::string_view prefix);  // "add: " in front of the message

  // The whole text of an error without a file:
  //   message
  //     at file.py:12 (function)
  //     hint: what to do
  std::string ToString() const;
  // FILE:LINE:COLUMN: error: message, then the line with a caret where known, then as above.
  std::string ToString(std::string_view file) const;

 private:
  struct Data {
    Code code;
    int line = 0, column = 0;
    std::string message, line_text, source, hint;
    std::vector<std::string> notes;
  };
  Data& Mutable();  // copy on write
  std::string Tail() const;
  std::shared_ptr<Data> data_;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

template <class... Args>
std::unexpected<Error> MakeError(Code code, const Args&... args) {
  return std::unexpected(Error(code, StrCat(args...)));
}
template <class... Args>
std::unexpected<Error> InvalidArgument(const Args&... args) {
  return MakeError(Code::kInvalidArgument, args...);
}
template <class... Args>
std::unexpected<Error> Unimplemented(const Args&... args) {
  return MakeError(Code::kUnimplemented, args...);
}
template <class... Args>
std::unexpected<Error> NotFound(const Args&... args) {
  return MakeError(Code::kNotFound, args...);
}
template <class... Args>
std::unexpected<Error> ResourceExhausted(const Args&... args) {
  return MakeError(Code::kResourceExhausted, args...);
}
template <class... Args>
std::unexpected<Error> FailedPrecondition(const Args&... args) {
  return MakeError(Code::kFailedPrecondition, args...);
}

namespace detail {
template <class T>
T Take(Result<T>& r) {
  if constexpr (!std::is_void_v<T>) return std::move(*r);
}
}  // namespace detail

// The value of a Result, or return its Error from the enclosing function.
#define TRY(...)                                                                      \
  ({                                                                                  \
    auto weft_try_result = (__VA_ARGS__);                                             \
    if (!weft_try_result) return std::unexpected(std::move(weft_try_result).error()); \
    ::weft::detail::Take(weft_try_result);                                            \
  })

}  // namespace weft
