// Shardings of an op's tensors by the factors of its rule.
#pragma once

#include "base/inline_vec.h"
#include "compiler/spmd/form.h"
#include "hlo/dim_rule.h"

namespace weft::compiler::spmd {

using FactorAxes = InlineVec<AxisList, 8>;  // by factor: the axes that cut it

// What a tensor's form says about factors: a dimension's axes go to its factors, major to minor,
// each until it is cut as finely as its size allows. Axes of rounds of propagation after `priority`
// are not counted.
void ReadFactors(const hlo::DimRule& rule, const hlo::DimRule::Tensor& tensor, const Form& form,
                 const DeviceMesh& mesh, int64_t priority, FactorAxes& axes);

// The axes of a dimension whose factors are cut so. A factor counts when all before it in the
// dimension are cut into single elements.
AxisList AxesOfDim(const hlo::DimRule& rule, const hlo::DimRule::Dim& dim, const FactorAxes& axes,
                   const DeviceMesh& mesh);

}  // namespace weft::compiler::spmd
