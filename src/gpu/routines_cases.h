// Programs of one library routine each, for the tests of routines.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/literal.h"

namespace weft::gpu {

struct RoutineCase {
  std::string name, text;
  double slack = 0;  // units in the last place of the largest result
  bool donates = false;
  std::function<void(Literal& argument, int64_t number)> prepare = nullptr;
  int64_t fused = 0;             // kernels that are part of a product's launch
  int64_t fused_by_library = 0;  // more of them where there are NVIDIA's libraries
};

// A step of buffers in order: "read x: f32[4]" lines become parameters and results.
struct OneUse {
  const char* access;  // "read", "write", "update"
  std::string shape;
};
RoutineCase CallCase(std::string name, std::string_view routine, const std::vector<OneUse>& uses,
                     std::string_view attrs, double slack, std::string_view kernels = "");

// `few`: a small choice, where running takes long.
std::vector<RoutineCase> GemmCases(bool few);
std::vector<RoutineCase> EpilogueCases(bool few);
std::vector<RoutineCase> FftCases();  // where there is cuFFT
std::vector<RoutineCase> SortCases(bool few);
std::vector<RoutineCase> RandomCases(bool few);
std::vector<RoutineCase> LinalgCases(bool few);
std::vector<RoutineCase> ConvolutionCases(bool few);

}  // namespace weft::gpu
