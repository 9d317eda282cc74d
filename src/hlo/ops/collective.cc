#include "hlo/attrs.h"
#include "hlo/instruction.h"
#include "hlo/op.h"

namespace weft::hlo {

template <>
OpRow Define<Op::kAllGather>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAllReduce>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kReduceScatter>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCollectiveReduce>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kAllToAll>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kRaggedAllToAll>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCollectiveBroadcast>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kCollectivePermute>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kPartitionId>() {
  return {.doc = ""};
}

template <>
OpRow Define<Op::kReplicaId>() {
  return {.doc = ""};
}

}  // namespace weft::hlo
