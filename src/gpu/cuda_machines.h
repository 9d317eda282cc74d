// What NVIDIA's machines and compilers are called, by their numbers.
#pragma once

#include <cstdint>
#include <string>

namespace weft::gpu {

// What to compile for.
struct CudaMachine {
  enum Kind : uint8_t {
    kExact,   // this machine and no other: "sm_90a"
    kFamily,  // it and later ones of its family: "sm_100f"
    kPlain,   // it and later ones with the same first number: "sm_80"
    kPtx,     // any later one, compiled by the driver when loaded: "compute_120"
  };
  std::string name;
  Kind kind = kExact;
  bool operator==(const CudaMachine&) const = default;
};

// For compute capability major.minor, with a compiler of that CUDA version (13000 is 13.0). The
// exact name where the compiler knows it, else the next best that runs there. Empty: nothing does.
CudaMachine MachineFor(int major, int minor, int cuda_version);

// The version of PTX that a CUDA version writes, 80 for 8.0; the newest known for later ones.
int PtxVersion(int cuda_version);

}  // namespace weft::gpu
