// Loop generation: vectorization, strip-mining and cutting in chunks for threads.
#include "compiler/lower/draft.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "base/hash.h"
#include "base/str.h"
#include "hlo/computation.h"
#include "hlo/module.h"
#include "program/target_facts.h"
#include "program/work_bounds.h"

namespace weft::compiler {

using hlo::Instruction;
using program::Access;
using program::LoopKind;
using program::Op;
using HloOp = hlo::Op;

namespace {

// Elements without any loop, in serial kernels: scalars that LLVM may keep in registers from one
// kernel to the next, unless each is so much work that vectors pay.
constexpr int64_t kStraightLine = program::CodeBounds::kWrittenOut;

}  // namespace

KernelDraft::KernelDraft(std::string name, program::Program& program, Memory& memory,
                         const program::TargetInfo& target, ValueRanges* value_ranges)
    : program_(program),
      memory_(memory),
      target_(target),
      builder_(std::move(name)),
      elements_(builder_, value_ranges) {
  builder_.ReuseValues();
  builder_.SetSlowSubnormals(target.slow_subnormals);
  builder_.SetFunctions(target.HasFunctions());
}

void KernelDraft::Declare(std::span<const KernelInput> inputs,
                          std::span<const KernelOutput> outputs) {
  auto note = [&](MemValue value, Access access) {
    program::BufferId buffer = memory_.Buffer(program_, value);
    for (Parameter& p : parameters_) {
      if (p.buffer == buffer) {
        if (p.access != access) p.access = Access::kReadWrite;
        return;
      }
    }
    parameters_.push_back({buffer, access, -1});
  };
  for (const KernelInput& input : inputs) note(input.value, Access::kRead);
  for (const KernelOutput& output : outputs) note(output.value, Access::kWrite);
  for (Parameter& p : parameters_) {
    const Shape& shape = program_.buffers[p.buffer].shape;
    int64_t parts = IsComplex(shape.dtype()) ? 2 : 1;
    p.id = builder_.Param(StrCat("m", &p - parameters_.data()), RealType(shape.dtype()),
                          shape.elements() * parts, p.access, AlignOf(p.buffer));
  }
  // That are written into the code.
  constexpr int64_t kFewNumbers = program::CodeBounds::kShortLoop;
  for (const KernelInput& input : inputs) {
    elements_.Bind(*input.inside, MemoryOf(input.value));
    const program::Buffer& buffer = program_.buffers[memory_.Buffer(program_, input.value)];
    if (buffer.kind == program::BufferKind::kConstant && buffer.shape.elements() <= kFewNumbers &&
        buffer.shape.dtype() == input.inside->shape().dtype() &&
        buffer.shape.elements() == input.inside->shape().elements()) {
      elements_.Know(*input.inside, buffer.value);
    }
  }
}

// Where a thread accesses as much at once as memory gives, kernels are told of alignment.
int64_t KernelDraft::AlignOf(program::BufferId buffer) const {
  int64_t wanted = target_.AccessBytes();
  const program::Buffer& b = program_.buffers[buffer];
  const program::Buffer& root = b.base >= 0 ? program_.buffers[b.base] : b;
  bool aligned = wanted > 0 && root.align % wanted == 0 && (b.base < 0 || b.offset % wanted == 0);
  return aligned ? wanted : 0;
}

KernelBuilder::MemoryId KernelDraft::DeclareBuffer(program::BufferId buffer, Access access) {
  const Shape& shape = program_.buffers[buffer].shape;
  int64_t parts = IsComplex(shape.dtype()) ? 2 : 1;
  KernelBuilder::MemoryId id =
      builder_.Param(StrCat("m", parameters_.size()), RealType(shape.dtype()),
                     shape.elements() * parts, access, AlignOf(buffer));
  parameters_.push_back({buffer, access, id});
  return id;
}

KernelBuilder::MemoryId KernelDraft::MemoryOf(MemValue value) const {
  program::BufferId buffer = memory_.Buffer(program_, value);
  for (const Parameter& p : parameters_) {
    if (p.buffer == buffer) return p.id;
  }
  CHECK(false) << "value is not a parameter of the kernel";
  return -1;
}

int64_t KernelDraft::ChunksOf(double work) const {
  int64_t chunks =
      std::min(static_cast<int64_t>(work / target_.WorkOfThread()), target_.MostChunks());
  // No core waits for one that has a chunk more.
  if (chunks > target_.cores && chunks < 8 * target_.cores) chunks -= chunks % target_.cores;
  return chunks;
}

int KernelDraft::LanesFor(int64_t width, int64_t size) const {
  int64_t lanes = 4 * target_.LaneBits() / 8 / std::max<int64_t>(width, 1);
  lanes = std::min<int64_t>(lanes, width == 1 ? 64 : 32);
  while (lanes > size) lanes /= 2;
  return static_cast<int>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(lanes, 1))));
}

Status KernelDraft::OverLanes(int64_t size, int lanes, bool in_place,
                              const std::function<Status(Coord)>& body) {
  return OverLanes(0, size, lanes, in_place, body);
}

Status KernelDraft::OverLanes(int64_t begin, int64_t end, int lanes, bool in_place,
                              const std::function<Status(Coord)>& body) {
  int before = elements_.lanes;
  auto run = [&](ValueId at, int n, int64_t multiple) -> Status {
    elements_.lanes = n;
    Coord c{at, n > 1 ? 1 : 0, multiple, begin, end - 1};
    if (auto number = builder_.IntConstant(at); number && n == 1)
      c = ConstantCoord(elements_, *number);
    Status status = body(c);
    elements_.lanes = before;
    return status;
  };
  int64_t size = end - begin;
  if (size == 1) return run(builder_.Int(begin), 1, 1);
  if (lanes == 1) {
    ValueId i = builder_.BeginLoop(LoopKind::kSerial, builder_.Int(begin), builder_.Int(end),
                                   builder_.Int(1))[0];
    TRY(run(i, 1, 1));
    builder_.End();
    return {};
  }
  int64_t rest = size % lanes, multiple = std::gcd(lanes, begin);
  bool overlaps = rest != 0 && !in_place;
  int64_t stop = overlaps ? end : end - rest;
  // Where vectors may overlap and there are no more of them, all but the first and the last lie at
  // multiples of their size: stores across the lines of a cache take longer.
  int64_t first = begin - begin % lanes;
  if (!overlaps || (end - first + lanes - 1) / lanes > size / lanes + 1) first = begin;
  if (stop - begin == lanes) {
    TRY(run(builder_.Int(begin), lanes, multiple));
  } else if (stop > begin) {
    ValueId i = builder_.BeginLoop(LoopKind::kSerial, builder_.Int(first), builder_.Int(stop),
                                   builder_.Int(lanes))[0];
    if (overlaps) i = builder_.Min(i, builder_.Int(end - lanes));
    if (first < begin) i = builder_.Max(i, builder_.Int(begin));
    TRY(run(i, lanes, overlaps ? std::gcd(multiple, end) : multiple));
    builder_.End();
  }
  // What is left by single vectors, then one by one.
  for (int n = lanes / 4; rest != 0 && in_place; n = 1) {
    if (n <= 1) n = 1;
    int64_t next = end - (end - stop) % n;
    if (next - stop == n) {
      TRY(run(builder_.Int(stop), n, 1));
    } else if (next > stop) {
      ValueId i = builder_.BeginLoop(LoopKind::kSerial, builder_.Int(stop), builder_.Int(next),
                                     builder_.Int(n))[0];
      TRY(run(i, n, 1));
      builder_.End();
    }
    stop = next;
    if (n == 1 || stop == end) break;
  }
  return {};
}

// Two vectors, of which the second may overlap the first.
Status KernelDraft::OverTwo(int64_t begin, int64_t end, int lanes,
                            const std::function<Status(Coord)>& body) {
  for (int64_t at : {begin, end - lanes}) {
    elements_.lanes = lanes;
    Status status = body({builder_.Int(at), 1, std::gcd(lanes, at), at, at + lanes - 1});
    elements_.lanes = 1;
    TRY(std::move(status));
  }
  return {};
}

Status KernelDraft::StraightLanes(int64_t size, int lanes,
                                  const std::function<Status(Coord)>& body) {
  int before = elements_.lanes;
  for (int64_t at = 0; at < size; at += lanes) {
    while (at + lanes > size) lanes /= 2;
    elements_.lanes = lanes;
    Status status = body(
        {builder_.Int(at), lanes > 1 ? 1 : 0, at == 0 ? int64_t{lanes} : at, at, at + lanes - 1});
    elements_.lanes = before;
    TRY(std::move(status));
  }
  return {};
}

// Rows of small matrices are vectors, and so are vectors of many elements; those of few are better
// off as scalars, whose results the next operation does not have to take out of lanes.
int KernelDraft::RowLanes(const Dims& dims) const {
  if (target_.LaneBits() == 0 || dims.empty()) return 1;
  int64_t row = dims.back(), rows = 1;
  for (size_t d = 0; d + 1 < dims.size(); ++d) rows *= dims[d];
  int64_t least = rows > 1 ? 4 : program::TargetFacts::kUsualLanes;
  bool even = row >= least && std::has_single_bit(static_cast<uint64_t>(row));
  return even ? static_cast<int>(std::min<int64_t>(row, kStraightLine)) : 1;
}

Status KernelDraft::ForEach(const LoopShape& shape, const Body& body) {
  int64_t n = 1;
  for (int64_t d : shape.dims) n *= d;
  if (n == 0) return {};
  bool few = shape.serial && n <= kStraightLine;
  builder_.SetLatencyBound(few && !target_.HasThreadGrid());
  Status status = few || n == 1 ? ForFew(shape, n, body) : ForMany(shape, body);
  builder_.SetLatencyBound(false);
  return status;
}

Status KernelDraft::ForFew(const LoopShape& shape, int64_t n, const Body& body) {
  bool straight = n % 4 != 0 || shape.cost < kStraightCost;
  int lanes = shape.scalar ? 1 : RowLanes(shape.dims);
  if (n == 1 || straight || lanes > 1) {
    for (int64_t i = 0; i < n; i += lanes) {
      Index index;
      index.is_linear = true;
      index.linear = ConstantCoord(elements_, i);
      if (lanes > 1) index.linear = {builder_.Int(i), 1, lanes, i, i + lanes - 1};
      elements_.lanes = lanes;
      Status status = body(index);
      elements_.lanes = 1;
      TRY(std::move(status));
    }
    return {};
  }
  return ForMany(shape, body);
}

Status KernelDraft::ForMany(const LoopShape& shape, const Body& body) {
  if (UsesGrid()) return ForEachOnGrid(shape.dims, shape.flat, body, GridLanes(shape));
  return shape.flat ? ForFlat(shape, body) : ForNest(shape, body);
}

Status KernelDraft::ForFlat(const LoopShape& shape, const Body& body) {
  int64_t n = 1;
  for (int64_t d : shape.dims) n *= d;
  int lanes = shape.scalar ? 1 : LanesFor(shape.width, n);
  auto at = [&](Coord linear) {
    Index index;
    index.is_linear = true;
    index.linear = linear;
    return body(index);
  };
  double work = static_cast<double>(n) * shape.cost;
  int64_t chunks = ChunksOf(work);
  chunks = std::min(chunks, n / std::max<int64_t>(lanes, 64));
  if (shape.serial && n <= target_.VectorsAtOnce() * lanes) return StraightLanes(n, lanes, at);
  if (shape.serial || chunks <= 1) return OverLanes(n, lanes, shape.in_place, at);
  // Chunks of whole vectors; the last one takes what is left.
  int64_t unit = std::max<int64_t>(lanes, 64);
  int64_t chunk = (n / chunks + unit - 1) / unit * unit;
  chunks = n / chunk;
  KernelBuilder& b = builder_;
  ValueId c = b.BeginLoop(LoopKind::kParallel, b.Int(0), b.Int(chunks), b.Int(1))[0];
  RowPart part = PartOf(c, chunks, chunk, n);
  ValueId begin = part.begin, end = part.end;
  if (!shape.cuts.empty()) {
    for (size_t k = 0; k <= shape.cuts.size(); ++k) {
      int64_t first = k == 0 ? 0 : shape.cuts[k - 1];
      int64_t stop = k < shape.cuts.size() ? shape.cuts[k] : n;
      ValueId from = b.Max(begin, b.Int(first)), to = b.Min(end, b.Int(stop));
      ValueId i =
          b.BeginLoop(LoopKind::kSerial, from, b.Sub(to, b.Int(lanes - 1)), b.Int(lanes))[0];
      elements_.lanes = lanes;
      TRY(at({i, lanes > 1 ? 1 : 0, 1, first, stop - 1}));
      elements_.lanes = 1;
      b.End();
      ValueId size = b.Max(b.Sub(to, from), b.Int(0));
      ValueId rest = b.Add(from, b.Sub(size, b.Rem(size, b.Int(lanes))));
      ValueId j = b.BeginLoop(LoopKind::kSerial, rest, to, b.Int(1))[0];
      TRY(at({j, 0, 1, first, stop - 1}));
      b.End();
    }
    b.End();
    return {};
  }
  TRY(OverPart(part, n, lanes, shape.in_place, at));
  b.End();
  return {};
}

// Vectors of the last part may reach into the one before it, where elements may be computed twice.
Status KernelDraft::OverPart(const RowPart& part, int64_t n, int lanes, bool in_place,
                             const std::function<Status(Coord)>& body) {
  KernelBuilder& b = builder_;
  bool overlaps = n % lanes != 0 && !in_place;
  bool tail = n % lanes != 0 && in_place;
  ValueId stop = tail ? b.Select(part.is_last, b.Int(n - n % lanes), part.end) : part.end;
  ValueId i = b.BeginLoop(LoopKind::kSerial, part.begin, stop, b.Int(lanes))[0];
  if (overlaps) i = b.Min(i, b.Int(n - lanes));
  elements_.lanes = lanes;
  TRY(body({i, lanes > 1 ? 1 : 0, overlaps ? 1 : lanes, 0, n - 1}));
  elements_.lanes = 1;
  b.End();
  if (tail) {
    ValueId j = b.BeginLoop(LoopKind::kSerial, stop, part.end, b.Int(1))[0];
    TRY(body({j, 0, 1, 0, n - 1}));
    b.End();
  }
  return {};
}

// Part `number` of the parts of n, `size` each, of which the last takes the rest too.
KernelDraft::RowPart KernelDraft::PartOf(ValueId number, int64_t parts, int64_t size, int64_t n) {
  KernelBuilder& b = builder_;
  ValueId begin = b.Mul(number, b.Int(size));
  ValueId last = b.Emit(Op::kEq, {number, b.Int(parts - 1)});
  return {begin, b.Select(last, b.Int(n), b.Add(begin, b.Int(size))), last};
}

// Numbers below n, `chunk` of them one after the other, the chunks in parallel.
Status KernelDraft::OverChunks(int64_t n, int64_t chunk,
                               const std::function<Status(ValueId)>& body) {
  KernelBuilder& b = builder_;
  int64_t chunks = (n + chunk - 1) / chunk;
  ValueId c = b.BeginLoop(LoopKind::kParallel, b.Int(0), b.Int(chunks), b.Int(1))[0];
  if (chunk == 1) {
    TRY(body(c));
    b.End();
    return {};
  }
  ValueId begin = b.Mul(c, b.Int(chunk)), end = b.Add(begin, b.Int(chunk));
  if (n % chunk != 0) end = b.Min(end, b.Int(n));
  ValueId i = b.BeginLoop(LoopKind::kSerial, begin, end, b.Int(1))[0];
  TRY(body(i));
  b.End();
  b.End();
  return {};
}

Status KernelDraft::ForEachRow(const Dims& rows, double cost_of_row, bool serial,
                               const Body& body) {
  int64_t n = 1;
  for (int64_t d : rows) n *= d;
  if (UsesGrid() && n > 1) return ForEachOnGrid(rows, false, body);
  KernelBuilder& b = builder_;
  auto at = [&](ValueId r) {
    Index linear;
    linear.is_linear = true;
    linear.linear = {r, 0, 1, 0, n - 1};
    return body(Coordinates(elements_, rows, linear));
  };
  if (n == 1) return at(b.Int(0));
  int64_t chunks = std::min(ChunksOf(static_cast<double>(n) * cost_of_row), n);
  if (serial || chunks <= 1) {
    ValueId r = b.BeginLoop(LoopKind::kSerial, b.Int(0), b.Int(n), b.Int(1))[0];
    TRY(at(r));
    b.End();
    return {};
  }
  return OverChunks(n, (n + chunks - 1) / chunks, at);
}

program::Step KernelDraft::Finish(UniqueKernels& kernels, std::string source) {
  std::vector<program::Use> uses;
  for (const Parameter& p : parameters_) uses.push_back(Whole(program_, p.access, p.buffer));
  program::Kernel kernel = std::move(builder_).Build();
  SplitMasks(kernel, target_);
  program::Step step;
  step.name = kernel.name;
  step.op = program::KernelStep{kernels.Add(program_, std::move(kernel))};
  step.uses = std::move(uses);
  step.source = std::move(source);
  return step;
}

}  // namespace weft::compiler
