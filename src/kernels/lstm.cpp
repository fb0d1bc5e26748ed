#include "kernels/lstm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>

#include "kernels/gate_panels.h"
#include "kernels/intra_op.h"
#include "kernels/lstm_loops.h"
#include "kernels/panel_products.h"
#include "kernels/work_parts.h"

namespace dtrain::kernels {
namespace {

constexpr int64_t kMostRows = 96;     // which stay in the second-level cache while all panels pass
constexpr int64_t kRowsOfSums = 128;  // rows of a panel at a time: half of the first cache
// multiplications: waking a thread takes as long as some of that
constexpr int64_t kLeastPerThread = int64_t{1} << 18;
// How many multiplications take as long as the gates of a cell
constexpr int64_t kProductsPerCell = 64;

// Calls body(column, row, row_end) for each of `columns`, for all rows in parts, on as many threads
// as are worth it.
void for_blocks(int64_t columns, int64_t rows, int64_t products_per_row,
                const std::function<void(int64_t, int64_t, int64_t)>& body) {
  const int64_t together = panel_loops().rows, threads = at::get_num_threads();
  const int64_t least = divide_up(rows, kMostRows), most = divide_up(rows, together);
  const int64_t parts = std::clamp(divide_up(threads, columns), least, most);
  const int64_t size = divide_up(divide_up(rows, parts), together) * together;
  const int64_t grain = 1 + kLeastPerThread / (size * products_per_row);
  intra_op_for(0, columns * divide_up(rows, size), grain, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t row = block / columns * size;
      body(block % columns, row, std::min(rows, row + size));
    }
  });
}

// What run backward gives: of the sums of products in panels, and of the rows [N, in], if those
// are needed.
struct Backward {
  at::Tensor of_gates, of_rows;
};

// of_h, of_c [B, H]: the gradients of the last state and cell of each sequence, which become those
// of the first.
Backward differentiate_steps(const LstmForward& of, const LstmWeights& weights, bool with_rows,
                             const at::Tensor& c, const at::Tensor& of_states,
                             const at::Tensor& of_h, const at::Tensor& of_c,
                             const std::vector<PackedStep>& steps) {
  const PanelLoops& loops = panel_loops();
  const GatePanels panels{.hidden = c.size(1), .tile = loops.tile};
  const int64_t rows = of.cells.size(0), hidden = panels.hidden, stride = rows * panels.tile,
                inputs = with_rows ? weights.ih.size(1) : 0;
  const at::Tensor to_states = panels.straight(weights.hh),
                   to_rows = with_rows ? panels.straight(weights.ih) : at::Tensor();
  const Backward result{
      .of_gates = hidden % panels.tile == 0 ? at::empty_like(of.gates) : at::zeros_like(of.gates),
      .of_rows = at::empty({rows, inputs}, c.options())};
  const at::Tensor zeros = at::zeros({std::max(hidden, inputs) + panels.tile}, c.options());
  const int64_t state_panels = divide_up(hidden, panels.tile),
                row_panels = divide_up(inputs, panels.tile);
  for (size_t t = steps.size(); t-- > 0;) {
    const auto [begin, count] = steps[t];
    const float* cells = of.cells.const_data_ptr<float>();
    const LstmStepGradient step{
        .hidden = hidden,
        .panel = stride,
        .gates = of.gates.const_data_ptr<float>() + begin * panels.tile,
        .c_before = t == 0 ? c.const_data_ptr<float>() : cells + steps[t - 1].begin * hidden,
        .c = cells + begin * hidden,
        .of_state =
            of_states.defined() ? of_states.const_data_ptr<float>() + begin * hidden : nullptr,
        .of_h = of_h.const_data_ptr<float>(),
        .of_c = of_c.mutable_data_ptr<float>(),
        .of_gates = result.of_gates.mutable_data_ptr<float>() + begin * panels.tile};
    for_blocks(panels.groups(), count, kProductsPerCell * panels.tile,
               [&](int64_t group, int64_t row, int64_t end) {
                 lstm_loops().differentiate(step, group, row, end);
               });
    const PanelProduct to_h{.x = step.of_gates,
                            .x_stride = panels.tile,
                            .x_width = panels.tile,
                            .x_panel = stride,
                            .weights = to_states.const_data_ptr<float>(),
                            .inner = panels.rows(),
                            .columns = hidden,
                            .start = zeros.const_data_ptr<float>(),
                            .y = of_h.mutable_data_ptr<float>(),
                            .y_stride = hidden,
                            .y_panel = panels.tile};
    PanelProduct to_x = to_h;
    if (with_rows) to_x.weights = to_rows.const_data_ptr<float>();
    to_x.columns = to_x.y_stride = inputs;
    to_x.y = result.of_rows.mutable_data_ptr<float>() + begin * inputs;
    for_blocks(state_panels + row_panels, count, panels.rows() * panels.tile,
               [&](int64_t panel, int64_t row, int64_t end) {
                 if (panel < state_panels) {
                   loops.multiply(to_h, panel, row, end);
                 } else {
                   loops.multiply(to_x, panel - state_panels, row, end);
                 }
               });
  }
  return result;
}

// The addresses of what was before each row: rows of `initial` [B, H] for the first step, rows of
// the step before for the others.
std::vector<const float*> rows_before(const at::Tensor& packed,
                                      const std::vector<PackedStep>& steps,
                                      const at::Tensor& initial) {
  const int64_t width = packed.size(1);
  std::vector<const float*> rows;
  rows.reserve(static_cast<size_t>(packed.size(0)));
  for (size_t t = 0; t < steps.size(); ++t) {
    const float* from = t == 0 ? initial.const_data_ptr<float>()
                               : packed.const_data_ptr<float>() + steps[t - 1].begin * width;
    for (int64_t i = 0; i < steps[t].count; ++i) rows.push_back(from + i * width);
  }
  return rows;
}

std::vector<const float*> rows_of(const at::Tensor& matrix) {
  std::vector<const float*> rows(static_cast<size_t>(matrix.size(0)));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = matrix.const_data_ptr<float>() + static_cast<int64_t>(i) * matrix.size(1);
  }
  return rows;
}

struct SumsOfProducts {
  at::Tensor of_ih, of_hh, of_bias;
};

// Of the weights whose rows x are given: not nullptr. Each panel is summed by one thread, so that
// its bits are the same for any number of threads.
SumsOfProducts sum_products(const at::Tensor& of_gates, int64_t hidden, int64_t inputs,
                            const std::vector<const float*>* of_inputs,
                            const std::vector<const float*>* of_states) {
  const PanelLoops& loops = panel_loops();
  const GatePanels panels{.hidden = hidden, .tile = loops.tile};
  const int64_t rows = of_gates.size(1), tile = loops.tile;
  const auto zeros = [&](bool needed, int64_t columns) {
    return needed ? at::zeros({panels.panels(), columns, tile}, of_gates.options()) : at::Tensor();
  };
  const at::Tensor ih = zeros(of_inputs != nullptr, inputs),
                   hh = zeros(of_states != nullptr, hidden), bias = zeros(true, 1);
  const auto add = [&](const std::vector<const float*>* x, const at::Tensor& sums, int64_t panel,
                       int64_t begin, int64_t count) {
    if (x == nullptr) return;
    loops.add_transposed(x->data() + begin, count, sums.size(1),
                         of_gates.const_data_ptr<float>() + (panel * rows + begin) * tile,
                         sums.mutable_data_ptr<float>() + panel * sums.size(1) * tile);
  };
  intra_op_for(0, panels.panels(), 1, [&](int64_t first, int64_t end) {
    for (int64_t begin = 0; begin < rows; begin += kRowsOfSums) {
      const int64_t count = std::min(kRowsOfSums, rows - begin);
      for (int64_t panel = first; panel < end; ++panel) {
        loops.add_rows(of_gates.const_data_ptr<float>() + (panel * rows + begin) * tile, count,
                       bias.mutable_data_ptr<float>() + panel * tile);
        add(of_inputs, ih, panel, begin, count);
        add(of_states, hh, panel, begin, count);
      }
    }
  });
  const auto restored = [&](const at::Tensor& sums) {
    return sums.defined() ? panels.restored(sums) : sums;
  };
  return {restored(ih), restored(hh), restored(bias).squeeze(1)};
}

}  // namespace

std::vector<PackedStep> packed_steps(at::IntArrayRef counts) {
  std::vector<PackedStep> steps;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    steps.push_back({begin, count});
    begin += count;
  }
  return steps;
}

void copy_last(const at::Tensor& packed, const std::vector<PackedStep>& steps,
               const at::Tensor& last) {
  for (size_t t = 0; t < steps.size(); ++t) {
    const auto [begin, count] = steps[t];
    const int64_t stay = t + 1 < steps.size() ? steps[t + 1].count : 0;
    if (stay < count)
      last.narrow(0, stay, count - stay).copy_(packed.narrow(0, begin + stay, count - stay));
  }
}

LstmForward lstm_forward(const at::Tensor& rows, const LstmWeights& weights, const at::Tensor& h,
                         const at::Tensor& c, const std::vector<PackedStep>& steps) {
  const PanelLoops& loops = panel_loops();
  const GatePanels panels{.hidden = h.size(1), .tile = loops.tile};
  const int64_t inputs = rows.size(1), hidden = panels.hidden, stride = rows.size(0) * panels.tile;
  const at::Tensor bias = panels.transposed(weights.bias.unsqueeze(1)),
                   of_inputs = panels.transposed(weights.ih),
                   of_states = panels.transposed(weights.hh);
  const LstmForward of{
      .gates = at::empty({panels.panels(), rows.size(0), panels.tile}, rows.options()),
      .cells = at::empty({rows.size(0), hidden}, rows.options()),
      .states = at::empty({rows.size(0), hidden}, rows.options())};
  PanelProduct first{.x = rows.const_data_ptr<float>(),
                     .x_stride = inputs,
                     .x_width = inputs,
                     .weights = of_inputs.const_data_ptr<float>(),
                     .inner = inputs,
                     .columns = panels.rows(),
                     .start = bias.const_data_ptr<float>(),
                     .y = of.gates.mutable_data_ptr<float>(),
                     .y_stride = panels.tile,
                     .y_panel = stride};
  PanelProduct second = first;
  second.x = h.const_data_ptr<float>();
  second.x_stride = second.x_width = second.inner = hidden;
  second.weights = of_states.const_data_ptr<float>();
  second.start = nullptr;
  LstmStep step{.hidden = hidden,
                .panel = stride,
                .gates = first.y,
                .c_before = c.const_data_ptr<float>(),
                .c = of.cells.mutable_data_ptr<float>(),
                .h = of.states.mutable_data_ptr<float>()};
  for (const auto [begin, count] : steps) {
    for_blocks(panels.groups(), count, 4 * panels.tile * (inputs + hidden),
               [&](int64_t group, int64_t row, int64_t end) {
                 for (int64_t panel = 4 * group; panel < 4 * group + 4; ++panel) {
                   loops.multiply(first, panel, row, end);
                   loops.multiply(second, panel, row, end);
                 }
                 lstm_loops().compute(step, group, row, end);
               });
    first.x += count * inputs;
    first.y = second.y = step.gates += count * panels.tile;
    second.x = step.h;
    step.c_before = step.c;
    step.c += count * hidden;
    step.h += count * hidden;
  }
  return of;
}

LstmGradients lstm_backward(const LstmForward& of, const at::Tensor& rows,
                            const LstmWeights& weights, const at::Tensor& h, const at::Tensor& c,
                            const at::Tensor& of_states, const at::Tensor& of_h,
                            const at::Tensor& of_c, LstmNeeds needs,
                            const std::vector<PackedStep>& steps) {
  const Backward back =
      differentiate_steps(of, weights, needs.rows, c, of_states, of_h, of_c, steps);
  SumsOfProducts sums;
  if (needs.ih || needs.hh || needs.bias) {
    const std::vector<const float*> inputs = rows_of(rows),
                                    before = rows_before(of.states, steps, h);
    sums = sum_products(back.of_gates, h.size(1), rows.size(1), needs.ih ? &inputs : nullptr,
                        needs.hh ? &before : nullptr);
  }
  return {needs.rows ? back.of_rows : at::Tensor(), sums.of_ih, sums.of_hh, sums.of_bias};
}

}  // namespace dtrain::kernels
