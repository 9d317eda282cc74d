#include "compiler/spmd/factors.h"

#include <algorithm>

namespace weft::compiler::spmd {

void ReadFactors(const hlo::DimRule& rule, const hlo::DimRule::Tensor& tensor, const Form& form,
                 const DeviceMesh& mesh, int64_t priority, FactorAxes& axes) {
  axes.clear();
  axes.resize(rule.factors.size());
  for (size_t d = 0; d < tensor.size() && d < form.dims.size(); ++d) {
    const hlo::DimRule::Dim& dim = tensor[d];
    if (form.dims[d].priority > priority || dim.empty()) continue;
    size_t k = 0;
    int64_t parts = 1;
    for (int axis : form.dims[d].axes) {
      const int64_t size = rule.factors[static_cast<size_t>(dim[k])].size;
      if (parts == size && k + 1 < dim.size()) {
        ++k;
        parts = 1;
      }
      const int64_t finer = parts * mesh.size(axis);
      // A factor among others must be cut evenly; one alone may have padding.
      const bool alone = dim.size() == 1;
      if (!alone && rule.factors[static_cast<size_t>(dim[k])].size % finer != 0) break;
      axes[static_cast<size_t>(dim[k])].push_back(axis);
      parts = finer;
    }
  }
}

AxisList AxesOfDim(const hlo::DimRule& rule, const hlo::DimRule::Dim& dim, const FactorAxes& axes,
                   const DeviceMesh& mesh) {
  AxisList all;
  for (int factor : dim) {
    const AxisList& own = axes[static_cast<size_t>(factor)];
    for (Axis axis : own) {
      // Two factors that tensors cut by the same axis: the major one has it.
      if (std::ranges::find(all, axis) != all.end()) return all;
      all.push_back(axis);
    }
    if (mesh.SizeOf(own) != rule.factors[static_cast<size_t>(factor)].size) break;
  }
  return all;
}

}  // namespace weft::compiler::spmd
