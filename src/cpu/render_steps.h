// The module of the step list: weft_run, native regions, and the kernels that are part of them.
#pragma once

#include <string_view>

#include "cpu/render_program.h"

namespace weft::cpu {

RenderedModule RenderMain(const program::Program& program, const Plan& plan,
                          const RenderTarget& target);

// What every module ends with: attributes and declarations.
inline constexpr std::string_view kModuleTail =
    "declare noalias ptr @aligned_alloc(i64, i64) #0\n"
    "declare void @free(ptr) #0\n"
    "attributes #0 = { nounwind }\n"
    "attributes #1 = { nounwind alwaysinline }\n";

}  // namespace weft::cpu
