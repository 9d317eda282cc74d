// A custom call of a registered handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/inline_vec.h"
#include "client/custom_calls.h"
#include "hlo/instruction.h"
#include "pjrt/ffi/ffi_internal.h"

namespace weft::pjrt {

class FfiCall : public client::ForeignCall {
 public:
  // Unimplemented when nobody registered the target.
  static Result<std::unique_ptr<FfiCall>> Create(const hlo::Instruction& call);

  Status Run(std::span<const std::span<std::byte>> memory) const override;
  int64_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  // An operand or result. Handlers see it in the layout that the call asks for.
  struct Array {
    XLA_FFI_DataType type = XLA_FFI_DataType_TOKEN;
    Dims dims;
    int64_t memory = -1;  // which; a token has none
    int64_t alias = -1;   // an operand: the result that shares its memory; a result: the operand
    int64_t element_bytes = 0, bytes = 0;
    Dims strides, ordered;  // in bytes, row-major and the handler's; `ordered` empty: the same
  };
  struct Frame;

  FfiCall() = default;
  Status AddArrays(const Shape& shape, const Shape& layouts, std::vector<Array>& arrays);
  void AddAliases(const hlo::Instruction& call, std::span<const size_t> first_leaf);
  void PlaceArrays(std::span<const std::span<std::byte>> memory, std::byte* scratch,
                   std::span<void*> arguments, std::span<void*> results) const;
  Status RunTyped(std::span<void*> arguments, std::span<void*> results) const;
  Status RunOlder(std::span<void*> arguments, std::span<void*> results) const;

  std::string name_, config_;
  FfiTarget target_;
  std::unique_ptr<FfiAttributes> attributes_;  // of typed calls
  std::vector<Array> arguments_, results_;
  bool tuple_ = false;
  int64_t arrays_ = 0;         // of operands and results together
  int64_t scratch_bytes_ = 0;  // for those in another order
};

}  // namespace weft::pjrt
