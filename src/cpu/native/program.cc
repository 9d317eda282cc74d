#include "cpu/native/program.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"
#include "base/storage.h"
#include "base/thread_pool.h"
#include "base/trace.h"
#include "cpu/native/run.h"
#include "cpu/render/kernel.h"
#include "program/cost.h"
#include "program/library.h"

namespace weft::cpu {
namespace {

using program::BufferKind;

// Elements in the order of the shape's layout, packed where the buffer is.
Literal InLayout(const program::Buffer& buffer) {
  if (buffer.packed) {
    std::vector<std::byte> bytes = buffer.value.Pack();
    Literal packed = Literal::Uninitialized(Shape(DType::kU8, {std::ssize(bytes)}));
    std::copy(bytes.begin(), bytes.end(), packed.mutable_data());
    return packed;
  }
  const Layout* layout = buffer.shape.layout();
  if (!layout || layout->IsRowMajor() || buffer.value.size() == 0) return buffer.value;
  const Shape& shape = buffer.shape;
  Literal out = Literal::Uninitialized(buffer.value.shape());
  size_t width = static_cast<size_t>(ByteWidth(shape.dtype()));
  std::vector<int64_t> stride(static_cast<size_t>(shape.rank()), 0), index = stride;
  int64_t next = 1;
  for (int64_t d : layout->minor_to_major) {
    stride[d] = next;
    next *= shape.dim(d);
  }
  std::byte* to = out.mutable_data();
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t at = 0;
    for (int64_t d = 0; d < shape.rank(); ++d) at += index[d] * stride[d];
    std::memcpy(to + static_cast<size_t>(at) * width,
                buffer.value.data() + static_cast<size_t>(i) * width, width);
    for (int64_t d = shape.rank() - 1; d >= 0 && ++index[d] == shape.dim(d); --d) index[d] = 0;
  }
  return out;
}

// Has nothing; what is made is stored in the place of what was there.
class ReplacedObjects : public runtime::ObjectCache {
 public:
  explicit ReplacedObjects(runtime::ObjectCache& cache) : cache_(cache) {}
  std::optional<std::string> Find(std::string_view) override { return std::nullopt; }
  void Store(std::string_view key, std::string_view object) override { cache_.Store(key, object); }

 private:
  runtime::ObjectCache& cache_;
};

}  // namespace

NativeProgram::~NativeProgram() = default;

Result<std::unique_ptr<NativeProgram>> NativeProgram::Load(program::Program program,
                                                           const runtime::LoadOptions& options,
                                                           std::shared_ptr<CompilerPool> compilers,
                                                           const RenderTarget& target) {
  TRY(Verify(program));
  for (const program::Kernel& kernel : program.kernels) {
    for (const program::Instr& instr : kernel.code) {
      if (Info(instr.op).cls != program::OpClass::kFunction) continue;
      return Unimplemented(Name(instr.op), ": kernel ", kernel.name,
                           " has a function that CPUs lack",
                           "\n  hint: compile it for this target, which expands functions");
    }
  }
  std::unique_ptr<NativeProgram> loaded(
      new NativeProgram(std::move(program), std::move(compilers), target));
  loaded->plan_ = TRY(MakePlan(loaded->program_, target));
  TRY(loaded->Compile(options));
  TRY(loaded->PlaceConstants());
  loaded->BindArguments();
  TRY(loaded->PrepareRoutines());
  return loaded;
}

Status NativeProgram::Compile(const runtime::LoadOptions& options) {
  auto start = std::chrono::steady_clock::now();
  metrics::Timer timer(metrics::kCodegenSeconds);
  trace::Span span(trace::Kind::kPhase,
                   [&] { return trace::What{.name = "codegen", .program = program_.name}; });
  int parts = options.compile_threads > 0 ? options.compile_threads : DefaultPool().threads();
  std::vector<RenderedModule> modules = RenderProgram(program_, plan_, target_, parts, false);
  for (const RenderedModule& module : modules) stats_.kernels += module.kernels;
  const runtime::LoadStats before = stats_;
  Status linked = Link(TRY(CompileModules(*compilers_, program_.name, modules, options, stats_)));
  if (!linked && stats_.from_cache > 0) {
    VLOG("cache", 1) << "objects of the cache cannot be used: " << linked.error();
    ReplacedObjects replaced(*options.cache);
    runtime::LoadOptions again = options;
    again.cache = &replaced;
    stats_ = before;
    linked = Link(TRY(CompileModules(*compilers_, program_.name, modules, again, stats_)));
  }
  TRY(std::move(linked));
  stats_.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return {};
}

Status NativeProgram::Link(const std::vector<std::string>& objects) {
  trace::Span span(trace::Kind::kPhase,
                   [&] { return trace::What{.name = "link", .program = program_.name}; });
  image_ = TRY(CodeImage::Link(objects));
  if (HasControlFlow(program_)) {
    run_ = reinterpret_cast<RunFunction>(TRY(image_->Find("weft_run")));
  }
  lists_.assign(plan_.lists.size(), nullptr);
  for (size_t i = 0; run_ != nullptr && i < lists_.size(); ++i) {
    const std::string name = ListName(static_cast<int32_t>(i));
    lists_[i] = reinterpret_cast<RunFunction>(TRY(image_->Find(name)));
  }
  list_threads_ = std::min<int64_t>(std::ssize(lists_), DefaultPool().limit());
  return PrepareSequences();
}

Status NativeProgram::PrepareSequences() {
  sequences_.clear();
  using Kind = SequenceStep::Kind;
  for (const Region& region : plan_.regions) region_items_.push_back(ItemOf(*region.loop));
  std::vector<TaskFunction> tasks(program_.kernels.size());
  for (const auto& steps : plan_.sequences) {
    std::vector<SequenceStep>& sequence = sequences_.emplace_back();
    for (const program::Step* step : steps) {
      SequenceStep next{Kind::kCall, nullptr, 0, ArgumentsOf(program_, plan_, *step), {}, step};
      next.item = ItemOf(*step);
      if (auto* launch = std::get_if<program::KernelStep>(&step->op)) {
        int32_t kernel = plan_.same_as[launch->kernel];
        if (!tasks[kernel]) {
          tasks[kernel] = reinterpret_cast<TaskFunction>(TRY(image_->Find(TaskName(kernel))));
        }
        next.kind = Kind::kKernel;
        next.task = tasks[kernel];
        next.n = GridSize(program_.kernels[kernel]);
      } else if (std::holds_alternative<program::CopyStep>(step->op)) {
        next.kind = Kind::kCopy;
        next.n = step->uses[0].slice.size;
      } else if (auto* fill = std::get_if<program::FillStep>(&step->op)) {
        next.kind = Kind::kFill;
        next.n = step->uses[0].slice.size;
        next.pattern = fill->pattern;
      } else {
        next.n = plan_.call_numbers.at(step);
      }
      most_arguments_ = std::max(most_arguments_, next.arguments.size());
      if (next.n > 0 || next.kind == Kind::kCall) sequence.push_back(std::move(next));
    }
    JoinIndependentKernels(sequence);
  }
  return {};
}

Status NativeProgram::PlaceConstants() {
  table_.resize(static_cast<size_t>(plan_.slots), nullptr);
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const program::Buffer& buffer = program_.buffers[i];
    if (buffer.kind != BufferKind::kConstant || buffer.base >= 0) continue;
    constants_.push_back(InLayout(buffer));
    // Never written: the verifier sees to that.
    table_[plan_.places[i].slot] = const_cast<std::byte*>(constants_.back().data());
  }
  return {};
}

void NativeProgram::BindArguments() {
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const program::Buffer& buffer = program_.buffers[i];
    bool parameter = buffer.kind == BufferKind::kParameter;
    bool result = buffer.kind == BufferKind::kResult;
    parameters_ += parameter;
    results_ += result;
    if (!parameter && !result) continue;
    if (buffer.base < 0) {
      bindings_.push_back({plan_.places[i].slot, buffer.index, plan_.places[i].bytes, result});
    } else if (result) {
      donated_.push_back({buffer.index, program_.buffers[buffer.base].index, buffer.offset});
    }
  }
}

Status NativeProgram::PrepareRoutines() {
  auto find = [this](std::string_view name, std::string (*function_of)(int32_t)) -> void* {
    for (size_t i = 0; i < program_.kernels.size(); ++i) {
      if (program_.kernels[i].name != name) continue;
      auto found = image_->Find(function_of(plan_.same_as[i]));
      return found ? *found : nullptr;
    }
    return nullptr;
  };
  auto kernel = [&](std::string_view name) {
    return reinterpret_cast<KernelFunction>(find(name, CalledName));
  };
  auto task = [&](std::string_view name) {
    return reinterpret_cast<KernelTask>(find(name, TaskName));
  };
  std::set<const program::Step*> beside;  // steps of asynchronous lists
  int64_t beside_bytes = 0;
  for (const AsyncList& list : plan_.lists) {
    ForEachStep(std::get<program::ListStep>(list.step->op).steps,
                [&](const program::Step& step) { beside.insert(&step); });
  }
  for (const program::Step* step : plan_.calls) {
    routines_.emplace_back();
    auto* call = std::get_if<program::LibraryStep>(&step->op);
    const Routine* routine = call ? FindRoutine(call->routine) : nullptr;
    if (!routine) continue;
    VLOG("cpu", 3) << step->name << ": call of " << call->routine;
    auto prepared = routine->prepare({program_, *step, kernel, task});
    if (!prepared) return std::unexpected(AtStep(*step, prepared.error()));
    routines_.back() = std::move(*prepared);
    int64_t bytes = routines_.back()->ScratchBytes(DefaultPool().limit());
    if (bytes > scratch_.bytes) scratch_ = {bytes, step};
    if (beside.contains(step)) beside_bytes = std::max(beside_bytes, bytes);
  }
  scratch_.bytes += list_threads_ * beside_bytes;  // at once with others
  if (scratch_.bytes > 0) {
    // Parts of the room are whole units.
    constexpr int64_t kUnit = kStorageAlignment, kPartsEach = 4;
    room_offset_ = (plan_.arena_bytes + kUnit - 1) / kUnit * kUnit;
    room_bytes_ = scratch_.bytes + kUnit * kPartsEach * (1 + DefaultPool().limit());
  }
  return {};
}

}  // namespace weft::cpu
