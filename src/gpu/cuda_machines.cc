#include "gpu/cuda_machines.h"

#include "base/str.h"

namespace weft::gpu {
namespace {

struct Row {
  int major, minor;
  int since, until;    // CUDA versions that know it; until: not itself, 0: to this day
  bool exact, family;  // has names that end in a, in f
};
constexpr Row kRows[] = {
    {8, 0, 11000, 0, false, false},     //
    {8, 6, 11010, 0, false, false},     //
    {8, 7, 11040, 0, false, false},     //
    {8, 9, 11080, 0, false, false},     //
    {9, 0, 12000, 0, true, false},      //
    {10, 0, 12080, 0, true, true},      //
    {10, 1, 12080, 13000, true, true},  // called 11.0 since
    {10, 3, 12090, 0, true, true},      //
    {11, 0, 13000, 0, true, true},      //
    {12, 0, 12080, 0, true, true},      //
    {12, 1, 12090, 0, true, true},      //
};
constexpr int kFamilySince = 12090;

struct Version {
  int cuda, ptx;
};
constexpr Version kVersions[] = {
    {12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84},
    {12050, 85}, {12060, 85}, {12070, 86}, {12080, 87}, {12090, 88},
    {13000, 90}, {13010, 91}, {13020, 92}, {13030, 93}, {13040, 94},
};

bool Knows(const Row& row, int cuda) {
  return cuda >= row.since && (row.until == 0 || cuda < row.until);
}

}  // namespace

CudaMachine MachineFor(int major, int minor, int cuda_version) {
  const Row* nearest = nullptr;  // the latest of the same major that is not later than it
  const Row* newest = nullptr;   // of all that are not later
  for (const Row& row : kRows) {
    if (!Knows(row, cuda_version)) continue;
    if (row.major > major || (row.major == major && row.minor > minor)) continue;
    newest = &row;
    if (row.major == major) nearest = &row;
  }
  if (nearest != nullptr) {
    std::string name = StrCat("sm_", nearest->major, nearest->minor);
    if (nearest->minor == minor) {
      return {nearest->exact ? name + "a" : name,
              nearest->exact ? CudaMachine::kExact : CudaMachine::kPlain};
    }
    if (nearest->family && cuda_version >= kFamilySince) return {name + "f", CudaMachine::kFamily};
    return {name, CudaMachine::kPlain};
  }
  if (newest == nullptr) return {};
  return {StrCat("compute_", newest->major, newest->minor), CudaMachine::kPtx};
}

int PtxVersion(int cuda_version) {
  int ptx = 0;
  for (const Version& v : kVersions) {
    if (v.cuda <= cuda_version) ptx = v.ptx;
  }
  return ptx;
}

}  // namespace weft::gpu
