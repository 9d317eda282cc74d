#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kAsyncStart>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAsyncUpdate>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAsyncDone>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCopyStart>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCopyDone>() {
  return {.doc = ""};
}

}  // namespace weft::hlo
