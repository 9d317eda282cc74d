// What a framework says about a compilation: CompileOptionsProto, read from its wire format.
// Unknown fields are skipped.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace weft::client {

using CompileOverrides = std::map<std::string, std::variant<std::string, bool, int64_t, double>>;

struct CompileRequest {
  int64_t num_replicas = 1, num_partitions = 1;
  int64_t device_ordinal = -1;
  bool use_spmd_partitioning = false, use_shardy_partitioner = false;
  bool tupled_arguments = false, portable_executable = false;
  std::vector<bool> propagate_sharding_to_parameters, propagate_sharding_to_output;
  int64_t device_memory_size = 0;
  // Global device ids by replica and partition, [replica * num_partitions + partition]; empty: the
  // default assignment.
  std::vector<int64_t> device_assignment;
  // The user's compiler_options={...}.
  CompileOverrides overrides;
  std::string debug_options;  // DebugOptions, not looked into

  int64_t device_count() const { return num_replicas * num_partitions; }
};

Result<CompileRequest> ParseCompileOptions(std::string_view proto);
// XLA's options are known and mean nothing here; their values must still be of the right type.
Status CheckOverrides(const CompileOverrides& overrides);
// Wire format of what ParseCompileOptions understands (PJRT_Executable_GetCompileOptions).
std::string SerializeCompileOptions(const CompileRequest& request);
// DeviceAssignmentProto.
std::string SerializeDeviceAssignment(const CompileRequest& request);

}  // namespace weft::client
