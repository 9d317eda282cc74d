// NVTX, the marks by which NVIDIA's tools know what a program does: ranges of runs and steps for
// profilers (Nsight Systems), and what libraries have written for compute-sanitizer's initcheck.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "gpu/libraries/dynamic_library.h"

namespace weft::gpu {

struct NvtxTables;  // where a tool puts its functions

// The tool that listens: a library that the tool itself names in the variable
// NVTX_INJECTION64_PATH, as NVIDIA's own headers find it. Without one all calls do nothing.
class Nvtx {
 public:
  // That of the process: of the first who asks, since a tool attaches once. Null: there is none.
  static const Nvtx* OfProcess(const std::string& library);
  // One at a time, tools ask for "the" tables; an empty name is no tool.
  explicit Nvtx(const std::string& library);
  ~Nvtx();

  bool has_ranges() const { return ranges_; }
  bool has_memory() const { return memory_; }
  const std::string& complaint() const { return complaint_; }  // why a library was of no use

  void Push(const std::string& name) const;  // of this thread
  void Pop() const;
  // Memory that kernels which the tool cannot follow write: it counts as initialised from here on.
  void MarkInitialized(void* stream, std::span<const std::span<const std::byte>> ranges) const;

 private:
  bool AttachRanges();
  bool AttachMemory();

  std::unique_ptr<NvtxTables> tables_;
  std::unique_ptr<DynamicLibrary> library_;  // null: none
  bool ranges_ = false, memory_ = false;
  void* domain_ = nullptr;
  std::string complaint_;
};

// A range of the thread's as long as it lives. `name` is asked for only where somebody listens.
class NvtxRange {
 public:
  template <class Name>
  NvtxRange(const Nvtx* tool, const Name& name)
      : tool_(tool != nullptr && tool->has_ranges() ? tool : nullptr) {
    if (tool_ != nullptr) tool_->Push(name());
  }
  ~NvtxRange() {
    if (tool_ != nullptr) tool_->Pop();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  const Nvtx* const tool_;
};

}  // namespace weft::gpu
