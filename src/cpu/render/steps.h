// The module of the control flow: weft_run, native regions, the kernels that are part of them.
#pragma once

#include <string_view>

#include "cpu/render/program.h"

namespace weft::cpu {

// `kernels`: those that are launched and become part of this module too. `only_regions`: one
// function for each region (RegionName) instead of weft_run.
RenderedModule RenderMain(const program::Program& program, const Plan& plan,
                          const RenderTarget& target, const std::vector<int32_t>& kernels,
                          bool only_regions);

// AVX-512 frequency: whether native regions, on a machine that lowers its frequency for vectors of
// 64 bytes, have none that compute. Then they are compiled for vectors of 32 bytes: filling and
// moving arrays is no reason to run the rest more slowly.
bool KeepsAvx512Frequency(const program::Program& program, const Plan& plan,
                          const RenderTarget& target);

// Kernels that steps launch, as functions that other modules see.
void RenderLaunched(const program::Program& program, const Plan& plan, const RenderTarget& target,
                    const std::vector<int32_t>& kernels, IrMetadata& metadata, std::string& out);

// What every module ends with: attributes and declarations.
inline constexpr std::string_view kModuleTail =
    "declare noalias ptr @aligned_alloc(i64, i64) #0\n"
    "declare void @free(ptr) #0\n"
    "attributes #0 = { nounwind }\n"
    "attributes #1 = { nounwind alwaysinline }\n"
    "attributes #2 = { nounwind noinline willreturn memory(none) }\n"
    "attributes #3 = { cold nounwind noinline willreturn memory(argmem: readwrite) }\n"
    "attributes #4 = { nounwind \"prefer-vector-width\"=\"256\" \"min-legal-vector-width\"=\"0\" "
    "}\n"
    "attributes #5 = { nounwind alwaysinline \"prefer-vector-width\"=\"256\" "
    "\"min-legal-vector-width\"=\"0\" }\n";

}  // namespace weft::cpu
