#include "cpu/routines/routine_testing.h"

namespace weft::cpu {
namespace {

void CheckFft(Random& random, std::string type, DType real, std::vector<int64_t> lengths,
              int64_t batch) {
  std::vector<int64_t> full = {batch}, half;
  full.insert(full.end(), lengths.begin(), lengths.end());
  half = full;
  if (half.back() > 0) half.back() = half.back() / 2 + 1;
  DType in = type == "rfft" ? real : ComplexType(real);
  DType out = type == "irfft" ? real : ComplexType(real);
  CallUnderTest call;
  call.routine = "fft";
  call.attrs = {{"type", type}, {"lengths", lengths}, {"batch", batch}};
  call.inputs = {RandomLiteral(random, in, type == "irfft" ? half : full)};
  call.outputs = {Shape(out, type == "rfft" ? half : full)};
  Check(
      call, real == DType::kF32 ? 1e-6 : 1e-14,
      StrCat(type, " ", Name(real), " of ", lengths.size(), " dimensions, last ", lengths.back()));
}

TEST(Fft, AllLengths) {
  Random random(1);
  for (DType real : {DType::kF32, DType::kF64}) {
    for (std::string type : {"fft", "ifft", "rfft", "irfft"}) {
      for (int64_t n = 0; n <= 40; ++n) CheckFft(random, type, real, {n}, 2);
      for (int64_t n : {49,  64,  77,  97,   121,  128,  169,  210,  251,  256,
                        360, 509, 512, 1000, 1024, 1155, 2002, 2047, 4096, 6144}) {
        CheckFft(random, type, real, {n}, 3);
      }
    }
  }
}

// Groups of rows and blocks of columns that are not whole, and those of one row or column.
TEST(Fft, Batches) {
  Random random(3);
  for (DType real : {DType::kF32, DType::kF64}) {
    for (std::string type : {"fft", "ifft", "rfft", "irfft"}) {
      for (int64_t batch : {1, 2, 3, 4, 5, 16, 17, 31, 37}) {
        for (int64_t n : {2, 3, 5, 8, 9, 15, 16, 22, 30, 61, 67}) {
          CheckFft(random, type, real, {n}, batch);
        }
      }
      CheckFft(random, type, real, {34 * 61}, 5);
      CheckFft(random, type, real, {20000}, 2);
      for (int64_t n : {1, 2, 8, 12, 22, 61, 67}) {
        for (int64_t columns : {1, 3, 8, 33, 70}) CheckFft(random, type, real, {n, columns}, 2);
      }
    }
  }
}

TEST(Fft, ManyDimensions) {
  Random random(2);
  for (std::string type : {"fft", "ifft", "rfft", "irfft"}) {
    CheckFft(random, type, DType::kF32, {6, 10}, 3);
    CheckFft(random, type, DType::kF64, {17, 9}, 2);
    CheckFft(random, type, DType::kF32, {4, 5, 6}, 2);
    CheckFft(random, type, DType::kF64, {1, 23, 8}, 1);
    CheckFft(random, type, DType::kF32, {64, 96}, 2);
    CheckFft(random, type, DType::kF32, {3, 0}, 2);
    CheckFft(random, type, DType::kF32, {4, 8}, 0);
  }
}

}  // namespace
}  // namespace weft::cpu
