// weft_convert_elements FROM TO: reads elements of type FROM (storage form) from standard input and
// writes them as TO to standard output.
#include <cstdio>
#include <vector>

#include "base/elements.h"

int main(int argc, char** argv) {
  using namespace weft;
  std::optional<DType> from = argc == 3 ? ParseDType(argv[1]) : std::nullopt;
  std::optional<DType> to = argc == 3 ? ParseDType(argv[2]) : std::nullopt;
  if (!from || !to || !IsArrayType(*from) || !IsArrayType(*to)) {
    std::fputs("usage: weft_convert_elements FROM TO < elements > elements\n", stderr);
    return 2;
  }
  std::vector<std::byte> input;
  std::byte buffer[65536];
  while (size_t n = std::fread(buffer, 1, sizeof(buffer), stdin)) {
    input.insert(input.end(), buffer, buffer + n);
  }
  int64_t n = static_cast<int64_t>(input.size()) / ByteWidth(*from);
  std::vector<std::byte> output(static_cast<size_t>(n * ByteWidth(*to)));
  ConvertElements(*from, input.data(), *to, output.data(), n);
  return std::fwrite(output.data(), 1, output.size(), stdout) == output.size() ? 0 : 1;
}
