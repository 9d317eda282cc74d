// Innermost loops of arm64's micro-kernels as machine code. 24 of the 32 vector registers are sums,
// and four multiplications begin in every cycle; with additions of addresses and counts together
// at the end of an iteration, where compilers put them, one of 12 cycles begins none (Neoverse V1).
// Here they stand between multiplications. Included where __aarch64__ is defined.
#pragma once

#include <stdint.h>

#include "program/target_facts.h"

namespace weft::cpu {
namespace {

// Sums, in vector registers 8 to 31; operands are in those below.
constexpr int kNeonRows = program::TargetFacts::kWideTileRows,
              kNeonVectors = program::TargetFacts::kWideTileVectors,
              kNeonSums = kNeonRows * kNeonVectors;

#define WEFT_ZERO(R) "movi v" #R ".2d, #0\n"
#define WEFT_ZERO_SUMS                                                                             \
  WEFT_ZERO(8)                                                                                     \
  WEFT_ZERO(9) WEFT_ZERO(10) WEFT_ZERO(11) WEFT_ZERO(12) WEFT_ZERO(13) WEFT_ZERO(14) WEFT_ZERO(15) \
      WEFT_ZERO(16) WEFT_ZERO(17) WEFT_ZERO(18) WEFT_ZERO(19) WEFT_ZERO(20) WEFT_ZERO(21)          \
          WEFT_ZERO(22) WEFT_ZERO(23) WEFT_ZERO(24) WEFT_ZERO(25) WEFT_ZERO(26) WEFT_ZERO(27)      \
              WEFT_ZERO(28) WEFT_ZERO(29) WEFT_ZERO(30) WEFT_ZERO(31)

#define WEFT_STORE(R0, R1, AT) "stp q" #R0 ", q" #R1 ", [%[sums], #" #AT "]\n"
#define WEFT_STORE_SUMS                                                                        \
  WEFT_STORE(8, 9, 0)                                                                          \
  WEFT_STORE(10, 11, 32) WEFT_STORE(12, 13, 64) WEFT_STORE(14, 15, 96) WEFT_STORE(16, 17, 128) \
      WEFT_STORE(18, 19, 160) WEFT_STORE(20, 21, 192) WEFT_STORE(22, 23, 224)                  \
          WEFT_STORE(24, 25, 256) WEFT_STORE(26, 27, 288) WEFT_STORE(28, 29, 320)              \
              WEFT_STORE(30, 31, 352)

#define WEFT_ADD(T, R0, R1, AT)                \
  "ldp q0, q1, [%[sums], #" #AT                \
  "]\n"                                        \
  "fadd v" #R0 "." T ", v" #R0 "." T ", v0." T \
  "\n"                                         \
  "fadd v" #R1 "." T ", v" #R1 "." T ", v1." T "\n"
#define WEFT_ADD_SUMS(T)                                                                           \
  WEFT_ADD(T, 8, 9, 0)                                                                             \
  WEFT_ADD(T, 10, 11, 32) WEFT_ADD(T, 12, 13, 64) WEFT_ADD(T, 14, 15, 96) WEFT_ADD(T, 16, 17, 128) \
      WEFT_ADD(T, 18, 19, 160) WEFT_ADD(T, 20, 21, 192) WEFT_ADD(T, 22, 23, 224)                   \
          WEFT_ADD(T, 24, 25, 256) WEFT_ADD(T, 26, 27, 288) WEFT_ADD(T, 28, 29, 320)               \
              WEFT_ADD(T, 30, 31, 352)

// Rows of three vectors, `row` bytes apart.
#define WEFT_STORE_ROW(R0, R1, R2) \
  "stp q" #R0 ", q" #R1 ", [%[to]]\nstr q" #R2 ", [%[to], #32]\nadd %[to], %[to], %[row]\n"
#define WEFT_STORE_ROWS                                                                \
  WEFT_STORE_ROW(8, 9, 10)                                                             \
  WEFT_STORE_ROW(11, 12, 13) WEFT_STORE_ROW(14, 15, 16) WEFT_STORE_ROW(17, 18, 19)     \
      WEFT_STORE_ROW(20, 21, 22) WEFT_STORE_ROW(23, 24, 25) WEFT_STORE_ROW(26, 27, 28) \
          WEFT_STORE_ROW(29, 30, 31)

#define WEFT_ALL_VECTORS                                                                         \
  "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
      "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
      "v28", "v29", "v30", "v31"

// Panels of a stream from L2, one after the other in memory: so many bytes ahead.
#define WEFT_AHEAD(AT) "prfm pldl1keep, [%[a], #" #AT "]\n"

// A row of sums grows by three vectors of b times an element of a.
#define WEFT_ROW(T, R0, R1, R2, X)    \
  "fmla v" #R0 "." T ", v0." T ", " X \
  "\n"                                \
  "fmla v" #R1 "." T ", v1." T ", " X \
  "\n"                                \
  "fmla v" #R2 "." T ", v2." T ", " X "\n"
#define WEFT_B "ldp q0, q1, [%[b]]\nldr q2, [%[b], #32]\n"
#define WEFT_NEXT_B "add %[b], %[b], %[stride]\n"

// One step: all rows, with what is done after the fourth, the fifth and the sixth.
#define WEFT_STEP(T, X0, X1, X2, X3, X4, X5, X6, X7, FOURTH, FIFTH, SIXTH)                 \
  WEFT_B WEFT_ROW(T, 8, 9, 10, X0) WEFT_ROW(T, 11, 12, 13, X1) WEFT_ROW(T, 14, 15, 16, X2) \
      WEFT_NEXT_B WEFT_ROW(T, 17, 18, 19, X3)                                              \
  FOURTH WEFT_ROW(T, 20, 21, 22, X4)                                                       \
  FIFTH                                                                                    \
  WEFT_ROW(T, 23, 24, 25, X5) SIXTH WEFT_ROW(T, 26, 27, 28, X6) WEFT_ROW(T, 29, 30, 31, X7)
#define WEFT_STEP_F32(AT, FOURTH, FIFTH)                                                  \
  "ldp q3, q4, [%[a], #" #AT                                                              \
  "]\n" WEFT_STEP("4s", "v3.s[0]", "v3.s[1]", "v3.s[2]", "v3.s[3]", "v4.s[0]", "v4.s[1]", \
                  "v4.s[2]", "v4.s[3]", FOURTH, FIFTH, "")
#define WEFT_STEP_F64(AT, MORE, FOURTH, FIFTH, SIXTH)                                     \
  "ldp q3, q4, [%[a], #" #AT "]\nldp q5, q6, [%[a], #" #MORE                              \
  "]\n" WEFT_STEP("2d", "v3.d[0]", "v3.d[1]", "v4.d[0]", "v4.d[1]", "v5.d[0]", "v5.d[1]", \
                  "v6.d[0]", "v6.d[1]", FOURTH, FIFTH, SIXTH)

// FIRST and SECOND: the steps of an iteration; ONE: the last of an odd number.
#define WEFT_STEPS(T, FIRST, SECOND, ONE)                                                          \
  __asm__ volatile(                                                                                \
      WEFT_ZERO_SUMS                                                                               \
      "cbz %[pairs], 2f\n"                                                                         \
      ".p2align 5\n"                                                                               \
      "1:\n" FIRST SECOND                                                                          \
      "b.ne 1b\n"                                                                                  \
      "2:\n"                                                                                       \
      "cbz %[odd], 3f\n" ONE                                                                       \
      "3:\n"                                                                                       \
      "cbz %[adds], 4f\n" WEFT_ADD_SUMS(T) "4:\n" WEFT_STORE_ROWS                                  \
      : [a] "+r"(a), [b] "+r"(b), [pairs] "+r"(pairs), [to] "+r"(to)                               \
      : [stride] "r"(stride), [odd] "r"(n % 2), [adds] "r"(adds), [sums] "r"(sums), [row] "r"(row) \
      : "cc", "memory", WEFT_ALL_VECTORS)

// Row i of `to`, three vectors, is the sum over p < n of a[p * 8 + i] times row p of b, and of row
// i of `sums` unless that is null. Rows of b are `stride` bytes apart, those of `to` `row`, those
// of `sums` lie one after the other. a and b are behind what was read then.
inline void NeonSteps(int64_t n, const float*& a, const float*& b, int64_t stride,
                      const float* sums, float* to, int64_t row) {
  int64_t pairs = n / 2, adds = sums != nullptr ? 1 : 0;
  WEFT_STEPS("4s", WEFT_STEP_F32(0, "", ""),
             WEFT_STEP_F32(32, "add %[a], %[a], #64\n", "subs %[pairs], %[pairs], #1\n"),
             WEFT_STEP_F32(0, "add %[a], %[a], #32\n", ""));
}
inline void NeonSteps(int64_t n, const double*& a, const double*& b, int64_t stride,
                      const double* sums, double* to, int64_t row) {
  int64_t pairs = n / 2, adds = sums != nullptr ? 1 : 0;
  WEFT_STEPS("2d", WEFT_STEP_F64(0, 32, "", "", WEFT_AHEAD(1024)),
             WEFT_STEP_F64(64, 96, "add %[a], %[a], #128\n", "subs %[pairs], %[pairs], #1\n",
                           WEFT_AHEAD(960)),
             WEFT_STEP_F64(0, 32, "add %[a], %[a], #64\n", "", ""));
}

// A step of matrix instructions: pairs of rows of a in registers 0 to 3, pairs of columns of b in 4
// to 7, two at a time. OP(R, ROWS, COLS): the square of sums in register R.
#define WEFT_COL(OP, R0, R1, R2, R3, COLS) \
  OP(R0, 0, COLS) OP(R1, 1, COLS) OP(R2, 2, COLS) OP(R3, 3, COLS)
#define WEFT_LOAD(R0, R1, FROM, AT) "ldp q" #R0 ", q" #R1 ", [%[" #FROM "], #" #AT "]\n"
#define WEFT_SQUARES(OP, A0, A1, B0, B1, B2, AHEAD, FIFTH, LAST0, LAST1)                         \
  WEFT_LOAD(0, 1, a, A0)                                                                         \
  WEFT_LOAD(4, 5, b, B0) WEFT_LOAD(2, 3, a, A1) WEFT_COL(OP, 8, 14, 20, 26, 4)                   \
      WEFT_LOAD(6, 7, b, B1) WEFT_COL(OP, 9, 15, 21, 27, 5) OP(10, 0, 6) OP(16, 1, 6)            \
          WEFT_LOAD(4, 5, b, B2) OP(22, 2, 6) AHEAD OP(28, 3, 6) WEFT_COL(OP, 11, 17, 23, 29, 7) \
              FIFTH OP(12, 0, 4) OP(18, 1, 4) LAST0 OP(24, 2, 4) OP(30, 3, 4) LAST1              \
              WEFT_COL(OP, 13, 19, 25, 31, 5)

// sums[i * 6 + j], in vectors: the square of two rows and two columns, over `steps` steps.
#define WEFT_MMLA_STEPS(OP)                    \
  int64_t quads = steps / 4, left = steps % 4; \
  __asm__ volatile(                                                                            \
      WEFT_ZERO_SUMS                                                                           \
      "cbz %[quads], 2f\n"                                                                     \
      ".p2align 5\n"                                                                           \
      "1:\n"                                                                                   \
      WEFT_SQUARES(OP, 0, 32, 0, 32, 64, WEFT_AHEAD(1024), "", "", "")                         \
      WEFT_SQUARES(OP, 64, 96, 96, 128, 160, WEFT_AHEAD(1088), "", "", "")                     \
      WEFT_SQUARES(OP, 128, 160, 192, 224, 256, WEFT_AHEAD(1152), "", "", "")                  \
      WEFT_SQUARES(OP, 192, 224, 288, 320, 352, WEFT_AHEAD(1216), "add %[b], %[b], #384\n",    \
                   "add %[a], %[a], #256\n", "subs %[quads], %[quads], #1\n")                  \
      "b.ne 1b\n"                                                                              \
      "2:\n"                                                                                   \
      "cbz %[left], 4f\n"                                                                      \
      "3:\n"                                                                                   \
      WEFT_SQUARES(OP, 0, 32, 0, 32, 64, "", "add %[b], %[b], #96\n", "add %[a], %[a], #64\n", \
                   "subs %[left], %[left], #1\n")                                              \
      "b.ne 3b\n"                                                                              \
      "4:\n" WEFT_STORE_SUMS                                                                   \
      : [a] "+r"(a), [b] "+r"(b), [quads] "+r"(quads), [left] "+r"(left)                       \
      : [sums] "r"(sums)                                                                       \
      : "cc", "memory", WEFT_ALL_VECTORS)

}  // namespace
}  // namespace weft::cpu
