// Machines that schedules are made for: what an op and a collective take there. Plain numbers, from
// the description of a target (program/target.h, target_links.h) that passes ask too, so that the
// model is the same on every machine that compiles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/error.h"
#include "compiler/schedule/resources.h"
#include "hlo/op.h"
#include "program/target.h"

namespace weft::compiler::schedule {

struct Machine {
  std::string name;
  double memory = 0;        // bytes per second of a device's memory
  double launch = 0;        // seconds that each op takes besides
  double link = 0;          // bytes per second and direction between devices of one node
  double latency = 0;       // seconds that each collective takes besides
  double node_link = 0;     // bytes per second and device between nodes
  double node_latency = 0;  // seconds
  int64_t node_devices = 0;
  int64_t overlap = 1;                       // collectives on the wire at once, each at full speed
  double f64 = 0, f32 = 0, f16 = 0, f8 = 0;  // FLOP per second of matrix products

  program::TargetInfo device;  // what passes ask

  ResourceCounts limits{};  // of each kind on the wire at once; 0: as many as `overlap` says
  bool topology = false;    // two at once share at most one device of any two of their groups

  bool forwards_reshapes = false;  // a reshape is its operand, and takes nothing
  bool packs_operands = false;     // products read memory first and multiply then

  double FlopRate(DType dtype) const;
  // An op that multiplies and reads memory for so long.
  double Takes(double multiplying, double reading) const {
    return launch + (packs_operands ? multiplying + reading : std::max(multiplying, reading));
  }
};

// Devices of this kind, with the links that they have.
Machine MachineOf(const program::TargetInfo& device);
// "h200x8", "cpu", "h200x32"; changes follow: "h200x8,link=260e9,latency=13e-6".
Result<Machine> FindMachine(std::string_view text);

// Seconds on the wire of a collective over a group of `devices`: `bytes` is the whole gathered or
// unreduced buffer. Within a node by the ring model; across nodes the least of one ring, a tree and
// a ring in each node with one between them.
double CollectiveSeconds(const Machine& machine, hlo::Op kind, double bytes, int64_t devices);

}  // namespace weft::compiler::schedule
