#include "gpu/routines/gemm_epilogue.h"

#include <algorithm>

#include "base/str.h"
#include "gpu/cuda_text.h"
#include "gpu/library_text.h"
#include "gpu/render_cuda.h"
#include "gpu/routines/gemm.h"
#include "gpu/routines/kernels.h"
#include "gpu/routines/library_epilogue.h"
#include "program/cost.h"
#include "program/target_gpu.h"

namespace weft::gpu {
namespace {

using program::Instr;
using program::Kernel;
using program::LoopKind;
using program::Op;
using program::Type;
using program::ValueId;

// As in kernels/gemm_epilogue.cu.
constexpr int64_t kTileColumns = 64, kPadding = 8, kThreadsOfRow = 2;
// Of which b and two tiles of a leave room for another block on a core.
constexpr int64_t kBlocksOfCore = 2;

// A kernel that is one flat loop: what stands between its counter and its elements.
struct FlatLoop {
  ValueId counter = -1, index = -1;  // the index is the counter times the lanes
  size_t index_at = 0;               // the instruction that computes it; 0: the counter itself
  int64_t lanes = 1, trips = 0;
};

bool IsAccess(const Instr& i) {
  return i.op == Op::kLoad || i.op == Op::kStore;
}

std::optional<FlatLoop> FlatLoopOf(const Kernel& kernel) {
  const auto& code = kernel.code;
  if (code.size() < 4 || code[0].op != Op::kLoop || code[0].loop != LoopKind::kParallel ||
      code.back().op != Op::kEnd || std::ssize(kernel.memories) != kernel.num_params) {
    return std::nullopt;
  }
  auto constant = [&](ValueId id, int64_t value) {
    return kernel.value(id).is_constant && kernel.value(id).AsInt() == value;
  };
  std::optional<int64_t> trips = TripCount(kernel, code[0]);
  if (!trips || !constant(code[0].args[0], 0) || !constant(code[0].args[2], 1)) return std::nullopt;
  FlatLoop flat{code[0].results[0], code[0].results[0], 0, 1, *trips};
  for (size_t at = 1; at + 1 < code.size(); ++at) {
    const Instr& i = code[at];
    if (i.op == Op::kLoop || i.op == Op::kIf || i.op == Op::kArray || i.op == Op::kAtomic ||
        i.op == Op::kEnd) {
      return std::nullopt;
    }
    bool scales = i.op == Op::kMul && i.args[0] == flat.counter && flat.index_at == 0 &&
                  kernel.value(i.args[1]).is_constant;
    if (scales) {
      flat.index = i.results[0], flat.index_at = at, flat.lanes = kernel.value(i.args[1]).AsInt();
      continue;
    }
    for (size_t k = 0; k < i.args.size(); ++k) {
      bool place = i.args[k] == flat.counter || i.args[k] == flat.index;
      if (place != (IsAccess(i) && k == 0)) return std::nullopt;
      if (place && (i.args[k] != flat.index || i.type.lanes != flat.lanes)) return std::nullopt;
    }
    if (IsAccess(i) && i.args.size() > (i.op == Op::kLoad ? 1u : 2u)) return std::nullopt;  // masks
  }
  return flat;
}

// Adds index arithmetic to a kernel.
class IndexCode {
 public:
  IndexCode(Kernel& kernel, DType dtype) : kernel_(kernel), type_{dtype, 1} {}
  ValueId Constant(int64_t value) {
    kernel_.values.push_back({type_, "", true, static_cast<uint64_t>(value)});
    return Last();
  }
  ValueId Compute(Op op, ValueId a, ValueId b) {
    kernel_.values.push_back({type_, "", false, 0});
    Instr instr;
    instr.op = op, instr.type = type_;
    instr.args = {a, b}, instr.results = {Last()};
    kernel_.code.push_back(instr);
    return Last();
  }
  ValueId OpenGrid(int64_t trips) {
    ValueId begin = Constant(0), end = Constant(trips), step = Constant(1);
    kernel_.values.push_back({type_, "", false, 0});
    Instr instr;
    instr.op = Op::kLoop, instr.loop = LoopKind::kParallel, instr.type = type_;
    instr.args = {begin, end, step}, instr.results = {Last()};
    kernel_.code.push_back(instr);
    return Last();
  }

 private:
  ValueId Last() const { return static_cast<ValueId>(kernel_.values.size() - 1); }
  Kernel& kernel_;
  const Type type_;
};

}  // namespace

std::optional<Kernel> KernelOverTile(const Kernel& kernel, int32_t product,
                                     const ProductTile& tile) {
  std::optional<FlatLoop> flat = FlatLoopOf(kernel);
  if (!flat || tile.columns % flat->lanes != 0) return std::nullopt;
  for (int32_t p = 0; p < kernel.num_params; ++p) {
    const program::Memory& m = kernel.memories[static_cast<size_t>(p)];
    if (m.count != flat->trips * flat->lanes) return std::nullopt;
    if (Writes(m.access) != (p == product) || !Reads(m.access)) return std::nullopt;
  }
  Kernel over = kernel;
  over.code.clear();
  IndexCode code(over, kernel.code[0].type.dtype);
  ValueId row = code.OpenGrid(tile.rows), group = code.OpenGrid(tile.columns / flat->lanes);
  ValueId column = code.Compute(Op::kMul, group, code.Constant(flat->lanes));
  ValueId there =
      code.Compute(Op::kAdd, code.Compute(Op::kMul, row, code.Constant(tile.row)), column);
  ValueId here =
      code.Compute(Op::kAdd, code.Compute(Op::kMul, row, code.Constant(tile.stride)), column);
  program::Memory& read = over.memories.emplace_back();
  read.name = "tile", read.access = program::Access::kRead;
  read.dtype = kernel.memories[static_cast<size_t>(product)].dtype;
  read.count = tile.rows * tile.stride, read.align = 16;
  over.memories[static_cast<size_t>(product)].access = program::Access::kWrite;
  for (size_t at = 1; at + 1 < kernel.code.size(); ++at) {
    if (at == flat->index_at) continue;
    Instr instr = kernel.code[at];
    if (IsAccess(instr)) instr.args[0] = there;
    if (instr.op == Op::kLoad && instr.memory == product) {
      instr.args[0] = here, instr.memory = over.num_params;
    }
    over.code.push_back(instr);
  }
  over.code.push_back(kernel.code.back());
  over.code.push_back(kernel.code.back());
  ++over.num_params;
  return over;
}

namespace {

struct FusedPlan {
  GemmForm form;
  DType dtype;
  int64_t rows, shared_bytes, blocks;
};

// Reading and writing take longer than multiplying, at what such a kernel reaches of the matrix
// units.
bool IsMemoryBound(const GemmForm& f, int64_t others, const program::TargetInfo& target) {
  auto number = [](int64_t x) { return static_cast<double>(x); };
  double flops = 2 * number(f.m) * number(f.n) * number(f.k);
  double bytes = 2 * (number(f.m) * number(f.k) + number(f.m) * number(f.n) * number(1 + others));
  return flops / (target.bf16_matrix_flops * program::GpuFigures::kOwnMatrixShare) <
         bytes / target.bytes_per_second;
}

Result<FusedPlan> PlanFused(const RoutineInputs& inputs, int64_t others) {
  const program::TargetInfo& target = inputs.core.target;
  FusedPlan plan{GemmFormOf(inputs.call()), inputs.type(2), 0, 0, 0};
  const GemmForm& f = plan.form;
  bool half = plan.dtype == DType::kBF16 || plan.dtype == DType::kF16;
  if (!half || inputs.type(0) != plan.dtype || inputs.type(1) != plan.dtype) {
    return Unimplemented("types other than one of 16 bits");
  }
  if (f.trans_a || f.batch != 1 || f.alpha != 1 || f.beta != 0) {
    return Unimplemented("a product that is more than a b");
  }
  if (f.k % 16 != 0 || f.n % kTileColumns != 0) return Unimplemented("sizes ", f.ToString());
  for (size_t use : {0, 1, 2}) {
    if (inputs.alignment(use) < 16) return Unimplemented("operands that are not aligned");
  }
  const int64_t room = target.shared_bytes_per_core / kBlocksOfCore - 1024;
  for (int64_t rows : {128, 64}) {
    int64_t elements = (f.n + 2 * rows) * (f.k + kPadding) + rows * (kTileColumns + kPadding);
    if (f.m % rows != 0 || 2 * elements > room) continue;
    plan.rows = rows, plan.shared_bytes = 2 * elements;
    break;
  }
  if (plan.rows == 0) return Unimplemented("tiles that fit: ", f.ToString());
  int64_t tiles = f.m / plan.rows;
  plan.blocks = kBlocksOfCore * target.cores;
  if (tiles < plan.blocks || !IsMemoryBound(f, others, target)) {
    return Unimplemented("a product that is faster alone");
  }
  return plan;
}

class GemmWithEpilogue : public PreparedRoutine {
 public:
  GemmWithEpilogue(RoutineKernel kernel, const FusedPlan& plan)
      : kernel_(std::move(kernel)), plan_(plan) {}
  bool capturable() const override { return true; }
  Status Enqueue(const RoutineCall& call) const override {
    int64_t tiles = plan_.form.m / plan_.rows;
    std::byte *a = call.memory[0], *b = call.memory[1];
    std::vector<std::byte*> others(call.memory.begin() + 3, call.memory.end());
    std::vector<void*> parameters = {&a, &b, &tiles};
    for (std::byte*& other : others) parameters.push_back(&other);
    const CudaDriver& cuda = *call.stream.core()->cuda;
    int code = cuda.LaunchKernel(kernel_.function, static_cast<unsigned>(plan_.blocks), 1, 1,
                                 static_cast<unsigned>(plan_.rows * kThreadsOfRow), 1, 1,
                                 static_cast<unsigned>(plan_.shared_bytes), call.stream.handle(),
                                 parameters.data(), nullptr);
    return cuda.Check(code, StrCat("launch ", kernel_.name));
  }

 private:
  const RoutineKernel kernel_;
  const FusedPlan plan_;
};

std::string FusedText(const FusedPlan& plan, const Kernel& over, std::string_view name) {
  std::string fields, parameters, members, pointers;
  for (int32_t p = 0; p + 1 < over.num_params; ++p) {
    const program::Memory& m = over.memories[static_cast<size_t>(p)];
    std::string type = StrCat(Writes(m.access) ? "" : "const ", CudaStorageType(m.dtype), "*");
    StrAppend(fields, "  ", type, " g", p, ";\n");
    StrAppend(parameters, ", ", type, " g", p);
    StrAppend(members, p > 0 ? ", g" : "g", p);
    StrAppend(pointers, "    ", type, " m", p, " = g", p, " + at;\n");
  }
  CudaText text;
  RenderInBlock(over, plan.rows * kThreadsOfRow, text);
  const GemmForm& f = plan.form;
  return StrCat(
      kMatrixText, "\n", kGemmEpilogueText, "\nstruct Epilogue {\n", fields,
      "  __device__ inline void Run(s64 at, const u16* m", over.num_params - 1, ") const {\n",
      pointers, text.text(), "  }\n};\nextern \"C\" __global__ void __launch_bounds__(",
      plan.rows * kThreadsOfRow, ") ", name, "(const u16* a, const u16* b, s64 tiles", parameters,
      ") {\n  extern __shared__ __align__(128) u8 shared[];\n  Epilogue epilogue = {", members,
      "};\n  ProductTiles<", plan.dtype == DType::kBF16 ? "BF16" : "F16", ", ", plan.rows, ", ",
      f.n, ", ", f.k, ", ", f.trans_b ? "true" : "false",
      ">::Run(a, b, tiles, shared, epilogue);\n}\n");
}

}  // namespace

Result<PreparedPtr> PrepareGemmWithEpilogue(const RoutineInputs& inputs,
                                            const program::Step& next) {
  int32_t product = TRY(ResultParameter(inputs, next));
  FusedPlan plan = TRY(PlanFused(inputs, std::ssize(next.uses) - 1));
  const auto& launch = std::get<program::KernelStep>(next.op);
  const Kernel& kernel = inputs.program.kernels[static_cast<size_t>(launch.kernel)];
  std::optional<Kernel> over = KernelOverTile(
      kernel, product, {plan.rows, kTileColumns, plan.form.n, kTileColumns + kPadding});
  if (!over || kernel.memories[static_cast<size_t>(product)].dtype != plan.dtype) {
    return Unimplemented("a kernel that is no loop over elements");
  }
  RoutineKernel made =
      TRY(MakeKernel(inputs, FusedText(plan, *over, "gemm_epilogue"), "gemm_epilogue"));
  const CudaDriver& cuda = *inputs.core.cuda;
  TRY(cuda.Check(cuda.FuncSetAttribute(made.function, kFunctionMaxDynamicShared,
                                       static_cast<int>(plan.shared_bytes)),
                 StrCat("gemm: ", plan.shared_bytes, " bytes of shared memory")));
  return std::make_unique<GemmWithEpilogue>(std::move(made), plan);
}

}  // namespace weft::gpu
