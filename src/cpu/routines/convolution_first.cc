#include "cpu/routines/convolution_first.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "cpu/routines/blocking.h"
#include "cpu/routines/multiply.h"
#include "program/target_facts.h"

namespace weft::cpu {
namespace {

using program::ConvolutionForm;
using Axis = ConvolutionForm::Axis;

// Features of input and result, at least: then a row of them is as long as a line of a cache.
constexpr int64_t kLeastTransposed = program::TargetFacts::kLineBytes / sizeof(float);
// Rows and columns that are transposed at once.
constexpr int64_t kSquare = program::TargetFacts::kNarrowLanes;
constexpr int64_t kStripRows = kLeastTransposed;

using FourFloats = float __attribute__((vector_size(16)));

void TransposeSquare(const float* from, int64_t from_row, float* to, int64_t to_row) {
  FourFloats x[kSquare], y[kSquare];
  for (int64_t i = 0; i < kSquare; ++i) std::memcpy(&x[i], from + i * from_row, sizeof(x[i]));
  FourFloats a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
  FourFloats b = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
  FourFloats c = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
  FourFloats d = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
  y[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  y[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  y[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  y[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
  for (int64_t i = 0; i < kSquare; ++i) std::memcpy(to + i * to_row, &y[i], sizeof(y[i]));
}

// Rows [begin, end) of a matrix become columns of `to`.
void TransposeRows(const float* from, int64_t begin, int64_t end, int64_t columns, int64_t from_row,
                   float* to, int64_t to_row) {
  int64_t rows = begin + (end - begin) / kSquare * kSquare, whole = columns / kSquare * kSquare;
  for (int64_t j = 0; j < whole; j += kSquare) {
    for (int64_t i = begin; i < rows; i += kSquare) {
      TransposeSquare(from + i * from_row + j, from_row, to + j * to_row + i, to_row);
    }
  }
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = i < rows ? whole : 0; j < columns; ++j) {
      to[j * to_row + i] = from[i * from_row + j];
    }
  }
}

class Transposed : public PreparedRoutine {
 public:
  Transposed(const ConvolutionForm& form, DType type, std::unique_ptr<PreparedRoutine> inner,
             const Epilogue& epilogue)
      : type_(type),
        batch_(form.batch),
        in_features_(form.in_features),
        out_features_(form.out_features),
        inner_(std::move(inner)),
        epilogue_(epilogue) {
    for (const Axis& a : form.axes) {
      in_places_ *= a.in;
      out_places_ *= a.out;
    }
  }

  Status Run(const RoutineContext& context) const override {
    auto input = TRY(Scratch<float>::New(context.means(), InputSize()));
    auto output = TRY(Scratch<float>::New(context.means(), OutputSize()));
    auto wide = TRY(Scratch<float>::New(context.means(), WideSize()));
    ThreadPool* pool = &context.pool;
    int64_t width = ByteWidth(type_);
    const std::byte* from = context.memory[0];
    std::byte* to = context.memory[2];
    ForPieces(pool, IsWidened() ? InputSize() : 0, 1.0, [&](int64_t begin, int64_t end) {
      LoadRun<float>(type_, from + begin * width, end - begin, wide.data() + begin);
    });
    TransposeMatrices(pool, IsWidened() ? wide.data() : reinterpret_cast<const float*>(from),
                      batch_, in_features_, in_places_, input.data());
    std::byte* memory[] = {reinterpret_cast<std::byte*>(input.data()), context.memory[1],
                           reinterpret_cast<std::byte*>(output.data())};
    TRY(inner_->Run({context.pool, memory, context.room}));
    TransposeMatrices(pool, output.data(), batch_, out_places_, out_features_,
                      IsWidened() ? wide.data() : reinterpret_cast<float*>(to));
    ForPieces(pool, IsWidened() ? OutputSize() : 0, 1.0, [&](int64_t begin, int64_t end) {
      StoreRun<float>(type_, wide.data() + begin, end - begin, to + begin * width);
    });
    EpilogueRun(epilogue_, context).OnAll(&context.pool);
    return {};
  }

  int64_t ScratchBytes(int64_t threads) const override {
    return (InputSize() + OutputSize() + WideSize()) * int64_t{sizeof(float)} +
           inner_->ScratchBytes(threads);
  }

 private:
  int64_t InputSize() const { return batch_ * in_features_ * in_places_; }
  int64_t OutputSize() const { return batch_ * out_features_ * out_places_; }
  bool IsWidened() const { return type_ != DType::kF32; }
  int64_t WideSize() const { return IsWidened() ? std::max(InputSize(), OutputSize()) : 0; }

  DType type_;  // of input and result
  int64_t batch_, in_features_, out_features_, in_places_ = 1, out_places_ = 1;
  std::unique_ptr<PreparedRoutine> inner_;
  Epilogue epilogue_;
};

}  // namespace

void TransposeMatrices(ThreadPool* pool, const float* from, int64_t count, int64_t rows,
                       int64_t columns, float* to) {
  int64_t strips = CeilDiv(rows, kStripRows);
  ForPieces(pool, count * strips, static_cast<double>(kStripRows * columns),
            [&](int64_t first, int64_t last) {
              for (int64_t strip = first; strip < last; ++strip) {
                int64_t matrix = strip / strips * rows * columns;
                int64_t begin = strip % strips * kStripRows;
                TransposeRows(from + matrix, begin, std::min(rows, begin + kStripRows), columns,
                              columns, to + matrix, rows);
              }
            });
}

bool IsWorthTransposing(const ConvolutionForm& f) {
  if (f.feature_groups != 1 || f.batch_groups != 1 || f.axes.empty() ||
      f.in_features < kLeastTransposed || f.out_features < kLeastTransposed) {
    return false;
  }
  int64_t in = 1, out = 1, taps = 1;
  for (size_t d = f.axes.size(); d-- > 0;) {
    const Axis& a = f.axes[d];
    if (a.in_stride != in || a.out_stride != out) return false;
    in *= a.in;
    out *= a.out;
    taps *= a.window;
  }
  // A window of many taps covers all of a small input: then nothing is read more than once. Fewer
  // places than features are a weight gradient's.
  return taps > 1 && f.in_feature_stride == in && f.out_feature_stride == out &&
         f.in_batch_stride == f.in_features * in && f.out_batch_stride == f.out_features * out &&
         out >= taps;
}

ConvolutionForm FeaturesLast(const ConvolutionForm& form) {
  ConvolutionForm f = form;
  int64_t in = f.in_features, out = f.out_features;
  for (size_t d = f.axes.size(); d-- > 0;) {
    f.axes[d].in_stride = in;
    f.axes[d].out_stride = out;
    in *= f.axes[d].in;
    out *= f.axes[d].out;
  }
  f.in_feature_stride = f.out_feature_stride = 1;
  return f;
}

std::unique_ptr<PreparedRoutine> PrepareTransposed(const ConvolutionForm& form, DType type,
                                                   std::unique_ptr<PreparedRoutine> inner,
                                                   const Epilogue& epilogue) {
  VLOG("cpu", 3) << "convolution with features before places (NCHW): transposed around NHWC";
  return std::make_unique<Transposed>(form, type, std::move(inner), epilogue);
}

}  // namespace weft::cpu
