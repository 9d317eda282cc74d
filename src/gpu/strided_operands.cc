#include "gpu/strided_operands.h"

#include <algorithm>
#include <map>

#include "gpu/routines/gemm.h"
#include "program/library.h"

namespace weft::gpu {
namespace {

using program::Instr;
using program::Kernel;
using program::Op;
using program::Step;
using program::ValueId;

constexpr size_t kStepsApart = 8;  // a copy and the product that reads it

// Indices as sums of loop counters times constants.
class LinearIndices {
 public:
  explicit LinearIndices(const Kernel& kernel) : kernel_(kernel) {}
  void AddCounter(ValueId id, size_t number) { terms_[id] = {{number, 1}}; }
  // False: it is no such sum.
  bool Add(const Instr& i) {
    if (i.args.size() != 2 || i.results.empty()) return false;
    auto left = terms_.find(i.args[0]), right = terms_.find(i.args[1]);
    if (i.op == Op::kMul && left != terms_.end() && kernel_.value(i.args[1]).is_constant) {
      Terms scaled = left->second;
      for (auto& [counter, factor] : scaled) factor *= kernel_.value(i.args[1]).AsInt();
      terms_[i.results[0]] = std::move(scaled);
      return true;
    }
    if (i.op != Op::kAdd || left == terms_.end() || right == terms_.end()) return false;
    Terms sum = left->second;
    for (const auto& [counter, factor] : right->second) sum[counter] += factor;
    terms_[i.results[0]] = std::move(sum);
    return true;
  }
  using Terms = std::map<size_t, int64_t>;
  const Terms* Find(ValueId id) const {
    auto found = terms_.find(id);
    return found == terms_.end() ? nullptr : &found->second;
  }

 private:
  const Kernel& kernel_;
  std::map<ValueId, Terms> terms_;
};

int64_t FactorOf(const LinearIndices::Terms& terms, size_t counter) {
  auto found = terms.find(counter);
  return found == terms.end() ? 0 : found->second;
}

}  // namespace

std::optional<std::vector<CopiedDim>> CopiedDims(const Kernel& kernel) {
  if (kernel.num_params != 2 || kernel.memories.size() != 2 ||
      kernel.memories[0].access != program::Access::kRead ||
      kernel.memories[1].access != program::Access::kWrite ||
      kernel.memories[0].dtype != kernel.memories[1].dtype ||
      kernel.memories[0].count != kernel.memories[1].count) {
    return std::nullopt;
  }
  LinearIndices indices(kernel);
  std::vector<CopiedDim> dims;
  const Instr *load = nullptr, *store = nullptr;
  for (const Instr& i : kernel.code) {
    if (i.op == Op::kLoop) {
      std::optional<int64_t> trips = TripCount(kernel, i);
      bool plain = i.loop == program::LoopKind::kParallel && trips && load == nullptr &&
                   kernel.value(i.args[0]).AsInt() == 0 && kernel.value(i.args[2]).AsInt() == 1;
      if (!plain) return std::nullopt;
      indices.AddCounter(i.results[0], dims.size());
      dims.push_back({*trips, 0, 0});
    } else if (i.op == Op::kLoad && load == nullptr && i.memory == 0 && i.args.size() == 1) {
      load = &i;
    } else if (i.op == Op::kStore && store == nullptr && load != nullptr && i.memory == 1 &&
               i.args.size() == 2 && i.args[1] == load->results[0]) {
      store = &i;
    } else if (i.op != Op::kEnd && !indices.Add(i)) {
      return std::nullopt;
    }
  }
  if (store == nullptr || kernel.type(load->args[0]).lanes != 1) return std::nullopt;
  const auto *in = indices.Find(load->args[0]), *out = indices.Find(store->args[0]);
  if (in == nullptr || out == nullptr) return std::nullopt;
  for (size_t d = 0; d < dims.size(); ++d) {
    dims[d].in = FactorOf(*in, d), dims[d].out = FactorOf(*out, d);
  }
  if (load->type.lanes > 1) dims.push_back({load->type.lanes, 1, 1});
  std::erase_if(dims, [](const CopiedDim& d) { return d.count == 1; });
  std::ranges::sort(dims, [](const CopiedDim& x, const CopiedDim& y) { return x.out > y.out; });
  int64_t dense = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d].out != dense) return std::nullopt;
    dense *= dims[d].count;
  }
  if (dense != kernel.memories[1].count) return std::nullopt;
  return dims;
}

std::optional<MatrixView> ViewOfCopy(std::vector<CopiedDim> dims, int64_t batch, int64_t rows,
                                     int64_t columns) {
  // Dimensions that lie together in what is read are one.
  for (size_t d = dims.size(); d-- > 1;) {
    if (dims[d - 1].in != dims[d].in * dims[d].count) continue;
    dims[d - 1] = {dims[d - 1].count * dims[d].count, dims[d].in, dims[d].out};
    dims.erase(dims.begin() + static_cast<int64_t>(d));
  }
  // So many of the last dimension: their stride, or -1.
  auto take = [&](int64_t n) -> int64_t {
    if (n == 1) return 0;
    if (dims.empty() || dims.back().count % n != 0) return -1;
    int64_t stride = dims.back().in;
    dims.back().count /= n, dims.back().in *= n;
    if (dims.back().count == 1) dims.pop_back();
    return stride;
  };
  MatrixView view;
  if (take(columns) != 1) return std::nullopt;
  view.row = take(rows);
  if (view.row < columns) return std::nullopt;
  if (dims.size() > 2) return std::nullopt;
  if (!dims.empty()) view.inner_count = dims.back().count, view.inner = dims.back().in;
  if (dims.size() == 2) view.outer = dims[0].in;
  int64_t outer_count = dims.size() == 2 ? dims[0].count : 1;
  if (view.inner_count * outer_count != batch) return std::nullopt;
  return view;
}

std::optional<MatrixView> MatrixViewOf(const program::LibraryStep& call, std::string_view name) {
  const std::vector<int64_t>* numbers = IntsAttr(call, name);
  if (numbers == nullptr) return std::nullopt;
  return MatrixView{(*numbers)[0], (*numbers)[1], (*numbers)[2], (*numbers)[3]};
}

namespace {

class TransposeReader {
 public:
  TransposeReader(program::Program& program, const program::TargetInfo& target)
      : program_(program), target_(target) {
    ForEachStep(program.steps, [&](const Step& step) {
      for (const program::Use& use : step.uses) ++uses_[use.slice.buffer];
    });
  }

  void Run(std::vector<Step>& steps) {
    // Native regions count the steps before them.
    bool prologues = std::ranges::any_of(steps, [](const Step& step) {
      auto* loop = std::get_if<program::WhileStep>(&step.op);
      return loop != nullptr && loop->region && loop->region->prologue > 0;
    });
    if (prologues) return;
    for (size_t at = 0; at < steps.size(); ++at) {
      if (auto* loop = std::get_if<program::WhileStep>(&steps[at].op)) Run(loop->body);
      if (auto* list = std::get_if<program::ListStep>(&steps[at].op)) Run(list->steps);
      auto* call = std::get_if<program::LibraryStep>(&steps[at].op);
      if (call == nullptr || call->routine != "gemm") continue;
      for (size_t operand : {0, 1}) {
        if (std::optional<size_t> copy = FindCopy(steps, at, operand)) {
          steps.erase(steps.begin() + static_cast<int64_t>(*copy));
          --at;
        }
      }
    }
  }

 private:
  program::Slice Place(const program::Use& use) const { return Resolve(program_, use.slice); }

  // The step that copies for the operand; the gemm reads what that read then.
  std::optional<size_t> FindCopy(std::vector<Step>& steps, size_t at, size_t operand) {
    Step& gemm = steps[at];
    const program::BufferId buffer = gemm.uses[operand].slice.buffer;
    bool own = program_.buffers[static_cast<size_t>(buffer)].kind == program::BufferKind::kTemp &&
               uses_[buffer] == 2 &&
               std::ranges::none_of(program_.buffers,
                                    [&](const program::Buffer& b) { return b.base == buffer; });
    for (size_t k = at; own && k-- > 0 && at - k <= kStepsApart;) {
      const Step& step = steps[k];
      auto* launch = std::get_if<program::KernelStep>(&step.op);
      if (launch == nullptr || step.uses.size() != 2 || step.uses[1].slice.buffer != buffer) {
        continue;
      }
      const program::Slice &made = step.uses[1].slice, &read = gemm.uses[operand].slice;
      if (made.offset != read.offset || made.size != read.size) return std::nullopt;
      const Kernel& kernel = program_.kernels[static_cast<size_t>(launch->kernel)];
      std::optional<MatrixView> view = ViewFor(kernel, gemm, operand);
      if (!view || !StaysUntil(steps, k, at)) return std::nullopt;
      gemm.uses[operand] = {program::Access::kRead, step.uses[0].slice};
      std::get<program::LibraryStep>(gemm.op).attrs.push_back(
          {operand == 0 ? "a_view" : "b_view",
           std::vector<int64_t>{view->row, view->inner_count, view->inner, view->outer}});
      return k;
    }
    return std::nullopt;
  }

  // Nobody writes what step k reads before the gemm is done.
  bool StaysUntil(const std::vector<Step>& steps, size_t k, size_t gemm) const {
    program::Slice read = Place(steps[k].uses[0]);
    for (size_t s = k + 1; s <= gemm; ++s) {
      bool plain = std::holds_alternative<program::KernelStep>(steps[s].op) ||
                   std::holds_alternative<program::CopyStep>(steps[s].op) ||
                   std::holds_alternative<program::FillStep>(steps[s].op) ||
                   std::holds_alternative<program::LibraryStep>(steps[s].op);
      if (!plain) return false;
      for (const program::Use& use : steps[s].uses) {
        if (Writes(use.access) && Overlap(Place(use), read)) return false;
      }
    }
    return true;
  }

  std::optional<MatrixView> ViewFor(const Kernel& kernel, const Step& step, size_t operand) const {
    const GemmForm f = GemmFormOf(std::get<program::LibraryStep>(step.op));
    std::optional<std::vector<CopiedDim>> dims = CopiedDims(kernel);
    if (!dims || f.batch < 2) return std::nullopt;
    bool trans = operand == 0 ? f.trans_a : f.trans_b;
    int64_t outside = operand == 0 ? f.m : f.n;
    std::optional<MatrixView> view =
        ViewOfCopy(*dims, f.batch, trans == (operand == 0) ? f.k : outside,
                   trans == (operand == 0) ? outside : f.k);
    if (!view) return std::nullopt;
    // One call for each of the fewer matrices, with the others as its batch.
    int64_t calls = std::min(view->inner_count, f.batch / view->inner_count);
    const std::optional<MatrixView>& other = operand == 0 ? f.b_view : f.a_view;
    if (other && other->inner_count != view->inner_count) return std::nullopt;
    double bytes = static_cast<double>(step.uses[operand].slice.size);
    bool gains =
        2 * bytes / target_.bytes_per_second > static_cast<double>(calls) * target_.launch_seconds;
    return gains ? view : std::nullopt;
  }

  program::Program& program_;
  const program::TargetInfo& target_;
  std::map<program::BufferId, int64_t> uses_;
};

}  // namespace

program::Program ReadThroughTransposes(program::Program program,
                                       const program::TargetInfo& target) {
  TransposeReader(program, target).Run(program.steps);
  return program;
}

}  // namespace weft::gpu
