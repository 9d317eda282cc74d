// An instruction while it is read.
#pragma once

#include <optional>
#include <vector>

#include "hlo/text/parser.h"

namespace weft::hlo::text {

struct Parser::Pending {
  std::string_view name;  // empty: anonymous
  const char* name_at = nullptr;
  const char* op_at = nullptr;
  bool allow_attributes = true, has_shape = false;
  Shape shape;
  Op op = Op::kTuple;
  std::optional<Op> wrapped;  // X of X-start
  std::vector<Instruction*> operands;
  Attrs attrs;
  CommonAttrs common;
};

// parameter_replication has one flag per leaf of the shape.
Status CheckReplication(const Shape& shape, const std::vector<bool>& flags);

}  // namespace weft::hlo::text
