// Comparators of sorts that compare one key of each side.
#include "hlo/evaluate/scalar_function.h"

namespace weft::hlo {

std::optional<ScalarFunction::KeyCompare> ScalarFunction::AsKeyCompare() const {
  if (steps_.empty() || results_.size() != 1) return std::nullopt;
  const Step& last = steps_.back();
  if (last.code != Op::kCompare || last.out != results_[0]) return std::nullopt;
  constexpr int64_t kNone = -1, kSeveral = -2;
  std::vector<int64_t> depends(registers_.size(), kNone);  // on which parameter
  for (size_t p = 0; p < parameters_.size(); ++p) depends[parameters_[p]] = static_cast<int64_t>(p);
  for (const Step& step : steps_) {
    int64_t on = kNone;
    for (int k = 0; k < 3 && step.in[k] >= 0; ++k) {
      int64_t other = depends[step.in[k]];
      if (other != kNone) on = on == kNone || on == other ? other : kSeveral;
    }
    depends[step.out] = on;
  }
  int64_t left = depends[last.in[0]], right = depends[last.in[1]];
  DType type = registers_[last.in[0]].dtype;
  if (left < 0 || right < 0 || left == right || registers_[last.in[1]].dtype != type) {
    return std::nullopt;
  }
  return KeyCompare{left, right, last.attrs->As<CompareAttrs>(), type};
}

ScalarFunction ScalarFunction::Keys() const {
  ScalarFunction keys = *this;
  Step last = keys.steps_.back();
  keys.steps_.pop_back();
  keys.results_ = {last.in[0], last.in[1]};
  keys.Finish();
  keys.commutative_op_.reset();
  return keys;
}

}  // namespace weft::hlo
