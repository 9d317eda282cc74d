// Loops that run as one kernel: which ones do, and their text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/render_program.h"
#include "program/program.h"

namespace weft::gpu {

// Calls fn for the steps and those inside them.
template <class Fn>
void ForEachStep(const std::vector<program::Step>& steps, const Fn& fn) {
  for (const program::Step& step : steps) {
    fn(step);
    if (auto* loop = std::get_if<program::WhileStep>(&step.op)) {
      ForEachStep(loop->condition, fn);
      ForEachStep(loop->body, fn);
    }
    if (auto* branches = std::get_if<program::ConditionalStep>(&step.op)) {
      for (const auto& branch : branches->branches) ForEachStep(branch, fn);
    }
  }
}

bool CanBeNativeLoop(const program::Program& program, const program::Step& loop);
CudaFunction RenderNativeLoop(const program::Program& program, const program::Step& loop,
                              std::string name, std::string& out);

}  // namespace weft::gpu
