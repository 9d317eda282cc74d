// Links between devices of a target, beside TargetInfo: what collectives cost there, and how many
// are on the wire at once. Partitioner, passes and scheduler ask the same figures.
#pragma once

#include <cstdint>

#include "program/target.h"

namespace weft::program {

struct TargetLinks {
  double bytes_per_second = 10e9;         // of one device and direction, within a node
  double seconds = 20e-6;                 // that each collective takes besides
  double node_bytes_per_second = 1.25e9;  // of one device, between nodes
  double node_seconds = 50e-6;
  int64_t node_devices = 64;
  int64_t at_once = 1;  // collectives on the wire, each at full speed

  static TargetLinks Of(const TargetInfo& target);
};

}  // namespace weft::program
