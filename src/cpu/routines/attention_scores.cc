// Queries of a panel, and what bias, mask and bounds make of their scores.
#include <algorithm>

#include "cpu/routines/attention_panels.h"

namespace weft::cpu {

void PanelScores::PlaceQueries(QueryPanel& panel, int64_t outer) const {
  AttentionPlaces base = plan_.Outer(outer);
  for (int64_t i = 0; i < plan_.width; ++i) {
    panel.at[i] = base + plan_.Column(panel.first + (i < panel.count ? i : 0));
    KeyRange within = WithinBounds(form_, panel.at[i].position);
    panel.low[i] = static_cast<int32_t>(within.begin);
    panel.high[i] = static_cast<int32_t>(within.end - 1);
  }
}

// Some elements of every query at a time.
void PanelScores::LoadQueries(const Buffers& buffers, const QueryPanel& panel, DType dtype,
                              const std::byte* data, int64_t AttentionPlaces::* place,
                              int64_t stride, int64_t elements, float* out) const {
  int64_t w = plan_.width, width = ByteWidth(dtype);
  const float* rows[64];
  for (int64_t p = 0; p < elements; p += plan_.key_block) {
    int64_t n = std::min(plan_.key_block, elements - p);
    for (int64_t i = 0; i < w; ++i) {
      float* row = buffers.rows + i * plan_.key_block;
      LoadElements(dtype, data + (panel.at[i].*place + p * stride) * width, stride, n, row);
      rows[i] = row;
    }
    PackAcross<float>(rows, n, w, out + p * w);
  }
}

template <class T>
void PanelScores::TurnRows(const Buffers& buffers, const QueryPanel& panel, KeyRange keys,
                           DType dtype, const std::byte* data, int64_t AttentionPlaces::* place,
                           int64_t stride, T* out) const {
  int64_t count = keys.end - keys.begin, bytes = ByteWidth(dtype);
  const T* rows[64];
  for (int64_t i = 0; i < plan_.width; ++i) {
    T* row = reinterpret_cast<T*>(buffers.rows) + i * plan_.key_block;
    const std::byte* from = data + (panel.at[i].*place + keys.begin * stride) * bytes;
    rows[i] = row;
    // Queries that share a row, such as those of one mask for all.
    if (i > 0 && panel.at[i].*place == panel.at[i - 1].*place) {
      rows[i] = rows[i - 1];
    } else if (stride == 1) {
      LoadRun<T>(dtype, from, count, row);
    } else {
      for (int64_t s = 0; s < count; ++s) LoadRun<T>(dtype, from + s * stride * bytes, 1, row + s);
    }
  }
  PackAcross<T>(rows, count, plan_.width, out);
}

void PanelScores::ChangeScores(const Buffers& buffers, const QueryPanel& panel,
                               KeyRange keys) const {
  if (form_.has_bias) {
    TurnRows<float>(buffers, panel, keys, plan_.bias, memory_.bias, &AttentionPlaces::bias,
                    form_.bias.key, buffers.turned);
    softmax_.add((keys.end - keys.begin) * plan_.width, buffers.turned, buffers.scores);
  }
  FillMasked(buffers, panel, keys, static_cast<float>(form_.fill), buffers.scores);
}

void PanelScores::FillMasked(const Buffers& buffers, const QueryPanel& panel, KeyRange keys,
                             float fill, float* x) const {
  int64_t w = plan_.width, count = keys.end - keys.begin;
  if (form_.has_mask) {
    auto* kept = reinterpret_cast<uint32_t*>(buffers.turned);
    TurnRows<uint32_t>(buffers, panel, keys, DType::kU8, memory_.mask, &AttentionPlaces::mask,
                       form_.mask.key, kept);
    softmax_.choose(count * w, kept, fill, x);
  }
  if (!plan_.has_bounds()) return;
  bool inside = true;
  for (int64_t i = 0; i < w; ++i) {
    inside &= keys.begin >= panel.low[i] && keys.end - 1 <= panel.high[i];
  }
  if (inside) return;
  softmax_.bound(count, w, static_cast<int32_t>(keys.begin), panel.low, panel.high, fill, x);
}

bool PanelScores::IsOutside(const QueryPanel& panel, KeyRange keys) const {
  int64_t low = *std::min_element(panel.low, panel.low + plan_.width);
  int64_t high = *std::max_element(panel.high, panel.high + plan_.width);
  return keys.end <= low || keys.begin > high;
}

void PanelScores::StoreRow(DType dtype, const float* row, int64_t n, int64_t stride,
                           std::byte* to) {
  if (stride == 1) return StoreRun<float>(dtype, row, n, to);
  for (int64_t j = 0; j < n; ++j) {
    StoreRun<float>(dtype, row + j, 1, to + j * stride * ByteWidth(dtype));
  }
}

}  // namespace weft::cpu
