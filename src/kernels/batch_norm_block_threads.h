#pragma once

// How the threads of a block of batch_norm_blocks_body.h go over a tensor: which elements they
// visit, the values per channel that they need there, the windows of max-pooling, and how their
// sums become one.
//
// Gain: see batch_norm_blocks.h.

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstring>
#include <type_traits>

#include "core/host_device.h"
#include "kernels/batch_norm_blocks.h"
#include "kernels/lengths.h"

#ifdef __CUDACC__
#define DTRAIN_UNROLL _Pragma("unroll")
#define DTRAIN_NO_UNROLL _Pragma("unroll 1")
#else
#define DTRAIN_UNROLL
#define DTRAIN_NO_UNROLL
#endif

namespace dtrain::kernels::batch_norm::blocks {

#include "kernels/batch_norm_body.inc"

template <typename Store>
using NumberOf = std::conditional_t<std::is_same_v<Store, double>, double, float>;

// The activation of a job is the same for all threads, so that choosing it here costs little.
template <typename V>
DTRAIN_HD inline V activated_by(Activation activation, V v) {
  if (activation == Activation::kReLU) return activated<Activation::kReLU>(v);
  if (activation == Activation::kReLU6) return activated<Activation::kReLU6>(v);
  return v;
}
template <typename V>
DTRAIN_HD inline V passed_by(Activation activation, V gradient, V v) {
  if (activation == Activation::kReLU) return passed<Activation::kReLU>(gradient, v);
  if (activation == Activation::kReLU6) return passed<Activation::kReLU6>(gradient, v);
  return gradient;
}

// Neighbors in memory, loaded and stored at once.
template <typename Element, int width>
struct alignas(sizeof(Element) * width) Pack {
  Element at[width];
};
template <int width, typename Element>
DTRAIN_HD inline Pack<Element, width> load(const void* from, int64_t index, const Element*) {
  const Element* at = static_cast<const Element*>(from) + index;
#ifdef __CUDA_ARCH__
  // One load: of small elements, the compiler may load those apart that it needs late.
  if constexpr (sizeof(Element) == 2 && sizeof(Pack<Element, width>) == sizeof(uint4)) {
    const uint4 bits = *reinterpret_cast<const uint4*>(at);
    Pack<Element, width> pack;
    std::memcpy(&pack, &bits, sizeof(pack));
    return pack;
  }
#endif
  return *reinterpret_cast<const Pack<Element, width>*>(at);
}
template <typename Element, int width>
DTRAIN_HD inline void store(void* to, int64_t index, const Pack<Element, width>& pack) {
  *reinterpret_cast<Pack<Element, width>*>(static_cast<Element*>(to) + index) = pack;
}

// What a thread visits: rows from first_row, and columns from first_column, of the table at `base`.
struct Visits {
  int64_t base, row_stride, first_row, end_row, row_step, first_column, end_column, column_step;
  int64_t channel;       // index of the first column's channel
  int64_t channel_step;  // from a column to the next
  int64_t part;
  bool any;
};

template <int width>
DTRAIN_HD inline Visits visits_of(const RowTable& table, const Grid& grid, int64_t block,
                                  int thread) {
  const int64_t tile = block % grid.tiles, part = block / grid.tiles;
  const int x = thread % grid.across, y = thread / grid.across;
  const int64_t end = (part + 1) * grid.rows_per_part;
  Visits v;
  v.first_row = part * grid.rows_per_part + y;
  v.end_row = end < table.rows ? end : table.rows;
  v.row_step = kThreads / grid.across;
  v.end_column = table.columns;
  v.part = part;
  if (table.channels_last) {
    v.base = 0;
    v.row_stride = table.columns;
    v.first_column = (tile * grid.across + x) * width;
    v.column_step = table.columns;  // one visit per row
    v.channel = v.first_column;
    v.channel_step = 1;
  } else {
    v.base = tile * table.columns;
    v.row_stride = table.channels * table.columns;
    v.first_column = x * width;
    v.column_step = static_cast<int64_t>(grid.across) * width;
    v.channel = tile;
    v.channel_step = 0;
  }
  v.any = v.first_column < v.end_column;
  return v;
}

// Calls visit(index in memory, row, column) for each group of columns. Unrolled loops would need
// more registers for little: no load moves before the store of an earlier visit.
template <typename Visit>
DTRAIN_HD inline void for_visits(const Visits& v, Visit visit) {
  DTRAIN_NO_UNROLL for (int64_t row = v.first_row; row < v.end_row; row += v.row_step) {
    DTRAIN_NO_UNROLL for (int64_t column = v.first_column; column < v.end_column;
                          column += v.column_step) {
      visit(v.base + row * v.row_stride + column, row, column);
    }
  }
}

// Whether a column is valid. With lengths a thread takes one column at a time.
DTRAIN_HD inline bool is_valid(const RowTable& table, int64_t row, int64_t column) {
  return table.lengths == nullptr || column < valid_length(table.lengths[row], table.columns);
}

// ---- values per channel -------------------------------------------------------------------------

template <typename Number, int width>
struct PerColumn {
  Number at[width];
};

template <int width, typename Number>
DTRAIN_HD inline PerColumn<Number, width> of_channels(const Number* values, const Visits& v) {
  PerColumn<Number, width> result;
  DTRAIN_UNROLL for (int w = 0; w < width; ++w) result.at[w] =
      values[v.channel + w * v.channel_step];
  return result;
}

template <typename Number, int width>
struct ColumnNormalization {
  PerColumn<Number, width> mean, scale, bias;

  DTRAIN_HD ColumnNormalization(const TensorJob& job, const Visits& v)
      : mean(of_channels<width>(static_cast<const Number*>(job.mean), v)),
        scale(of_channels<width>(static_cast<const Number*>(job.weight), v)),
        bias(of_channels<width>(static_cast<const Number*>(job.bias), v)) {
    const auto invstd = of_channels<width>(static_cast<const Number*>(job.invstd), v);
    DTRAIN_UNROLL for (int w = 0; w < width; ++w) scale.at[w] *= invstd.at[w];
  }

  template <typename Store>
  DTRAIN_HD Number operator()(Store x, int w) const {
    return normalized(static_cast<Number>(x), mean.at[w], scale.at[w], bias.at[w]);
  }
};

// The first value of a channel in memory: sums of deviations from it lose no precision to a
// large mean.
template <typename Store>
DTRAIN_HD inline NumberOf<Store> origin_of(const RowTable& table, const void* x, int64_t channel) {
  int64_t row = 0;
  while (row < table.rows && !is_valid(table, row, 0)) ++row;
  if (row == table.rows) return 0;
  const int64_t index =
      table.channels_last ? channel : (row * table.channels + channel) * table.columns;
  return static_cast<NumberOf<Store>>(static_cast<const Store*>(x)[index]);
}

// ---- windows of max-pooling ---------------------------------------------------------------------

struct Window {
  int64_t x;       // the position of its upper left value
  int64_t output;  // its position among the outputs, if it is whole
  bool right, below;

  DTRAIN_HD bool whole() const { return right && below; }
  DTRAIN_HD bool has(int k) const { return (k % 2 == 0 || right) && (k < 2 || below); }
};

// Windows are fewer than 2^32, and division of 32 bits is several times faster.
DTRAIN_HD inline Window window_of(const TensorJob& job, int64_t row) {
  const auto number = static_cast<uint32_t>(row),
             across = static_cast<uint32_t>(job.windows_across),
             down = static_cast<uint32_t>(job.windows_down);
  const int64_t column = number % across, line = number / across % down,
                image = number / across / down;
  return {.x = (image * job.image_height + 2 * line) * job.image_width + 2 * column,
          .output = (image * (job.image_height / 2) + line) * (job.image_width / 2) + column,
          .right = 2 * column + 1 < job.image_width,
          .below = 2 * line + 1 < job.image_height};
}

// How far value k of a window is from its first.
DTRAIN_HD inline int64_t offset_of(const TensorJob& job, int k) {
  return (k / 2 * job.image_width + k % 2) * job.table.channels;
}

// ---- sums ---------------------------------------------------------------------------------------

// a b + c, rounded once. The compiler does not join them on its own (cmake/Modules.cmake).
DTRAIN_HD inline float multiply_add(float a, float b, float c) { return ::fmaf(a, b, c); }
DTRAIN_HD inline double multiply_add(double a, double b, double c) { return ::fma(a, b, c); }

// Per column the sums of values that a thread visits, and of their products with a factor.
template <typename Number, int width>
class ThreadSums {
 public:
  DTRAIN_HD ThreadSums() {
    DTRAIN_UNROLL for (int k = 0; k < 2 * width; ++k) near_[k] = far_[k] = 0;
  }
  DTRAIN_HD void add(int w, Number value, Number factor) {
    near_[w] += value;
    near_[width + w] = multiply_add(value, factor, near_[width + w]);
  }
  DTRAIN_HD void end_visit() {  // keeps the chains of additions short
    if (++visits_ % kChain != 0) return;
    DTRAIN_UNROLL for (int k = 0; k < 2 * width; ++k) {
      far_[k] += near_[k];
      near_[k] = 0;
    }
  }
  DTRAIN_HD Number operator[](int k) const { return far_[k] + near_[k]; }

 private:
  static constexpr int kChain = 16;

  Number near_[2 * width], far_[2 * width];
  int visits_ = 0;
};

DTRAIN_HD inline int halvings(int from, int to) {
  int n = 0;
  for (; from > to; from /= 2) ++n;
  return n;
}

// Adds up the sums of a block's threads, in memory [2 * width][kThreads], and writes those of
// its channels.
template <typename Number, int width>
struct BlockSums {
  const RowTable& table;
  const Grid& grid;
  Number* memory;

  DTRAIN_HD int kept() const {
    return table.channels_last ? width : 1;
  }  // columns that have a sum of their own
  DTRAIN_HD static int last_threads(const RowTable& table, const Grid& grid) {
    return table.channels_last ? grid.across : 1;
  }

  DTRAIN_HD void put(int thread, const ThreadSums<Number, width>& sums) const {
    for (int which = 0; which < 2; ++which) {
      if (table.channels_last) {
        DTRAIN_UNROLL for (int w = 0; w < width; ++w) {
          memory[(which * width + w) * kThreads + thread] = sums[which * width + w];
        }
      } else {
        Number sum = 0;
        DTRAIN_UNROLL for (int w = 0; w < width; ++w) sum += sums[which * width + w];
        memory[which * width * kThreads + thread] = sum;
      }
    }
  }
  DTRAIN_HD void fold(int thread, int half) const {
    if (thread >= half) return;
    for (int which = 0; which < 2; ++which) {
      for (int w = 0; w < kept(); ++w) {
        Number* at = memory + (which * width + w) * kThreads + thread;
        *at += at[half];
      }
    }
  }
  DTRAIN_HD void write(int thread, const Visits& v, Number* partial) const {
    if (thread >= last_threads(table, grid) || !v.any) return;
    for (int which = 0; which < 2; ++which) {
      for (int w = 0; w < kept(); ++w) {
        partial[(2 * v.part + which) * table.channels + v.channel + w] =
            memory[(which * width + w) * kThreads + thread];
      }
    }
  }
};

}  // namespace dtrain::kernels::batch_norm::blocks
