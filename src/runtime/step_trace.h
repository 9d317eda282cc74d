// What a timeline says of a step.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "base/trace.h"
#include "program/program.h"

namespace weft::runtime {

// What lists and timelines call it: its name, its kernel's or routine's, or its kind.
std::string LabelOf(const program::Program& program, const program::Step& step);

// Name, source line, scope, shapes and costs; of loops and conditionals the steps inside as well.
trace::What DescribeStep(const program::Program& program, const program::Step& step);

// The same of all steps of a program, which stays where it is; made when it is first recorded.
class StepTraces {
 public:
  explicit StepTraces(const program::Program& program) : program_(program) {}
  const trace::What* Of(const program::Step& step) const;
  const trace::What* Run() const;  // the program whole

 private:
  void Make() const;
  const program::Program& program_;
  mutable std::once_flag once_;
  mutable std::map<const program::Step*, const trace::What*> steps_;  // never iterated
  mutable const trace::What* run_ = nullptr;
};

}  // namespace weft::runtime
