// Library routines: what `call "name"(...)` means for the names known here. Backends may know more;
// a routine that is not listed verifies, and runs where somebody implements it.
//
// gemm       (read a, read b, write|update c) {m, n, k [, batch = 1] [, trans_a = false]
//            [, trans_b = false] [, alpha = 1.0] [, beta = 0.0] [, precision = "highest"]}
//            c = alpha * op(a) op(b) + beta * c for each of the batch, row-major: op(a) is m x k,
//            op(b) is k x n, c is m x n. Any floats, any integers, or one complex type (nothing
//            is conjugated). Sums are in f64 for f64 and c128, wrap for integers, else in f32.
//            A precision below the highest is a permission, of gemm and convolution: "default" lets
//            f32 operands be rounded to TF32 (10 bits), "bf16" to bf16, "fast_accum" lets sums of
//            8-bit floats be kept in less than f32.
//            gemm and convolution may have an epilogue: {epilogue = "kernel" [, epilogue_result =
//            0]}, a kernel that then runs over the result, which is its parameter number
//            epilogue_result; its other parameters are the step's further uses, in order. Rounds of
//            its grid have equal parts of the result, in order, and touch no other part of it: they
//            may run as soon as theirs is complete.
// scaled_gemm
//            (read a, read b, read a_scale, read b_scale, write c) {m, n, k [, batch = 1]
//            [, trans_a = false] [, trans_b = false] [, a_block] [, b_block]
//            [, operands = "f32"]}
//            c = op(a') op(b') as gemm, of floats and integers up to 32 bits, where a' is a times
//            its scale, multiplied in f32, then rounded to the type `operands`: bf16 or f32. The
//            block [batch, vectors, k] has so many elements that one scale covers: in the batch,
//            rows of op(a) or columns of op(b), and along k; it divides their sizes, and scales lie
//            in the order of what they scale. Without it nothing is scaled, and the scale is any
//            buffer. Sums are f32. a and b may be packed.
// attention  (read q, read k, read v [, read bias] [, read pred mask], write out
//            [, write statistics]) {axes, keys, depth, values, q, k, v, out [, bias] [, mask]
//            [, scale = 1.0] [, fill = -inf] [, query_axis = 0] [, first] [, last]}
//            Scaled dot-product attention: the rows of `values` numbers
//              out[x] = sum over s of w[x, s] v[x, s] / sum over s of w[x, s], where
//              w[x, s] = exp(score[x, s] - max over s of score[x, s]) and
//              score[x, s] = scale * q[x] . k[x, s] + bias[x, s], or `fill` where the mask is
//              false,
//            for each index x of the axes (batches, heads, positions: their sizes) and s < keys.
//            With p the index along query_axis: where s < p + first or s > p + last the mask is
//            false too. The lists q, k, v, bias, mask and out are strides in elements: of each of
//            the axes (0: it does not have that one), of keys (not of q and out), of depth or
//            values (not of bias and mask). Floats up to 32 bits; scores are f32, weights f32 or of
//            the type of v, before they are divided by their sum. Statistics are f32, two for each
//            x in order: the largest score, and 1 over the sum of w.
// attention_gradient
//            (read q, read k, read v [, read bias] [, read pred mask], read out, read statistics,
//            read dout [, write dq] [, write dk] [, write dv]) {as attention, dout [, dq] [, dk]
//            [, dv]}
//            With w[x, s] = exp(score[x, s] - the largest) * the second of the statistics and
//            ds[x, s] = w[x, s] * (dout[x] . v[x, s] - dout[x] . out[x]), 0 where the mask is
//            false: dq = scale * sum of ds k, dk = scale * sum of ds q, dv = sum of w dout, over
//            what each does not have. Its lists are strides like those of q, k and v; q has every
//            axis, k and v have the same ones. Sums are f32, in an order that sizes alone decide.
// device_id  (write u32 or s32 scalar) {[divide = 1] [, modulo]}
//            The number of the device that runs the step, divided, then the rest by `modulo`.
// device_send, device_recv
//            (read data), (write data) {[channel = 0] [, pairs = [source, target, ...]]}
//            Messages between the devices of a run, in order: to the target that a pair names for
//            this device, or to whoever receives; a device that no pair names receives zeroes. Not
//            known to the interpreter.
// host_recv  (write data) {}
//            What the host sends to a running program: an error where it is reached, as nobody
//            there does.
// sort       (read x0, x1, ..., write y0, y1, ...) {n [, outer = 1] [, inner = 1] [, order = "asc"]
//            [, keys = 1] [, zeros_equal = false] [, nans_equal = false] [, comparator = "kernel"]
//            [, bits = 0]}
//            Operands are [outer, n, inner]; sorts the tuples of all operands along n, stably. By
//            the first `keys` operands, the earlier ones first: integers and pred by value, floats
//            in total order (-NaN, -inf, ..., -0, 0, ..., inf, NaN), where zeros_equal makes -0 and
//            0 one value and nans_equal makes all NaN one value above the others (JAX sorts with
//            both); "desc" is the opposite order. With bits, the keys are integers below 2^bits,
//            and none is negative: no more of them is looked at. Or by a kernel (read a0, b0, a1,
//            b1, ..., write pred) of one element each (complex: two reals) that says whether tuple
//            a goes before tuple b; the order is open where that is not a strict weak order.
// topk       (read x, write values, write s32 indices) {rows, n, k [, largest = true]}
//            The k largest (or smallest) of each row of n, best first, equal ones by index. Floats
//            in total order.
// fft        (read x, write y) {type = "fft" | "ifft" | "rfft" | "irfft", lengths = [..]
//            [, batch = 1]}
//            Discrete Fourier transforms of 1 to 3 dimensions: [batch, lengths...] complex to the
//            same; rfft takes f32 or f64 and gives the first lengths.back() / 2 + 1 coefficients of
//            the last dimension, irfft takes those. ifft and irfft divide by the number of
//            elements. c64 with f32, c128 with f64.
// convolution
//            (read input, read kernel, write output) {input_shape, kernel_shape, output_shape,
//            input_layout, kernel_layout, output_layout [, strides] [, pads] [, base_dilation]
//            [, window_dilation] [, reversal] [, feature_groups = 1] [, batch_groups = 1]
//            [, precision = "highest"]}
//            HLO's convolution over any number of spatial dimensions. Shapes are as in memory, row
//            by row. Layouts number their dimensions: [batch, feature, spatial...] of input and
//            output, [input feature, output feature, spatial...] of the kernel. The other lists
//            have one number for each spatial dimension; pads: elements before the first (negative:
//            cut off), what comes after follows from the output's size. Types and sums as gemm.
// rng_bit_generator
//            (read state, write new state, write bits) {dims [, algorithm = "default"]}
//            HLO's, with "three_fry" or "philox" (the default): state of u64[2], u64[3] or the same
//            bytes as u32. `dims` is the shape of the bits, of any type.
// rng        (update u64 counter [, read a, read b], write numbers) {distribution = "uniform" |
//            "normal" | "bits"}
//            Numbers of a stream of 64 bits each, by a counter that goes on by one for each (two
//            for a normal one): uniform in [a, b) of floats and integers (a where that is empty),
//            normal with mean a and deviation b, or the bits themselves as integers.
// householder_qr
//            (read a, write factors, write taus) {m, n [, batch = 1]}
//            QR factors of m x n matrices in LAPACK's form: H = I - tau v v^H with v = (1, below
//            the diagonal of `factors`), R above; min(m, n) taus. Any float or complex type.
// householder_product
//            (read factors, read taus, write q) {m, n, k [, batch = 1]}
//            The first n columns of H0 H1 ... of k reflectors in that form.
// cholesky   (read a, write factor) {n [, batch = 1] [, lower = true]}
//            The lower triangular L of a = L L^H, or the upper U of a = U^H U, with zeroes beside
//            it, from that triangle of a. All NaN when a is not positive definite.
// triangular_solve
//            (read a, read b, write x) {m, n [, batch = 1] [, left_side = true] [, lower = true]
//            [, transpose = false] [, conjugate = false] [, unit_diagonal = false]}
//            op(a) x = b, or x op(a) = b, for b and x of m x n and the lower or upper triangle of
//            a; the diagonal is not read when it is said to be 1.
// lu         (read a, write factors, write s32 pivots, write s32 info) {m, n [, batch = 1]}
//            a with rows swapped is L U, for m x n matrices with partial pivoting: U on and above
//            the diagonal of `factors`, L without its diagonal of ones below. Row i was swapped
//            with row pivots[i] - 1, in order; `info` is the number of the first pivot that is 0,
//            counted from 1, or 0. Complex pivots are chosen by |re| + |im|.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "program/program.h"

namespace weft::program {

struct Routine {
  std::string_view name;
  Status (*verify)(const Program& program, const Step& step);
  int64_t (*cost)(const Program& program, const Step& step);  // in interpreter instructions
  // One span for each use, in order.
  Status (*interpret)(const Program& program, const Step& step, int64_t device,
                      std::span<const std::span<std::byte>> memory);
};
const Routine* FindRoutine(std::string_view name);  // null if not known here

// An attribute by name; the default if it is absent or of another kind.
int64_t IntAttr(const LibraryStep& call, std::string_view name, int64_t otherwise);
double DoubleAttr(const LibraryStep& call, std::string_view name, double otherwise);
bool BoolAttr(const LibraryStep& call, std::string_view name, bool otherwise);
std::string_view StringAttr(const LibraryStep& call, std::string_view name,
                            std::string_view otherwise);
const std::vector<int64_t>* IntsAttr(const LibraryStep& call, std::string_view name);  // or null

// The epilogue of a gemm or convolution that verifies.
struct EpilogueForm {
  const Kernel* kernel = nullptr;  // null: it has none
  size_t result = 0;               // the parameter that is the routine's result
  int64_t rounds = 1;              // of the grid
  int64_t elements = 0;            // of the result in each
};
EpilogueForm EpilogueFormOf(const Program& program, const Step& step);

// One side of a scaled_gemm: how many elements a scale covers, and whether k is the slower index.
struct ScaledSide {
  bool k_first = false, has_scale = false;
  int64_t batch_block = 1, vector_block = 1, k_block = 1;
};
// The attributes of a scaled_gemm that verifies.
struct ScaledGemmForm {
  int64_t m, n, k, batch;
  DType operands;
  ScaledSide a, b;
};
ScaledGemmForm ScaledGemmFormOf(const LibraryStep& call);

// Whether the step is a call that takes that use packed.
bool TakesPacked(const Step& step, size_t use);

// The attributes of an attention that verifies.
struct AttentionForm {
  // Strides of one operand; 0 along what it does not have.
  struct Operand {
    std::vector<int64_t> axes;
    int64_t key = 0, element = 0;
  };
  std::vector<int64_t> axes;  // sizes
  int64_t keys = 0, depth = 0, values = 0;
  Operand q, k, v, bias, mask, out;
  Operand dout, dq, dk, dv;  // of a gradient; no strides: not asked for
  bool has_bias = false, has_mask = false;
  double scale = 1, fill = 0;
  int64_t query_axis = 0;
  int64_t first = 0, last = 0;  // bounds of key - query; saturated where there is none

  bool bounds_first() const { return first > -kNoBound; }
  bool bounds_last() const { return last < kNoBound; }
  int64_t queries() const;  // of all axes
  // Numbers of uses.
  size_t bias_use() const { return 3; }
  size_t mask_use() const { return size_t{3} + has_bias; }
  size_t out_use() const { return size_t{3} + has_bias + has_mask; }
  static constexpr int64_t kNoBound = int64_t{1} << 40;  // beyond every index
};
AttentionForm AttentionFormOf(const LibraryStep& call);

// The attributes of an rng that verifies.
struct RngForm {
  enum Kind { kUniform, kNormal, kBits } kind = kUniform;
  DType type = DType::kInvalid, a_type = DType::kInvalid, b_type = DType::kInvalid;
  int64_t elements = 0;
  uint64_t numbers() const {  // of the stream
    return static_cast<uint64_t>(elements) * (kind == kNormal ? 2 : 1);
  }
  // Elements begin to end, when the counter was `counter` before the first.
  void Fill(uint64_t counter, const std::byte* a_data, const std::byte* b_data, int64_t begin,
            int64_t end, std::byte* out) const;
};
RngForm RngFormOf(const Program& program, const Step& step);

// The attributes of a convolution that verifies, with the strides of its operands in elements.
struct ConvolutionForm {
  struct Axis {
    int64_t in, out, window;
    int64_t in_stride, out_stride, window_stride;
    int64_t stride, pad, base_dilation, window_dilation;
    bool reversal;
  };
  std::vector<Axis> axes;
  int64_t batch_in, in_features, kernel_in, kernel_out, batch, out_features;
  int64_t in_batch_stride, in_feature_stride, kernel_in_stride, kernel_out_stride;
  int64_t out_batch_stride, out_feature_stride;
  int64_t feature_groups, batch_groups;

  // The input element under a tap of the window at a position; -1 in padding and holes.
  static int64_t InputIndex(const Axis& a, int64_t position, int64_t tap) {
    int64_t at =
        position * a.stride - a.pad + (a.reversal ? a.window - 1 - tap : tap) * a.window_dilation;
    if (at < 0 || at % a.base_dilation != 0) return -1;
    return at / a.base_dilation < a.in ? at / a.base_dilation : -1;
  }
};
ConvolutionForm ConvolutionFormOf(const LibraryStep& call);

}  // namespace weft::program
