// What every device must do, as tests: memory, copies, order, errors, programs. A module that has a
// device lists device_conformance.cc among its tests and instantiates:
//   INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, testing::Values(DeviceCase{...}), NameOfCase);
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "runtime/device.h"

namespace weft::runtime {

struct DeviceCase {
  std::string name;
  // With at least 32 MB of memory. UNAVAILABLE: the tests say that they are skipped.
  std::function<Result<std::shared_ptr<Device>>()> make;
  bool runs = true;      // else only checks and counts
  int64_t limit = 0;     // bytes of its memory; 0: too many to be exhausted by a test
  bool computes = true;  // else kernels do nothing, though all else is done
};

inline void PrintTo(const DeviceCase& c, std::ostream* out) {
  *out << c.name;
}
inline std::string NameOfCase(const testing::TestParamInfo<DeviceCase>& info) {
  return info.param.name;
}

class DeviceConformance : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override;
  void TearDown() override;

  bool runs() const { return GetParam().runs; }
  bool computes() const { return runs() && GetParam().computes; }
  Allocation Allocate(int64_t bytes, MemorySpace space = MemorySpace::kDevice);
  std::vector<std::byte> Read(const Allocation& from, Stream& stream);  // and waits
  void ExpectLikeInterpreter(const std::string& text, uint64_t seed);

  std::shared_ptr<Device> device_;
  StreamPtr compute_, to_device_, to_host_;
};

}  // namespace weft::runtime
