#include "hlo/import/tree.h"

namespace weft::hlo::mlir {

const Attr* Attr::Find(std::string_view name) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return elements[i];
  }
  return nullptr;
}

const Attr* Operation::Find(std::string_view name) const {
  for (const NamedAttr& attr : attrs) {
    if (attr.name == name) return attr.value->kind == Attr::Kind::kNone ? nullptr : attr.value;
  }
  return nullptr;
}

}  // namespace weft::hlo::mlir
