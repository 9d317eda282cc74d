// What graphs need of a device: values that stay there, programs, running them. The client's
// objects are behind it (client_backend.h); tests have their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "serve/device_selector.h"
#include "serve/model_folder.h"

namespace weft::serve {

// A value in the device's memory.
class DeviceValue {
 public:
  virtual ~DeviceValue() = default;
};
using DeviceValueRef = std::shared_ptr<const DeviceValue>;

// One argument of a run: a value of the device, or one of the host that is brought there.
struct RunArgument {
  const DeviceValue* placed = nullptr;  // null: `host`
  Literal host = {};
};

// Nanoseconds of the parts of a run.
struct RunTimes {
  int64_t to_device = 0, run = 0, to_host = 0;
};

class Program {
 public:
  virtual ~Program() = default;
  virtual const std::vector<Shape>& parameters() const = 0;
  virtual const std::vector<Shape>& results() const = 0;
  // From any number of threads at once. `cancel`, once set, ends the run with an error.
  virtual Result<std::vector<Literal>> Run(std::vector<RunArgument> arguments,
                                           const std::atomic<bool>* cancel,
                                           RunTimes* times) const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string description() const = 0;  // "Weft CPU"
  virtual bool is_gpu() const = 0;
  // Runs that devices with memory of their own do side by side: so many queues, each of which does
  // its runs one after the other. 0: runs are work of the host's cores.
  virtual int Lanes() const { return 0; }
  // What each device has, where requests are spread over several; empty: one runs all.
  virtual std::vector<DeviceSelector::Load> DeviceLoads() const { return {}; }
  virtual Result<DeviceValueRef> Place(Literal value) = 0;
  // Whether a placed value of the same shape has these elements, bit by bit.
  virtual Result<bool> Holds(const DeviceValue& placed, const Literal& value) const = 0;
  virtual Result<std::shared_ptr<const Program>> Compile(const ProgramText& program) = 0;
};

}  // namespace weft::serve
