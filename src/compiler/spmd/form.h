// The one form that shardings have in the compiler: by axes of a mesh, cut into pieces of prime
// size. Every spelling (sdy's named axes and sub-axes, GSPMD's tile assignments written out or as
// iotas) is read into it and printed from it.
//
// The devices of a program are a grid of axes of prime size, major to minor. A dimension is cut by
// a list of such axes, major to minor; an axis cuts one dimension of a value at most. Since sizes
// are prime, two shardings share an axis or do not: there is no overlap in part.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/inline_vec.h"
#include "base/shape.h"
#include "compiler/spmd/axis_list.h"
#include "hlo/module.h"
#include "hlo/sharding.h"

namespace weft::compiler::spmd {

using AxisSet = uint64_t;  // bit k: axis k of DeviceMesh::pieces
inline AxisSet BitOf(int axis) {
  return AxisSet{1} << axis;
}

// A piece of a named axis, "name":(pre)size, of prime size.
struct Piece {
  int64_t axis = 0, pre = 1, size = 1;
  int64_t stride = 1;  // between devices that are neighbours along it
  bool operator==(const Piece&) const = default;
};

struct DeviceMesh {
  int64_t devices = 1;
  std::vector<hlo::MeshAxis> axes;  // named ones, or one without a name
  std::vector<Piece> pieces;        // major to minor
  std::vector<int64_t> order;       // the device at each place; empty: the place is the device

  // Of axes in major to minor order; the devices stand in `order`.
  static Result<DeviceMesh> FromAxes(std::vector<hlo::MeshAxis> axes,
                                     std::vector<int64_t> order = {});
  // The mesh of all shardings of a module: the first that names its axes, or one cut so that the
  // tile assignments are made of its pieces.
  static Result<DeviceMesh> Of(const hlo::Module& module);

  int64_t DeviceAt(int64_t place) const {
    return order.empty() ? place : order[static_cast<size_t>(place)];
  }
  int64_t size(int axis) const { return pieces[static_cast<size_t>(axis)].size; }
  int64_t SizeOf(AxisSpan axes) const;
  int64_t SizeOf(AxisSet set) const;
  // The place's number along axes, major to minor.
  int64_t IndexOf(int64_t place, AxisSpan axes) const;
  // Devices that differ in `axes` alone, in their order, major to minor.
  std::vector<std::vector<int64_t>> Groups(AxisSpan axes) const;
  AxisSet all() const { return (AxisSet{1} << pieces.size()) - 1; }
  // Whether they are all pieces of the named axes that they are of: callers know no others.
  bool AreWholeAxes(AxisSpan pieces) const;
  // "x", "y":(2)2: for messages.
  std::string NameOf(AxisSpan axes) const;
};

struct DimForm {
  AxisList axes;
  bool open = false;     // propagation may add to it
  int32_t priority = 0;  // the round of propagation in which it counts
  bool operator==(const DimForm&) const = default;
};

// How a value lies on the mesh. Axes that nothing names hold copies.
struct Form {
  InlineVec<DimForm, 4> dims;
  AxisSet replicated = 0;  // must hold copies
  AxisSet unreduced = 0;   // devices hold summands
  AxisSet manual = 0;      // the shape is of one device along these already
  hlo::ReductionKind reduction = hlo::ReductionKind::kNone;  // of `unreduced`; none: sum
  // Where devices stand in another order than the mesh's: the device at each place.
  std::vector<int64_t> order;
  bool operator==(const Form&) const = default;

  static Form Replicated(int64_t rank, bool open = false);
  AxisSet cut() const;  // the axes that cut dimensions
  AxisSet used() const { return cut() | replicated | unreduced | manual; }
  bool IsReplicated() const { return cut() == 0 && unreduced == 0; }
  // The same elements on the same devices.
  bool SameAs(const Form& other) const;
  // "[{x}, {}] unreduced {y}": for logs and tests.
  std::string ToString(const DeviceMesh& mesh) const;
};

// Reads a sharding (not of a tuple) of a value with this shape.
Result<Form> ReadForm(const hlo::Sharding& sharding, const Shape& shape, const DeviceMesh& mesh);
// Reads many of one mesh: programs have few, most instructions that of their neighbours.
class FormReader {
 public:
  explicit FormReader(const DeviceMesh& mesh) : mesh_(mesh) {}
  // The form is there until the next call, the sharding stays for as long as the reader lives.
  Result<const Form*> Read(const hlo::Sharding& sharding, const Shape& shape);

 private:
  struct Known {
    const hlo::Sharding* sharding;
    int64_t rank;
    Form form;
  };
  const DeviceMesh& mesh_;
  std::vector<Known> known_;  // what is asked for often comes first
};
// Prints it: by names when the mesh has them, else as a tile assignment.
hlo::Sharding PrintForm(const Form& form, const DeviceMesh& mesh);
hlo::Sharding PrintNamed(const Form& form, const DeviceMesh& mesh);
hlo::Sharding PrintTiled(const Form& form, const DeviceMesh& mesh);

// One device's part of an array: sizes that do not divide are rounded up.
Shape LocalShape(const Shape& shape, const Form& form, const DeviceMesh& mesh);

// The leaves of a shape that are not tuples, depth first.
std::vector<const Shape*> LeavesOf(const Shape& shape);
// The sharding of leaf k of an instruction; null: not stated.
const hlo::Sharding* LeafSharding(const hlo::Sharding* sharding, const Shape& shape, size_t leaf);

}  // namespace weft::compiler::spmd
