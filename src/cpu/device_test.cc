// The CPU as a device with memory and streams.
#include "cpu/device.h"

#include <gtest/gtest.h>

#include "runtime/device_conformance.h"

namespace weft::runtime {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance,
                         testing::Values(DeviceCase{"Native",
                                                    []() -> Result<std::shared_ptr<Device>> {
                                                      return std::shared_ptr<Device>(
                                                          TRY(cpu::CreateDevice()));
                                                    }}),
                         NameOfCase);

}  // namespace
}  // namespace weft::runtime
