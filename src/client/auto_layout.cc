#include "client/auto_layout.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include "hlo/computation.h"
#include "hlo/op.h"

namespace weft::client {
namespace {

using hlo::Instruction;
using hlo::Op;

// Minor to major; absent: any would do (scalars that are broadcast, constants).
using Order = std::optional<Dims>;
using Orders = std::unordered_map<const Instruction*, Order>;

Dims RowMajorOrder(const Shape& shape) {
  return Layout::RowMajor(shape.rank()).minor_to_major;
}

// Result dimension d is the operand's `dimensions[d]`.
Dims Transposed(const Dims& order, std::span<const int64_t> dimensions) {
  Dims moved = order;
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t d = 0; d < dimensions.size(); ++d) {
      if (dimensions[d] == order[i]) moved[i] = static_cast<int64_t>(d);
    }
  }
  return moved;
}

bool KeepsEveryElement(const Instruction& i) {
  if (i.op() == Op::kCopy || IsElementwise(i.op())) return true;
  // Annotations: the value itself.
  return i.op() == Op::kCustomCall && i.operand_count() == 1 &&
         i.attrs<hlo::CustomCallAttrs>().custom_call_target == "Sharding";
}

bool FitsAny(const Instruction& i) {
  return i.IsConstant() || i.op() == Op::kIota ||
         (i.op() == Op::kBroadcast && i.operand(0)->shape().rank() == 0);
}

Order OrderOf(const Instruction& i, const Orders& orders, std::span<const Shape> parameters) {
  if (i.op() == Op::kParameter) {
    const size_t number = static_cast<size_t>(i.parameter_number());
    if (number < parameters.size()) return parameters[number].LayoutOrDefault().minor_to_major;
  }
  if (FitsAny(i)) return std::nullopt;
  if (i.op() == Op::kTranspose) {
    const Order& from = orders.at(i.operand(0));
    if (!from) return std::nullopt;
    return Transposed(*from, i.attrs<hlo::DimensionsAttrs>().dimensions);
  }
  if (!KeepsEveryElement(i)) return RowMajorOrder(i.shape());
  Order common;
  for (const Instruction* operand : i.operands()) {
    if (!Shape::SameDims(operand->shape(), i.shape())) continue;
    const Order& own = orders.at(operand);
    if (common && own && *common != *own) return RowMajorOrder(i.shape());
    if (!common) common = own;
  }
  return common;
}

}  // namespace

std::vector<Layout> AutoLayouts(const hlo::Computation& entry, std::span<const Shape> parameters) {
  Orders orders;
  for (const Instruction* i : entry) {
    orders[i] = i->shape().IsArray() ? OrderOf(*i, orders, parameters) : std::nullopt;
  }
  std::vector<Layout> layouts;
  auto add = [&](const Instruction* value, const Shape& shape) {
    if (!shape.IsArray()) return layouts.push_back({});
    const Order& order = orders.at(value);
    Layout layout = Layout::RowMajor(shape.rank());
    if (order && value->shape().IsArray()) layout.minor_to_major = *order;
    layouts.push_back(std::move(layout));
  };
  const Instruction* root = entry.root();
  if (!root->shape().IsTuple()) {
    add(root, root->shape());
    return layouts;
  }
  const auto& elements = root->shape().elements_of_tuple();
  for (size_t k = 0; k < elements.size(); ++k) {
    add(root->op() == Op::kTuple ? root->operand(static_cast<int64_t>(k)) : root, elements[k]);
  }
  return layouts;
}

}  // namespace weft::client
