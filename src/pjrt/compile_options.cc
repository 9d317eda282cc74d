#include "pjrt/compile_options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "pjrt/wire.h"

namespace weft::pjrt {
namespace {

constexpr int64_t kMaxDevices = 1 << 16;  // replicas times partitions

Result<std::vector<int64_t>> ParseDeviceAssignment(std::string_view proto) {
  int64_t replicas = 0, partitions = 0;
  std::vector<std::vector<int64_t>> by_partition;
  WireReader reader(proto);
  while (!reader.AtEnd()) {
    WireField field = TRY(reader.Next());
    switch (field.number) {
      case 1: replicas = field.integer(); break;
      case 2: partitions = field.integer(); break;
      case 3: {
        std::vector<int64_t>& ids = by_partition.emplace_back();
        WireReader devices(field.bytes);
        while (!devices.AtEnd()) {
          WireField device = TRY(devices.Next());
          if (device.number != 1) continue;
          TRY(ForEachNumber(device, [&](uint64_t id) { ids.push_back(static_cast<int64_t>(id)); }));
        }
        break;
      }
      default: break;
    }
  }
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

Status ParseBuildOptions(std::string_view proto, CompileRequest& request) {
  WireReader reader(proto);
  auto append = [](std::vector<bool>& to) {
    return [&to](uint64_t value) { to.push_back(value != 0); };
  };
  while (!reader.AtEnd()) {
    WireField field = TRY(reader.Next());
    switch (field.number) {
      case 1: request.device_ordinal = field.integer(); break;
      case 3: request.debug_options = field.bytes; break;
      case 4: request.num_replicas = field.integer(); break;
      case 5: request.num_partitions = field.integer(); break;
      case 6: request.use_spmd_partitioning = field.boolean(); break;
      case 9: request.device_assignment = TRY(ParseDeviceAssignment(field.bytes)); break;
      case 12: TRY(ForEachNumber(field, append(request.propagate_sharding_to_output))); break;
      case 15: request.device_memory_size = field.integer(); break;
      case 18: TRY(ForEachNumber(field, append(request.propagate_sharding_to_parameters))); break;
      case 19: request.use_shardy_partitioner = field.boolean(); break;
      default: break;
    }
  }
  return {};
}

Status ParseOverride(std::string_view proto, CompileRequest& request) {
  std::string key;
  std::variant<std::string, bool, int64_t, double> value;
  WireReader entry(proto);
  while (!entry.AtEnd()) {
    WireField field = TRY(entry.Next());
    if (field.number == 1) key = field.bytes;
    if (field.number != 2) continue;
    WireReader reader(field.bytes);
    while (!reader.AtEnd()) {
      WireField choice = TRY(reader.Next());
      switch (choice.number) {
        case 1: value = std::string(choice.bytes); break;
        case 2: value = choice.boolean(); break;
        case 3: value = choice.integer(); break;
        case 4: value = choice.number64(); break;
        default: break;
      }
    }
  }
  request.overrides[std::move(key)] = std::move(value);
  return {};
}

std::string SerializeOverride(const std::variant<std::string, bool, int64_t, double>& value) {
  std::string out;
  if (auto* text = std::get_if<std::string>(&value)) {
    AppendBytes(out, 1, *text);
  } else if (auto* flag = std::get_if<bool>(&value)) {
    AppendVarint(out, 2 << 3);
    AppendVarint(out, *flag ? 1 : 0);
  } else if (auto* integer = std::get_if<int64_t>(&value)) {
    AppendVarint(out, 3 << 3);
    AppendVarint(out, static_cast<uint64_t>(*integer));
  } else {
    AppendVarint(out, 4 << 3 | 1);
    auto bits = std::bit_cast<uint64_t>(std::get<double>(value));
    for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(bits >> (8 * i)));
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
#include "pjrt/xla_options.inc"
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
    if (!type) return InvalidArgument("No such compile option: '", key, "'");
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
  while (!reader.AtEnd()) {
    WireField field = TRY(reader.Next());
    switch (field.number) {
      case 2: request.tupled_arguments = field.boolean(); break;
      case 3: TRY(ParseBuildOptions(field.bytes, request)); break;
      case 4: request.portable_executable = field.boolean(); break;
      case 7: TRY(ParseOverride(field.bytes, request)); break;
      default: break;
    }
  }
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
  std::string out;
  AppendNumber(out, 1, request.num_replicas);
  AppendNumber(out, 2, request.num_partitions);
  for (int64_t p = 0; p < request.num_partitions; ++p) {
    std::vector<int64_t> ids;
    for (int64_t r = 0; r < request.num_replicas; ++r) {
      int64_t at = r * request.num_partitions + p;
      ids.push_back(request.device_assignment.empty()
                        ? at
                        : request.device_assignment[static_cast<size_t>(at)]);
    }
    std::string devices;
    AppendPacked(devices, 1, ids);
    AppendBytes(out, 3, devices);
  }
  return out;
}

std::string SerializeCompileOptions(const CompileRequest& request) {
  std::string build;
  AppendVarint(build, 1 << 3);  // also zero: to us an absent one is -1
  AppendVarint(build, static_cast<uint64_t>(request.device_ordinal));
  if (!request.debug_options.empty()) AppendBytes(build, 3, request.debug_options);
  AppendNumber(build, 4, request.num_replicas);
  AppendNumber(build, 5, request.num_partitions);
  AppendNumber(build, 6, request.use_spmd_partitioning);
  if (!request.device_assignment.empty()) {
    AppendBytes(build, 9, SerializeDeviceAssignment(request));
  }
  AppendPacked(build, 12, request.propagate_sharding_to_output);
  AppendNumber(build, 15, request.device_memory_size);
  AppendPacked(build, 18, request.propagate_sharding_to_parameters);
  AppendNumber(build, 19, request.use_shardy_partitioner);
  std::string out;
  AppendNumber(out, 2, request.tupled_arguments);
  AppendBytes(out, 3, build);
  AppendNumber(out, 4, request.portable_executable);
  for (const auto& [key, value] : request.overrides) {
    std::string entry;
    AppendBytes(entry, 1, key);
    AppendBytes(entry, 2, SerializeOverride(value));
    AppendBytes(out, 7, entry);
  }
  return out;
}

}  // namespace weft::pjrt
