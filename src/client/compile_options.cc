#include "client/compile_options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "base/wire.h"

namespace weft::client {
namespace {

constexpr int64_t kMaxDevices = 1 << 16;  // replicas times partitions

std::unexpected<Error> MalformedOptions() {
  return InvalidArgument("compile options: not CompileOptionsProto in wire format");
}

Result<std::vector<int64_t>> ParseDeviceAssignment(std::string_view proto) {
  int64_t replicas = 0, partitions = 0;
  std::vector<std::vector<int64_t>> by_partition;
  WireReader reader(proto);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1: replicas = reader.Int(); break;
      case 2: partitions = reader.Int(); break;
      case 3: {
        WireReader devices(reader.Bytes());
        std::vector<int64_t>& ids = by_partition.emplace_back();
        while (devices.Next()) {
          if (devices.field() == 1) devices.Ints(ids);
        }
        if (!devices.ok()) return MalformedOptions();
        break;
      }
      default: break;
    }
  }
  if (!reader.ok()) return MalformedOptions();
  bool fits = replicas >= 0 && partitions >= 0 && replicas <= kMaxDevices &&
              static_cast<int64_t>(by_partition.size()) == partitions;
  for (const auto& ids : by_partition) fits &= static_cast<int64_t>(ids.size()) == replicas;
  if (!fits) {
    return InvalidArgument("compile options: the device assignment is not one of ", replicas,
                           " replicas by ", partitions, " partitions");
  }
  std::vector<int64_t> assignment;
  for (int64_t r = 0; r < replicas; ++r) {
    for (const auto& ids : by_partition) assignment.push_back(ids[static_cast<size_t>(r)]);
  }
  return assignment;
}

// Appends the booleans of a repeated field.
void AppendFlags(WireReader& reader, std::vector<bool>& to) {
  std::vector<int64_t> values;
  reader.Ints(values);
  for (int64_t value : values) to.push_back(value != 0);
}

Status ParseBuildOptions(std::string_view proto, CompileRequest& request) {
  WireReader reader(proto);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1: request.device_ordinal = reader.Int(); break;
      case 3: request.debug_options = reader.Bytes(); break;
      case 4: request.num_replicas = reader.Int(); break;
      case 5: request.num_partitions = reader.Int(); break;
      case 6: request.use_spmd_partitioning = reader.Bool(); break;
      case 9: request.device_assignment = TRY(ParseDeviceAssignment(reader.Bytes())); break;
      case 12: AppendFlags(reader, request.propagate_sharding_to_output); break;
      case 15: request.device_memory_size = reader.Int(); break;
      case 18: AppendFlags(reader, request.propagate_sharding_to_parameters); break;
      case 19: request.use_shardy_partitioner = reader.Bool(); break;
      default: break;
    }
  }
  if (!reader.ok()) return MalformedOptions();
  return {};
}

Status ParseOverride(std::string_view proto, CompileRequest& request) {
  std::string key;
  std::variant<std::string, bool, int64_t, double> value;
  WireReader entry(proto);
  while (entry.Next()) {
    if (entry.field() == 1) key = entry.Bytes();
    if (entry.field() != 2) continue;
    WireReader reader(entry.Bytes());
    while (reader.Next()) {
      switch (reader.field()) {
        case 1: value = std::string(reader.Bytes()); break;
        case 2: value = reader.Bool(); break;
        case 3: value = reader.Int(); break;
        case 4: value = reader.Double(); break;
        default: break;
      }
    }
    if (!reader.ok()) return MalformedOptions();
  }
  if (!entry.ok()) return MalformedOptions();
  request.overrides[std::move(key)] = std::move(value);
  return {};
}

WireWriter OverrideMessage(const std::variant<std::string, bool, int64_t, double>& value) {
  WireWriter out;
  if (auto* text = std::get_if<std::string>(&value)) {
    out.BytesAlways(1, *text);
  } else if (auto* flag = std::get_if<bool>(&value)) {
    out.IntAlways(2, *flag ? 1 : 0);
  } else if (auto* integer = std::get_if<int64_t>(&value)) {
    out.IntAlways(3, *integer);
  } else {
    out.DoubleAlways(4, std::get<double>(value));
  }
  return out;
}

enum class OptionType : uint8_t { kBool, kInt32, kInt64, kFloat, kText };

std::optional<OptionType> FindOption(std::string_view name) {
  struct Option {
    std::string_view name;
    OptionType type;
  };
  static constexpr Option kOptions[] = {
  // sorted
#define X(name, type) {#name, OptionType::type},
#include "client/xla_options.inc"
#undef X
  };
  const Option* found =
      std::lower_bound(std::begin(kOptions), std::end(kOptions), name,
                       [](const Option& option, std::string_view n) { return option.name < n; });
  if (found == std::end(kOptions) || found->name != name) return std::nullopt;
  return found->type;
}

bool ReadsAs(OptionType type, const std::string& text) {
  char* end = nullptr;
  switch (type) {
    case OptionType::kBool:
      return text == "true" || text == "false" || text == "True" || text == "False" ||
             text == "1" || text == "0";
    case OptionType::kInt32:
    case OptionType::kInt64: {
      int64_t value = 0;
      auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      return error == std::errc() && rest == text.data() + text.size() &&
             (type == OptionType::kInt64 || value == static_cast<int32_t>(value));
    }
    case OptionType::kFloat:
      std::strtof(text.c_str(), &end);
      return !text.empty() && end == text.c_str() + text.size();
    case OptionType::kText: return true;
  }
  return false;
}

bool IsValueOf(OptionType type, const CompileOverrides::mapped_type& value) {
  if (auto* text = std::get_if<std::string>(&value)) return ReadsAs(type, *text);
  if (auto* integer = std::get_if<int64_t>(&value)) {
    return type == OptionType::kInt64 || type == OptionType::kText ||
           (type == OptionType::kInt32 && *integer == static_cast<int32_t>(*integer));
  }
  return std::holds_alternative<bool>(value) ? type == OptionType::kBool
                                             : type == OptionType::kFloat;
}

std::string_view NameOf(OptionType type) {
  switch (type) {
    case OptionType::kBool: return "bool";
    case OptionType::kInt32: return "int32";
    case OptionType::kInt64: return "int64";
    case OptionType::kFloat: return "float";
    case OptionType::kText: return "string";
  }
  return "";
}

// Not among XLA's debug options, but JAX has them.
bool IsBuildOption(std::string_view key) {
  constexpr std::string_view kKeys[] = {"exec_time_optimization_effort", "memory_fitting_effort",
                                        "optimization_level", "memory_fitting_level",
                                        "fdo_profile"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

}  // namespace

// The words are XLA's, which programs look for.
Status CheckOverrides(const CompileOverrides& overrides) {
  for (const auto& [key, value] : overrides) {
    if (IsBuildOption(key)) continue;
    std::optional<OptionType> type = FindOption(key);
    if (!type) {
      auto error = InvalidArgument("No such compile option: '", key, "'");
      error.error().Hint(
          "compiler_options takes XLA's; Weft's own are set by WEFT_OPTIONS=key=value,... (weft "
          "help options)");
      return error;
    }
    if (IsValueOf(*type, value)) continue;
    std::string shown = std::visit([](const auto& v) { return StrCat(v); }, value);
    return InvalidArgument("While setting option ", key, ", '", shown, "' is not a valid ",
                           NameOf(*type), " value.");
  }
  return {};
}

Result<CompileRequest> ParseCompileOptions(std::string_view proto) {
  CompileRequest request;
  WireReader reader(proto);
  while (reader.Next()) {
    switch (reader.field()) {
      case 2: request.tupled_arguments = reader.Bool(); break;
      case 3: TRY(ParseBuildOptions(reader.Bytes(), request)); break;
      case 4: request.portable_executable = reader.Bool(); break;
      case 7: TRY(ParseOverride(reader.Bytes(), request)); break;
      default: break;
    }
  }
  if (!reader.ok()) return MalformedOptions();
  // Absent numbers arrive as zero.
  request.num_replicas = std::max<int64_t>(request.num_replicas, 1);
  request.num_partitions = std::max<int64_t>(request.num_partitions, 1);
  if (request.num_replicas > kMaxDevices || request.num_partitions > kMaxDevices ||
      request.device_count() > kMaxDevices) {
    return InvalidArgument("compile options: ", request.num_replicas, " replicas by ",
                           request.num_partitions, " partitions are too many devices");
  }
  if (!request.device_assignment.empty() &&
      static_cast<int64_t>(request.device_assignment.size()) != request.device_count()) {
    return InvalidArgument("compile options: ", request.device_assignment.size(),
                           " devices assigned to ", request.num_replicas, " replicas by ",
                           request.num_partitions, " partitions");
  }
  return request;
}

std::string SerializeDeviceAssignment(const CompileRequest& request) {
  WireWriter out;
  out.Int(1, request.num_replicas);
  out.Int(2, request.num_partitions);
  for (int64_t p = 0; p < request.num_partitions; ++p) {
    std::vector<int64_t> ids;
    for (int64_t r = 0; r < request.num_replicas; ++r) {
      int64_t at = r * request.num_partitions + p;
      ids.push_back(request.device_assignment.empty()
                        ? at
                        : request.device_assignment[static_cast<size_t>(at)]);
    }
    WireWriter devices;
    devices.Ints(1, ids);
    out.Message(3, devices);
  }
  return out.Take();
}

std::string SerializeCompileOptions(const CompileRequest& request) {
  WireWriter build;
  build.IntAlways(1, request.device_ordinal);  // also zero: to us an absent one is -1
  build.Bytes(3, request.debug_options);
  build.Int(4, request.num_replicas);
  build.Int(5, request.num_partitions);
  build.Int(6, request.use_spmd_partitioning);
  if (!request.device_assignment.empty()) build.Bytes(9, SerializeDeviceAssignment(request));
  build.Ints(12, request.propagate_sharding_to_output);
  build.Int(15, request.device_memory_size);
  build.Ints(18, request.propagate_sharding_to_parameters);
  build.Int(19, request.use_shardy_partitioner);
  WireWriter out;
  out.Int(2, request.tupled_arguments);
  out.Message(3, build);
  out.Int(4, request.portable_executable);
  for (const auto& [key, value] : request.overrides) {
    WireWriter entry;
    entry.BytesAlways(1, key);
    entry.Message(2, OverrideMessage(value));
    out.Message(7, entry);
  }
  return out.Take();
}

}  // namespace weft::client
