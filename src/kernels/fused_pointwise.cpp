// 1 x 1 convolutions of fused_convolutions.h: matrix products over chunks of positions that stay in
// the second cache.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/fused_convolutions.h"
#include "kernels/fused_tensors.h"
#include "kernels/intra_op.h"
#include "kernels/panel_products.h"
#include "kernels/work_parts.h"

namespace dtrain::kernels::fused {
namespace {

constexpr int64_t kChunkElements = 32 << 10;  // elements per chunk of the wider of input and output
constexpr int64_t kRowsOfSums = 128;  // rows of a panel at a time: at most half of the first cache

// Positions in chunks, which are the same for any number of threads.
struct Chunks {
  Chunks(int64_t rows, int64_t width)
      : rows(rows),
        size(divide_up(std::max<int64_t>(kChunkElements / width, 1), panel_loops().rows) *
             panel_loops().rows) {}
  int64_t count() const { return divide_up(rows, size); }
  int64_t rows_of(int64_t chunk) const { return std::min(size, rows - chunk * size); }

  int64_t rows, size;
};

int64_t positions(const at::Tensor& x) { return x.size(0) * x.size(2) * x.size(3); }

// A weight [rows, columns], or its transpose, as a matrix that is stored in
// panels (panel_products.h).
struct PanelMatrix {
  PanelMatrix(at::IntArrayRef weight, bool transposed)
      : rows(weight[transposed ? 1 : 0]),
        columns(weight[transposed ? 0 : 1]),
        row_stride(transposed ? 1 : columns),
        column_stride(transposed ? rows : 1),
        tile(panel_loops().tile) {}

  // Calls body(numbers of a row in a panel, where they are in the weight, how many).
  template <typename Panels, typename Weight, typename Body>
  void for_rows(Panels* panels, Weight* weight, const Body& body) const {
    for (int64_t begin = 0; begin < columns; begin += tile) {
      const int64_t count = std::min(tile, columns - begin);
      for (int64_t row = 0; row < rows; ++row) {
        body(panels, weight + row * row_stride + begin * column_stride, count);
        panels += tile;
      }
    }
  }

  int64_t rows, columns, row_stride, column_stride, tile;
};

at::Tensor to_panels(const at::Tensor& weight, bool transposed) {
  const PanelMatrix m(weight.sizes(), transposed);
  const at::Tensor panels =
      at::zeros({divide_up(m.columns, m.tile), m.rows, m.tile}, weight.options());
  m.for_rows(panels.mutable_data_ptr<float>(), weight.const_data_ptr<float>(),
             [&](float* to, const float* from, int64_t count) {
               for (int64_t i = 0; i < count; ++i) to[i] = from[i * m.column_stride];
             });
  return panels;
}

at::Tensor from_panels(const at::Tensor& panels, at::IntArrayRef sizes, bool transposed) {
  const PanelMatrix m(sizes, transposed);
  const at::Tensor weight = at::empty(sizes, panels.options());
  m.for_rows(panels.const_data_ptr<float>(), weight.mutable_data_ptr<float>(),
             [&](const float* from, float* to, int64_t count) {
               for (int64_t i = 0; i < count; ++i) to[i * m.column_stride] = from[i];
             });
  return weight;
}

// Rows [rows, columns] into panels of `rows` rows each. What lies behind the last column is
// not written.
void copy_into_panels(const float* from, int64_t rows, int64_t columns, int64_t tile, float* to) {
  for (int64_t begin = 0; begin < columns; begin += tile) {
    const auto bytes = sizeof(float) * static_cast<size_t>(std::min(tile, columns - begin));
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(to + row * tile, from + row * columns + begin, bytes);
    to += rows * tile;
  }
}

// y [rows, columns] = x [rows, inner] · weights in panels, for rows without gaps.
void multiply(const float* x, int64_t rows, int64_t inner, const at::Tensor& weights,
              int64_t columns, const float* zeros, float* y) {
  const PanelLoops& loops = panel_loops();
  const PanelProduct product{.x = x,
                             .x_stride = inner,
                             .x_width = inner,
                             .weights = weights.const_data_ptr<float>(),
                             .inner = inner,
                             .columns = columns,
                             .start = zeros,
                             .y = y,
                             .y_stride = columns,
                             .y_panel = loops.tile};
  for (int64_t panel = 0; panel < weights.size(0); ++panel) loops.multiply(product, panel, 0, rows);
}

// The sums of x^T · dy for rows of `wide` and `narrow` numbers, in panels of the narrow ones
// [panels, wide, tile].
class TransposedSums {
 public:
  TransposedSums(int64_t wide, int64_t narrow, int64_t rows)
      : wide_(wide),
        narrow_(narrow),
        panels_(static_cast<size_t>(divide_up(narrow, tile()) * rows * tile())) {}

  void add(const float* wide, const float* narrow, int64_t rows, float* sums) {
    const float* lines[kRowsOfSums];
    for (int64_t begin = 0; begin < rows; begin += kRowsOfSums) {
      const int64_t count = std::min(kRowsOfSums, rows - begin);
      for (int64_t row = 0; row < count; ++row) lines[row] = wide + (begin + row) * wide_;
      copy_into_panels(narrow + begin * narrow_, count, narrow_, tile(), panels_.data());
      for (int64_t panel = 0; panel < divide_up(narrow_, tile()); ++panel) {
        panel_loops().add_transposed(lines, count, wide_, panels_.data() + panel * count * tile(),
                                     sums + panel * wide_ * tile());
      }
    }
  }

 private:
  static int64_t tile() { return panel_loops().tile; }

  int64_t wide_, narrow_;
  std::vector<float> panels_;
};

}  // namespace

ConvOutput pointwise(const Input& in, const at::Tensor& weight, bool with_sums) {
  const at::Tensor& x = in.x;
  const int64_t inner = weight.size(1), columns = weight.size(0), rows = positions(x);
  const at::Tensor out = empty_image({x.size(0), columns, x.size(2), x.size(3)}, x.options());
  const at::Tensor panels = to_panels(weight, /*transposed=*/true);
  const std::vector<float> zeros(static_cast<size_t>(columns + panel_loops().tile));
  const Chunks chunks(rows, std::max(inner, columns));
  std::vector<float> first(static_cast<size_t>(inner)), origin(static_cast<size_t>(columns));
  multiply(read(in, 0, 1, first.data()), 1, inner, panels, columns, zeros.data(), origin.data());
  ChunkSums sums(chunks.count(), with_sums ? columns : 0);
  intra_op_for(0, chunks.count(), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> memory(static_cast<size_t>(in.norm == nullptr ? 0 : chunks.size * inner));
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t row = chunk * chunks.size, count = chunks.rows_of(chunk);
      float* y = row_of(out, row);
      multiply(read(in, row, count, memory.data()), count, inner, panels, columns, zeros.data(), y);
      if (with_sums)
        batch_norm::loops<float>().sums({0, count * columns, columns}, y, origin.data(),
                                        sums.of(chunk));
    }
  });
  return {out, with_sums ? sums.values_about(origin, rows) : at::Tensor()};
}

Gradients pointwise_gradients(const Input& in, const at::Tensor& weight, const Gradient& gradient,
                              bool with_x) {
  const at::Tensor& x = in.x;
  const int64_t inputs = weight.size(1), outputs = weight.size(0), rows = positions(x);
  const bool fewer_inputs = inputs < outputs;
  const int64_t wide = std::max(inputs, outputs), narrow = std::min(inputs, outputs),
                tile = panel_loops().tile;
  Gradients result{.x = with_x ? at::empty_like(x) : at::Tensor(), .sums = {}, .weight = {}};
  const at::Tensor panels = to_panels(weight, /*transposed=*/false);
  const std::vector<float> zeros(static_cast<size_t>(inputs + tile));
  const Chunks chunks(rows, wide);
  const SumParts cut = parts_of_sums(chunks.count(), 1, divide_up(narrow, tile) * wide * tile,
                                     at::get_num_threads());
  const int64_t chunks_per_part = divide_up(chunks.count(), cut.parts);
  const at::Tensor products =
      at::zeros({cut.parts, divide_up(narrow, tile), wide, tile}, x.options());
  ChunkSums sums(chunks.count(), in.norm != nullptr ? inputs : 0);
  intra_op_for(0, cut.parts, 1, [&](int64_t first, int64_t last) {
    std::vector<float> of_x(static_cast<size_t>(in.norm == nullptr ? 0 : chunks.size * inputs)),
        of_y(static_cast<size_t>(gradient.norm == nullptr ? 0 : chunks.size * outputs));
    TransposedSums transposed(wide, narrow, kRowsOfSums);
    for (int64_t part = first; part < last; ++part) {
      float* into = products.mutable_data_ptr<float>() + part * products.stride(0);
      for (int64_t chunk = part * chunks_per_part;
           chunk < std::min(chunks.count(), (part + 1) * chunks_per_part); ++chunk) {
        const int64_t row = chunk * chunks.size, count = chunks.rows_of(chunk);
        const float* dy = read(gradient, row, count, of_y.data());
        const float* from = read(in, row, count, of_x.data());
        transposed.add(fewer_inputs ? dy : from, fewer_inputs ? from : dy, count, into);
        if (!with_x) continue;
        float* dx = row_of(result.x, row);
        multiply(dy, count, outputs, panels, inputs, zeros.data(), dx);
        if (in.norm != nullptr) add_gradient_sums(in, row, count, dx, sums.of(chunk));
      }
    }
  });
  const at::Tensor all = cut.parts == 1 ? products[0] : products.sum(0);
  result.weight = from_panels(all, weight.sizes(), /*transposed=*/!fewer_inputs);
  if (in.norm != nullptr) result.sums = sums.values();
  return result;
}

}  // namespace dtrain::kernels::fused
