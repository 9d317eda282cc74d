// The tasks of the gradient of attention: each goes through a chunk of keys, block by block, and
// all queries, of which it makes the chunk's dk and dv and its part of dq.
#include <algorithm>

#include "cpu/routines/attention_gradient.h"
#include "cpu/routines/prepare.h"

namespace weft::cpu {

GradientPanels::Task GradientPanels::NewTask(float* scratch) const {
  PartsOfScratch parts(scratch);
  int64_t w = plan_.width, block = plan_.key_block * w, columns = cut_.block_columns();
  int64_t depth_keys = RoundUp(plan_.key_block, cut_.depth_tile().rows);
  int64_t value_keys = RoundUp(plan_.key_block, cut_.value_tile().rows);
  Task task;
  task.buffers = {parts.Take(block), parts.Take(block), parts.Take(block)};
  task.gradients = parts.Take(block);
  task.weights_turned = parts.Take(value_keys * columns);
  task.ds_turned = parts.Take(depth_keys * columns);
  task.dk = parts.Take(depth_keys * cut_.depth_cols());
  task.dv = parts.Take(value_keys * cut_.value_cols());
  task.zeros = parts.Take(std::max({form_.depth, form_.values, w}));
  return task;
}

// [keys][width] to columns of [key groups][block columns][rows].
void GradientPanels::Turn(const Task& task, const TileKernel<float>& tile, const float* x,
                          int64_t keys, int64_t column, float* out) const {
  const float* rows[64];
  for (int64_t key = 0; key < keys; key += tile.rows) {
    for (int64_t i = 0; i < tile.rows; ++i) {
      rows[i] = key + i < keys ? x + (key + i) * plan_.width : task.zeros;
    }
    PackAcross<float>(rows, plan_.width, tile.rows,
                      out + key * cut_.block_columns() + column * tile.rows);
  }
}

// Weights and the gradients of scores of a panel by a block of keys, and what these add to dq.
void GradientPanels::RunPanel(const Outer& outer, const Task& task, int64_t number, KeyRange keys,
                              float* dq) const {
  int64_t w = plan_.width, rows = plan_.rows, count = keys.end - keys.begin;
  QueryPanel panel = Panel(outer, number);
  auto scale = static_cast<float>(form_.scale);
  float *scores = task.buffers.scores, *gradients = task.gradients;
  const float* dout = outer.dout + number * w * form_.values;
  for (int64_t i = 0; i < count; i += rows) {
    tile_.packed(form_.depth, outer.keys + (keys.begin + i) * form_.depth, panel.q, scores + i * w,
                 w, scale, 0);
    tile_.packed(form_.values, outer.values + (keys.begin + i) * form_.values, dout,
                 gradients + i * w, w, 1, 0);
  }
  ChangeScores(task.buffers, panel, keys);
  const float* facts = outer.row_facts + 3 * number * w;
  softmax_.gradient(count, w, facts, facts + w, facts + 2 * w, scores, gradients);
  FillMasked(task.buffers, panel, keys, 0, gradients);
  if (gradient_.dq == nullptr) return;
  dq += number * cut_.depth_rows() * w;
  const float* key_rows = outer.key_rows + keys.begin * cut_.depth_rows();
  for (int64_t i = 0; i < cut_.depth_rows(); i += rows) {
    tile_.packed(count, key_rows + i * count, gradients, dq + i * w, w, scale, 1);
  }
}

// sums[key][col] grow by the products of a block of queries: `stride` of them lie in a panel.
void GradientPanels::AddProducts(const TileKernel<float>& tile, const float* turned,
                                 const float* rows, int64_t queries, int64_t stride, int64_t keys,
                                 int64_t cols, float scale, bool started, float* sums) const {
  for (int64_t key = 0; key < keys; key += tile.rows) {
    for (int64_t col = 0; col < cols; col += tile.cols) {
      tile.packed(queries, turned + key * cut_.block_columns(), rows + col * stride,
                  sums + key * cols + col, cols, scale, started ? 1 : 0);
    }
  }
}

bool GradientPanels::RunBlock(const Outer& outer, const Task& task, int64_t block, KeyRange keys,
                              float* dq, bool started) const {
  int64_t w = plan_.width, count = keys.end - keys.begin, first = block * cut_.block_panels;
  int64_t end = std::min(first + cut_.block_panels, plan_.panels);
  auto skips = [&](int64_t panel) {
    return outer.may_skip[panel] != 0 && IsOutside(Panel(outer, panel), keys);
  };
  int64_t from = first;
  while (from < end && skips(from)) ++from;
  while (from < end && skips(end - 1)) --end;
  if (from == end) return false;
  const TileKernel<float>&depth = cut_.depth_tile(), &value = cut_.value_tile();
  for (int64_t panel = from; panel < end; ++panel) {
    if (skips(panel)) {
      std::fill_n(task.buffers.scores, count * w, 0.0F);
      std::fill_n(task.gradients, count * w, 0.0F);
    } else {
      RunPanel(outer, task, panel, keys, dq);
    }
    int64_t column = (panel - first) * w;
    if (gradient_.dv != nullptr) {
      Turn(task, value, task.buffers.scores, count, column, task.weights_turned);
    }
    if (gradient_.dk != nullptr) {
      Turn(task, depth, task.gradients, count, column, task.ds_turned);
    }
  }
  int64_t column = (from - first) * w, queries = std::min(plan_.columns, end * w) - from * w;
  int64_t stride =
      std::min(plan_.columns, (first + cut_.block_panels) * w) - first * w;  // of the block
  if (gradient_.dv != nullptr) {
    AddProducts(value, task.weights_turned + column * value.rows,
                outer.dout_rows + first * w * cut_.value_cols() + column * value.cols, queries,
                stride, count, cut_.value_cols(), 1, started, task.dv);
  }
  if (gradient_.dk != nullptr) {
    AddProducts(depth, task.ds_turned + column * depth.rows,
                outer.q_rows + first * w * cut_.depth_cols() + column * depth.cols, queries, stride,
                count, cut_.depth_cols(), static_cast<float>(form_.scale), started, task.dk);
  }
  return true;
}

void GradientPanels::StoreKeys(const Outer& outer, const Task& task, KeyRange keys,
                               bool started) const {
  AttentionPlaces at = plan_.Outer(outer.index);
  auto store = [&](DType dtype, float* sums, int64_t cols, int64_t n, int64_t place,
                   const program::AttentionForm::Operand& strides, std::byte* data) {
    if (data == nullptr) return;
    if (!started) std::fill_n(sums, (keys.end - keys.begin) * cols, 0.0F);
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      StoreRow(dtype, sums + (key - keys.begin) * cols, n, strides.element,
               data + (place + key * strides.key) * ByteWidth(dtype));
    }
  };
  store(cut_.dk, task.dk, cut_.depth_cols(), form_.depth, at.dk, form_.dk, gradient_.dk);
  store(cut_.dv, task.dv, cut_.value_cols(), form_.values, at.dv, form_.dv, gradient_.dv);
}

void GradientPanels::RunChunk(const Outer& outer, const Task& task, int64_t chunk) const {
  std::fill_n(task.zeros, plan_.width, 0.0F);
  float* dq = outer.dq + chunk * cut_.dq_elements();
  std::fill_n(dq, cut_.dq_elements(), 0.0F);
  int64_t last = std::min(form_.keys, (chunk + 1) * cut_.chunk);
  for (int64_t key = chunk * cut_.chunk; key < last; key += plan_.key_block) {
    KeyRange keys = {key, std::min(key + plan_.key_block, last)};
    bool started = false;
    for (int64_t block = 0; block < cut_.query_blocks(); ++block) {
      started |= RunBlock(outer, task, block, keys, dq, started);
    }
    StoreKeys(outer, task, keys, started);
  }
}

Status GradientPanels::RunWave() {
  double cost = static_cast<double>(cut_.chunk * plan_.columns) *
                static_cast<double>(3 * form_.depth + 2 * form_.values + 32) / 20;
  return TryPieces(means_.pool, std::ssize(outers_) * cut_.chunks, cost,
                   [&](int64_t begin, int64_t end) -> Status {
                     auto scratch = TRY(Scratch<float>::New(means_, cut_.TaskElements()));
                     Task task = NewTask(scratch.data());
                     for (int64_t i = begin; i < end; ++i) {
                       RunChunk(outers_[static_cast<size_t>(i / cut_.chunks)], task,
                                i % cut_.chunks);
                     }
                     return {};
                   });
}

// dq: sums over chunks, in order.
Status GradientPanels::StoreQueries() {
  if (gradient_.dq == nullptr) return {};
  int64_t w = plan_.width, panels = plan_.panels, size = cut_.dq_elements();
  double cost = static_cast<double>(cut_.chunks * w * form_.depth);
  return TryPieces(means_.pool, std::ssize(outers_) * panels, cost,
                   [&](int64_t begin, int64_t end) -> Status {
                     auto scratch = TRY(Scratch<float>::New(means_, cut_.TaskElements()));
                     float* row = scratch.data();
                     for (int64_t n = begin; n < end; ++n) {
                       const Outer& outer = outers_[static_cast<size_t>(n / panels)];
                       QueryPanel panel = Panel(outer, n % panels);
                       const float* sums = outer.dq + n % panels * cut_.depth_rows() * w;
                       for (int64_t i = 0; i < panel.count; ++i) {
                         for (int64_t j = 0; j < form_.depth; ++j) {
                           double sum = sums[j * w + i];
                           for (int64_t c = 1; c < cut_.chunks; ++c)
                             sum += sums[c * size + j * w + i];
                           row[j] = static_cast<float>(sum);
                         }
                         StoreRow(cut_.dq, row, form_.depth, form_.dq.element,
                                  gradient_.dq + panel.at[i].dq * ByteWidth(cut_.dq));
                       }
                     }
                     return {};
                   });
}

Status GradientPanels::Run() {
  int64_t wave = cut_.wave;
  auto scratch = TRY(Scratch<float>::New(means_, wave * cut_.OuterElements()));
  for (int64_t first = 0; first < plan_.outers; first += wave) {
    NewWave(scratch.data(), first, std::min(wave, plan_.outers - first));
    TRY(PackWave());
    TRY(RunWave());
    TRY(StoreQueries());
  }
  return {};
}

namespace {

class AttentionGradient : public PreparedRoutine {
 public:
  explicit AttentionGradient(GradientPlan plan) : plan_(std::move(plan)) {}

  Status Run(const RoutineContext& context) const override {
    const auto& form = plan_.attention.form;
    size_t out = form.out_use(), next = out + 3;
    AttentionMemory memory = {context.memory[0],
                              context.memory[1],
                              context.memory[2],
                              form.has_bias ? context.memory[form.bias_use()] : nullptr,
                              form.has_mask ? context.memory[form.mask_use()] : nullptr,
                              nullptr};
    auto take = [&](const program::AttentionForm::Operand& operand) {
      return operand.axes.empty() ? nullptr : context.memory[next++];
    };
    GradientMemory gradient = {};
    gradient.out = context.memory[out];
    gradient.statistics = reinterpret_cast<const float*>(context.memory[out + 1]);
    gradient.dout = context.memory[out + 2];
    gradient.dq = take(form.dq);
    gradient.dk = take(form.dk);
    gradient.dv = take(form.dv);
    Means means = context.means();
    return GradientPanels(means, plan_, memory, gradient).Run();
  }

  int64_t ScratchBytes(int64_t threads) const override {
    int64_t tasks = plan_.wave * std::max(plan_.chunks, plan_.key_blocks() + plan_.query_blocks());
    return 4 *
           (plan_.wave * plan_.OuterElements() + std::min(threads, tasks) * plan_.TaskElements());
  }

 private:
  GradientPlan plan_;
};

}  // namespace

Result<std::unique_ptr<PreparedRoutine>> PrepareAttentionGradient(const RoutineInputs& inputs) {
  TRY(VerifyCall(inputs, "attention_gradient"));
  const auto& call = std::get<program::LibraryStep>(inputs.step.op);
  GradientPlan plan = PlanGradient(program::AttentionFormOf(call));
  AttentionPlan& attention = plan.attention;
  const auto& form = attention.form;
  attention.q = UseDType(inputs, 0);
  attention.k = UseDType(inputs, 1);
  attention.v = UseDType(inputs, 2);
  attention.bias = UseDType(inputs, form.bias_use());
  size_t out = form.out_use(), next = out + 3;
  attention.out = UseDType(inputs, out);
  plan.dout = UseDType(inputs, out + 2);
  if (!form.dq.axes.empty()) plan.dq = UseDType(inputs, next++);
  if (!form.dk.axes.empty()) plan.dk = UseDType(inputs, next++);
  if (!form.dv.axes.empty()) plan.dv = UseDType(inputs, next++);
  return std::make_unique<AttentionGradient>(std::move(plan));
}

}  // namespace weft::cpu
