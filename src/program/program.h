// Program: what runs. Buffers, kernels and steps; printable, parsable (FORMAT.md), verifiable and
// interpretable, and the same for every target.
//
// Semantics
//  Devices   `devices` machines run the same steps, each on its own buffers. They meet in
//            collectives, in groups of device numbers.
//  Buffers   Flat bytes. A buffer has its own storage, or lies inside another one (`base`) at an
//            offset: slices of an arena, reinterpretations, results that take over a donated
//            parameter. Shapes and dtypes say what the bytes are; the layout matters only to those
//            outside who fill parameters and read results.
//  Steps     Each step lists its uses: slices it reads, writes or updates, nested steps included
//            (AllUses). The list order is a correct order. An executor may run two steps at once
//            or swap them when neither writes what the other uses; steps with effects outside the
//            buffers (collective, send, recv, library calls marked so) keep their order.
//  Async     A step with an `event` starts where it stands and has ended after the `wait` of that
//            event in the same list. Between the two nothing touches what it writes nor writes
//            what it reads; of a list of steps, what any step inside does. A list with effects has
//            no other steps with effects beside it.
//  While     runs `condition`, reads the pred, stops if false, runs `body`, again.
//  If/switch runs one branch: for a pred branch 0 if true, 1 if false; for an s32 the branch of
//            that number, the last one for numbers out of range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/literal.h"
#include "base/shape.h"
#include "program/kernel.h"

namespace weft::program {

using BufferId = int32_t;

enum class BufferKind : uint8_t { kTemp, kParameter, kResult, kConstant };
enum class MemorySpace : uint8_t { kDevice, kHost, kPinned };  // kPinned: host, visible to devices
// Whether the program may write into a parameter. kMay: the executor copies first if the caller
// keeps the argument. kMust: the caller has to give it away.
enum class Donation : uint8_t { kNone, kMay, kMust };

struct Buffer {
  std::string name;
  Shape shape;  // static array; with a layout where the outside cares
  // Elements of two or four bits lie four or two to a byte, the first in its lowest bits, in
  // row-major order. Kernels see such a buffer as the bytes that it is.
  bool packed = false;
  BufferKind kind = BufferKind::kTemp;
  int64_t index = 0;  // number of the parameter or result
  // Of a parameter or result s32[]: the run-time size of dimension `size_dim` of that parameter or
  // result, whose shape is the bound. Such parameters and results come last.
  int64_t size_of = -1, size_dim = 0;
  Donation donation = Donation::kNone;
  MemorySpace space = MemorySpace::kDevice;
  int64_t align = 64;  // bytes; a power of two; buffers with a base take what they get
  BufferId base = -1;  // lies in that buffer, which has no base itself
  int64_t offset = 0;  // bytes into the base
  Literal value;       // kConstant
  Position pos;
};
// Bytes of a buffer; nullopt if that overflows or the shape is not a static array.
std::optional<int64_t> ByteSize(const Buffer& buffer);

struct Slice {
  BufferId buffer = -1;
  int64_t offset = 0, size = 0;  // bytes
};
struct Use {
  Access access = Access::kRead;
  Slice slice;
  // Of a launch in a native region, a hint: the recurrence depth of what the slice holds before it,
  // the latency in cycles from what the iteration before left (critical_path.h).
  int64_t depth = 0;
};

using AttrValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;
struct Attr {
  std::string name;
  AttrValue value;
};

enum class CollectiveKind : uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kPermute };
enum class ReduceOp : uint8_t { kAdd, kMul, kMin, kMax, kAnd, kOr };

struct Step;
// Uses of a KernelStep: one for each parameter of the kernel, same access, byte size and dtype (or
// the complex type over it; u8 for a packed buffer). No two overlap unless both are read.
struct KernelStep {
  int32_t kernel = -1;  // index into Program::kernels
};
struct CopyStep {};                // read source, write destination: same size, any memory spaces
struct FillStep {                  // write
  std::vector<std::byte> pattern;  // 1, 2, 4, 8 or 16 bytes, repeated
};
struct LibraryStep {  // a routine by name; library.h lists those known here
  std::string routine;
  std::vector<Attr> attrs;
  bool has_effects = false;  // keeps its order among steps with effects
};
// n reads, then n writes, paired; buffers are flat. Groups list device numbers in their order;
// none: all devices are one group. kPermute: groups are (source, target) pairs; who is no target
// receives zeroes, and only devices that are named meet.
struct CollectiveStep {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ReduceOp reduce = ReduceOp::kAdd;
  std::vector<std::vector<int64_t>> groups;
  int64_t channel = 0;
};
struct SendStep {  // read: to the host, through a numbered channel
  int64_t channel = 0;
};
struct RecvStep {  // write
  int64_t channel = 0;
};
struct WaitStep {  // no uses
  std::string event;
};
// A loop that is one function on targets that compile loops, with its kernels inlined: a native
// region (regions.h). Hints, of which nothing changes what is computed.
struct RegionLocal {  // a buffer that it keeps in registers or on its stack
  BufferId buffer;
  bool copy_in = false, copy_out = false;  // its content comes from, goes to, the buffer
};
struct Region {
  std::vector<RegionLocal> locals;  // by buffer; all have storage of their own
  std::vector<BufferId> constants;  // that become part of its code, sorted
  int64_t prologue = 0;             // steps right before the loop that run in it too
};
struct WhileStep {  // reads the pred, and where it counts the counter and perhaps its limit
  std::optional<int64_t> trip_count;  // a promise
  // Another one: the condition is whether the counter, one s32 or s64, is below the limit of the
  // same type, which stays as it is; an iteration adds `count_step`, without wrapping around. 0:
  // nothing is promised.
  int64_t count_step = 0;
  std::optional<int64_t> count_limit;  // where no buffer holds it
  std::optional<Region> region;
  std::vector<Step> condition, body;
};
struct ConditionalStep {  // reads the selector
  std::vector<std::vector<Step>> branches;
};
// No uses of its own. Asynchronous, it runs on a thread or stream of its own: a call that goes on
// beside the steps behind it.
struct ListStep {
  std::string thread;  // a name for readers: "host", "parallel"
  std::vector<Step> steps;
};

struct Step {
  std::variant<KernelStep, CopyStep, FillStep, LibraryStep, CollectiveStep, SendStep, RecvStep,
               WaitStep, WhileStep, ConditionalStep, ListStep>
      op;
  std::vector<Use> uses;  // of this step alone, without nested steps
  std::string name;       // for errors and profiles
  std::string source;     // "model.py:12"
  std::string op_name;    // "jit(step)/mlp/dot_general": scopes of the framework
  std::string event;      // not empty: asynchronous, see above
  int stream = 0;         // a hint
  Position pos;
};
// Calls fn for each list of steps right inside of a step.
template <class AnyStep, class Fn>
void ForEachList(AnyStep& step, const Fn& fn) {
  if (auto* loop = std::get_if<WhileStep>(&step.op)) {
    fn(loop->condition);
    fn(loop->body);
  } else if (auto* conditional = std::get_if<ConditionalStep>(&step.op)) {
    for (auto& branch : conditional->branches) fn(branch);
  } else if (auto* list = std::get_if<ListStep>(&step.op)) {
    fn(list->steps);
  }
}
// Calls fn for every step of a list and those inside them, outer ones first.
template <class Steps, class Fn>
void ForEachStep(Steps&& steps, const Fn& fn) {
  for (auto& step : steps) {
    fn(step);
    ForEachList(step, [&](auto& list) { ForEachStep(list, fn); });
  }
}
// Calls fn for the steps of a region: the prologue, the loop, the steps inside.
template <class Fn>
void ForRegion(const std::vector<Step>& steps, size_t loop, int64_t prologue, const Fn& fn) {
  for (size_t i = loop - static_cast<size_t>(prologue); i <= loop; ++i) fn(steps[i]);
  const auto& op = std::get<WhileStep>(steps[loop].op);
  ForEachStep(op.condition, fn);
  ForEachStep(op.body, fn);
}
bool HasLists(const Step& step);              // of steps inside
bool IsAsyncList(const Step& step);           // a list that goes on beside the steps behind it
bool RunsInRegion(const Step& step);          // may be part of a native region
std::string_view KindName(const Step& step);  // "launch", "copy", ...
bool HasEffects(const Step& step);            // nested steps included
std::vector<Use> AllUses(const Step& step);   // nested steps included

struct Program {
  std::string name;
  int64_t devices = 1;
  bool flush_subnormals = false;  // arithmetic takes them as zeros (base/float_mode.h)
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
  std::vector<Step> steps;
};

// The bytes that a slice means, in a buffer with storage of its own: ids of buffers with a base
// are replaced by the base.
Slice Resolve(const Program& program, const Slice& slice);
bool Overlap(const Slice& a, const Slice& b);  // of resolved slices

std::string Print(const Program& program);
std::string Print(const Kernel& kernel);
Result<Program> Parse(std::string_view text);
// `text`: what the program was parsed from, so that errors can show the line.
Status Verify(const Program& program, std::string_view text = {});
Status Verify(const Kernel& kernel, std::string_view text = {});

}  // namespace weft::program
