#include "compiler/schedule/machine.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/nearest.h"
#include "base/str.h"

namespace weft::compiler::schedule {
namespace {

using hlo::Op;

// Measured where the numbers come from real machines: matrix products and copies of one H200, and a
// ring over NVLink; between nodes one 400 Gbit/s adapter a device.
Machine H200(int64_t devices) {
  return {.name = StrCat("h200x", devices),
          .memory = 4.3e12,
          .launch = 2e-6,
          .link = 370e9,
          .latency = 10e-6,
          .node_link = 45e9,
          .node_latency = 25e-6,
          .node_devices = 8,
          .f64 = 60e12,
          .f32 = 395e12,
          .f16 = 790e12,
          .f8 = 1580e12};
}

// Devices of one process on two cores; a collective is a copy through shared memory.
Machine Cpu() {
  return {.name = "cpu",
          .memory = 96e9,
          .launch = 1e-6,
          .link = 10e9,
          .latency = 20e-6,
          .node_link = 1.25e9,
          .node_latency = 50e-6,
          .node_devices = 64,
          .f64 = 80e9,
          .f32 = 142e9,
          .f16 = 472e9,
          .f8 = 866e9};
}

struct Setting {
  std::string_view key;
  double Machine::* field;
};
constexpr Setting kSettings[] = {{"memory", &Machine::memory},
                                 {"launch", &Machine::launch},
                                 {"link", &Machine::link},
                                 {"latency", &Machine::latency},
                                 {"node_link", &Machine::node_link},
                                 {"node_latency", &Machine::node_latency},
                                 {"f64", &Machine::f64},
                                 {"f32", &Machine::f32},
                                 {"f16", &Machine::f16},
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
    return {};
  }
  auto error = InvalidArgument("target: unknown setting or value: ", item);
  error.error().Hint(
      "settings are memory, launch, link, latency, node_link, node_latency, f64, f32, f16, f8, "
      "overlap (1 to 64), topology (0 or 1), and kinds of collectives (all-gather=1)");
  return error;
}

}  // namespace

double Machine::FlopRate(DType dtype) const {
  switch (BitWidth(dtype)) {
    case 64: return dtype == DType::kF64 ? f64 : f32;
    case 16: return f16;
    case 8: return dtype == DType::kPred ? f32 : f8;
    default: return f32;
  }
}

Result<Machine> FindMachine(std::string_view text) {
  std::string_view name = text.substr(0, text.find(','));
  Machine machine;
  std::optional<int64_t> devices;
  if (name.starts_with("h200x")) devices = ParseInt(name.substr(5));
  if (name == "cpu") {
    machine = Cpu();
  } else if (devices && *devices >= 1 && *devices <= 65536) {
    machine = H200(*devices);
  } else {
    auto error = InvalidArgument("target: unknown: ", name);
    error.error().Hint("targets are cpu and h200xN, N the number of devices: h200x8");
    return error;
  }
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
