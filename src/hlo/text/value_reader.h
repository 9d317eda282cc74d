// The parts of the grammar that stand for values alone: shapes, literals, shardings, metadata and
// the values of attributes.
#pragma once

#include <vector>

#include "base/literal.h"
#include "hlo/attrs.h"
#include "hlo/metadata.h"
#include "hlo/sharding.h"
#include "hlo/text/reader.h"

namespace weft::hlo::text {

inline constexpr int64_t kMaxFillerBytes = int64_t{64} << 20;         // of one elided constant
inline constexpr int64_t kMaxModuleFillerBytes = int64_t{256} << 20;  // of all in a module

class ValueReader : public Reader {
 public:
  using Reader::Reader;

  // parse_shape.cc
  Status ReadShape(Shape& shape);
  // parse_sharding.cc
  Status ReadSharding(Sharding& sharding);
  Status ReadReplicaGroups(ReplicaGroups& groups);
  // parse_literal.cc
  Status ReadLiteral(const Shape& shape, Literal& literal, bool* elided);

 protected:
  // parse_shape.cc
  bool AtShape();
  Status ReadDims(Shape& shape);
  Status ReadLayout(Layout& layout);
  Status ReadLayoutExtras(LayoutExtras& extras);
  Status ReadLayoutInt(std::string_view word, int64_t& value);
  Status ReadTiles(std::vector<Tile>& tiles);
  Status ReadDimLevels(std::vector<DimLevel>& levels);
  Status ReadSplits(std::vector<SplitConfig>& splits);
  Status ReadUnsignedType(DType& type);

  // parse_sharding.cc
  Status ReadSingleSharding(Sharding& sharding);  // after `{`, through `}`
  Status ReadShardingDevices(Sharding& sharding, const char* at);
  Status ReadShardingPart(Sharding& sharding, bool& has_kind, bool& has_device);
  Status ReadPriority(DimSharding& dim);
  Status ReadNamedSharding(Sharding& sharding);
  Status ReadNamedShardingAttribute(Sharding& sharding);
  Status ReadMesh(Mesh& mesh);
  Status ReadAxisRef(const Mesh& mesh, AxisRef& axis);
  Status ReadAxisRefs(const Mesh& mesh, std::vector<AxisRef>& axes);
  Status ReadIota(IotaDevices& iota);
  Status ReadReductionKind(ReductionKind& kind);

  // parse_metadata.cc
  Status ReadMetadata(Metadata& metadata);
  Status ReadMetadataList(std::vector<Metadata>& list);
  Status ReadOrigin(OriginNode& origin);
  Status ReadOriginTree(OriginNode& node);
  Status ReadOriginLeaf(OriginNode& node);

  // parse_literal.cc
  Status ReadTypedLiteral(Literal& literal);
  bool TakeFiller(const Shape& shape);
  Status FillElided(const Shape& shape, Literal& literal);

  // parse_attr_values.cc
  Status ReadEnum(const FieldRef& field);
  Status ReadPrecisions(std::vector<Precision>& list);
  Status ReadSizes(std::vector<int64_t>& sizes);  // 3x3
  Status ReadPad(Padding& padding, bool interior_allowed);
  Status ReadWindow(Window& window);
  Status ReadConvDims(ConvDims& dims);
  Status ReadSliceDims(SliceDims& dims);
  Status ReadIntPairs(IntPairs& pairs);
  Status ReadOperandAliases(OperandAliases& aliases);
  Status ReadResultAccuracy(ResultAccuracy& accuracy);
  Status ReadSparsity(SparsityConfig& config);
  Status ReadTensorSparsity(TensorSparsity& sparsity);

 private:
  int64_t filler_bytes_ = 0, filler_seed_ = 0;
};

}  // namespace weft::hlo::text
