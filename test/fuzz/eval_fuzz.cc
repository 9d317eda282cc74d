// libFuzzer target: HLO text is verified; what verifies and is small is evaluated on random inputs,
// on two devices when it asks for more than one, within small limits.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "hlo/evaluate.h"
#include "hlo/random_arguments.h"
#include "hlo/text.h"
#include "hlo/verify.h"

namespace {

constexpr int64_t kMaxBytes = 1 << 16;

bool IsSmall(const weft::hlo::Module& module) {
  if (module.instruction_count() > 200) return false;
  for (const auto& computation : module.computations()) {
    for (const weft::hlo::Instruction* i : *computation) {
      if (i->shape().ByteSize() > kMaxBytes) return false;
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  auto module = hlo::ParseModule({reinterpret_cast<const char*>(data), size});
  if (!module || !hlo::Verify(**module) || !IsSmall(**module)) return 0;
  hlo::EvalOptions options;
  options.max_loop_steps = 100;
  options.max_tensor_bytes = kMaxBytes;
  bool alone = (*module)->config().replica_count <= 1 && (*module)->config().num_partitions <= 1;
  options.num_replicas = alone ? 1 : 2;
  options.num_partitions = 1;
  std::vector<std::vector<Literal>> arguments;
  for (int64_t device = 0; device < options.num_replicas; ++device) {
    auto one = hlo::RandomArguments(*(*module)->entry(), size, device);
    if (!one) return 0;
    arguments.push_back(*std::move(one));
  }
  if (alone) {
    (void)hlo::Evaluate(**module, arguments[0], options);
  } else {
    (void)hlo::EvaluateOnDevices(**module, arguments, options);
  }
  return 0;
}
