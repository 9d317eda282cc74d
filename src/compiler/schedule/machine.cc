#include "compiler/schedule/machine.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/nearest.h"
#include "base/str.h"
#include "program/target_links.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Op;

// Two cores, as measured; a collective is a copy through shared memory.
Machine TwoCores() {
  program::TargetInfo device = program::TargetInfo::GenericCpu();
  device.bytes_per_second = 96e9;
  device.launch_seconds = 1e-6;
  device.f32_flops = 142e9;
  device.bf16_matrix_flops = 472e9;
  Machine machine = MachineOf(device);
  machine.f64 = 80e9;
  machine.f8 = 866e9;
  return machine;
}

// "h200x8": the preset of a GPU and how many of them; nothing: no such machine.
std::optional<Machine> FindGpus(std::string_view name) {
  for (const program::NamedTarget& target : program::NamedTargets()) {
    if (!name.starts_with(target.name)) continue;
    const std::string_view rest = name.substr(target.name.size());
    if (!rest.starts_with("x")) continue;
    const program::TargetInfo device = target.make();
    const std::optional<int64_t> devices = ParseInt(rest.substr(1));
    if (device.RunsOnHost() || !devices || *devices < 1 || *devices > 65536) return {};
    return MachineOf(device);
  }
  return {};
}

struct Setting {
  std::string_view key;
  double Machine::* field;
  double program::TargetInfo::* of_device = nullptr;  // what passes ask
};
using Info = program::TargetInfo;
constexpr Setting kSettings[] = {{"memory", &Machine::memory, &Info::bytes_per_second},
                                 {"launch", &Machine::launch, &Info::launch_seconds},
                                 {"link", &Machine::link},
                                 {"latency", &Machine::latency},
                                 {"node_link", &Machine::node_link},
                                 {"node_latency", &Machine::node_latency},
                                 {"f64", &Machine::f64},
                                 {"f32", &Machine::f32},
                                 {"f16", &Machine::f16, &Info::bf16_matrix_flops},
                                 {"f8", &Machine::f8}};

Status Change(Machine& machine, std::string_view item) {
  size_t equals = item.find('=');
  std::string_view key = item.substr(0, equals);
  std::optional<double> value;
  if (equals != item.npos) value = ParseDouble(item.substr(equals + 1));
  if (!value || !std::isfinite(*value) || *value < 0) {
    return InvalidArgument("target: not key=number: ", item);
  }
  if (key == "overlap" && *value >= 1 && *value <= 64) {
    machine.overlap = static_cast<int64_t>(*value);
    return {};
  }
  if (key == "topology" && (*value == 0 || *value == 1)) {
    machine.topology = *value == 1;
    return {};
  }
  if (std::optional<Resource> kind = FindResource(key); kind && *kind < Resource::kCopy) {
    if (*value < 1 || *value > 64) return InvalidArgument("target: not 1 to 64 at once: ", item);
    machine.limits[static_cast<size_t>(*kind)] = static_cast<int64_t>(*value);
    return {};
  }
  for (const Setting& s : kSettings) {
    if (s.key != key) continue;
    bool is_rate = key != "launch" && key != "latency" && key != "node_latency";
    if (is_rate && *value == 0) return InvalidArgument("target: a rate of zero: ", item);
    machine.*s.field = *value;
    if (s.of_device != nullptr) machine.device.*s.of_device = *value;
    return {};
  }
  auto error = InvalidArgument("target: unknown setting or value: ", item);
  error.error().Hint(
      "settings are memory, launch, link, latency, node_link, node_latency, f64, f32, f16, f8, "
      "overlap (1 to 64), topology (0 or 1), and kinds of collectives (all-gather=1)");
  return error;
}

}  // namespace

Machine MachineOf(const program::TargetInfo& device) {
  const program::TargetLinks links = program::TargetLinks::Of(device);
  const double matrix = std::max(device.f32_flops, device.bf16_matrix_flops);
  return {.name = device.name,
          .memory = device.bytes_per_second,
          .launch = device.launch_seconds,
          .link = links.bytes_per_second,
          .latency = links.seconds,
          .node_link = links.node_bytes_per_second,
          .node_latency = links.node_seconds,
          .node_devices = links.node_devices,
          .overlap = links.at_once,
          .f64 = device.RunsOnHost() ? device.f32_flops / 2 : device.f32_flops,
          .f32 = device.tf32 ? device.bf16_matrix_flops / 2 : device.f32_flops,
          .f16 = matrix,
          .f8 = device.RunsOnHost() ? matrix : 2 * matrix,
          .device = device};
}

double Machine::FlopRate(DType dtype) const {
  switch (BitWidth(dtype)) {
    case 64: return dtype == DType::kF64 ? f64 : f32;
    case 16: return device.matrix_tiles && !device.MatrixUnitsTake(dtype) ? f32 : f16;
    case 8: {
      bool by_vectors = device.matrix_tiles && IsFloat(dtype);
      return dtype == DType::kPred || by_vectors ? f32 : f8;
    }
    default: return f32;
  }
}

Result<Machine> FindMachine(std::string_view text) {
  std::string_view name = text.substr(0, text.find(','));
  std::optional<Machine> found = name == "cpu" ? TwoCores() : FindGpus(name);
  if (!found) {
    auto error = InvalidArgument("target: unknown: ", name);
    error.error().Hint(
        "targets are cpu and h200xN, N the number of devices: h200x8; likewise a100, b200, "
        "rtx5090");
    return error;
  }
  Machine machine = *std::move(found);
  for (size_t at = name.size(); at < text.size();) {
    size_t end = std::min(text.find(',', at + 1), text.size());
    TRY(Change(machine, text.substr(at + 1, end - at - 1)));
    at = end;
  }
  machine.name = text;
  return machine;
}

double CollectiveSeconds(const Machine& m, Op kind, double bytes, int64_t devices) {
  bool is_point_to_point = kind == Op::kCollectivePermute || kind == Op::kCollectivePermuteStart ||
                           kind == Op::kCollectiveBroadcast || kind == Op::kSend ||
                           kind == Op::kRecv;
  bool is_reduction = kind == Op::kAllReduce || kind == Op::kAllReduceStart;
  double passes = is_reduction ? 2 : 1;
  auto share = [&](double n) { return is_point_to_point ? 1 : (n - 1) / n; };
  double n = static_cast<double>(std::max<int64_t>(devices, 1));
  if (devices <= m.node_devices) return bytes * passes * share(n) / m.link + m.latency;
  double nodes = std::ceil(n / static_cast<double>(m.node_devices));
  double within = static_cast<double>(m.node_devices);
  double ring = bytes * passes * share(n) / m.node_link + m.node_latency * nodes;
  double tree = bytes * passes / m.node_link + m.node_latency * std::ceil(std::log2(nodes));
  double hierarchical = bytes * passes * share(within) / m.link +
                        bytes / within * passes * share(nodes) / m.node_link + m.latency +
                        m.node_latency;
  return is_point_to_point ? ring : std::min({ring, tree, hierarchical});
}

}  // namespace weft::compiler::schedule
