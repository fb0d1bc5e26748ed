#pragma once

// The blocks of batch_norm_blocks.h, for .cu files and for the CPU. A kernel is a type with
//   Memory       what an element of the block's shared memory is; kMemory of them
//   blocks()     how many blocks it has
//   phases()     how many phases a block has
//   run(phase, block, thread, memory)
//
// Sums are in the precision of the arithmetic within a block, where a value goes through a few
// dozen additions, and in double from there on.
//
// Gain: see batch_norm_blocks.h.

#include "kernels/batch_norm_block_threads.h"
#include "kernels/batch_norm_blocks.h"

namespace dtrain::kernels::batch_norm::blocks {

// ---- passes over tensors ------------------------------------------------------------------------

template <typename StoreType, int width, bool pooled, TensorPass pass>
struct TensorKernel {
  using Store = StoreType;
  using Number = NumberOf<Store>;
  using Memory = Number;
  static constexpr bool kSums = pass == TensorPass::kSums || pass == TensorPass::kGradientSums;
  static constexpr int kMemory = kSums ? 2 * width * kThreads : 1;
  static constexpr const Store* kStore = nullptr;  // the type of elements to load
  static constexpr const uint8_t* kByte = nullptr;

  TensorJob job;

  DTRAIN_HD int64_t blocks() const { return job.grid.tiles * job.grid.parts; }
  DTRAIN_HD int phases() const {
    if (!kSums) return 1;
    return 1 + halvings(kThreads, BlockSums<Number, width>::last_threads(job.table, job.grid));
  }

  DTRAIN_HD void run(int phase, int64_t block, int thread, Number* memory) const {
    const Visits v = visits_of<width>(job.table, job.grid, block, thread);
    if constexpr (kSums) {
      const BlockSums<Number, width> sums = {job.table, job.grid, memory};
      if (phase == 0) {
        sums.put(thread, sums_of(v));
        return;
      }
      sums.fold(thread, kThreads >> phase);
      if (phase < phases() - 1) return;
      sums.write(thread, v, static_cast<Number*>(job.partial));
      if (pass == TensorPass::kSums && v.part == 0 && v.any) write_origin(v, thread);
    } else if (v.any) {
      if constexpr (pass == TensorPass::kNormalize) {
        pooled ? pool(v) : normalize(v);
      } else {
        pooled ? pool_input_gradient(v) : input_gradient(v);
      }
    }
  }

 private:
  DTRAIN_HD ThreadSums<Number, width> sums_of(const Visits& v) const {
    if constexpr (pass == TensorPass::kSums) return sums_of_values(v);
    if constexpr (pass == TensorPass::kGradientSums)
      return pooled ? pooled_gradient_sums(v) : gradient_sums(v);
    return {};
  }

  DTRAIN_HD void write_origin(const Visits& v, int thread) const {
    if (thread >= BlockSums<Number, width>::last_threads(job.table, job.grid)) return;
    for (int w = 0; w < (job.table.channels_last ? width : 1); ++w) {
      static_cast<Number*>(job.origin)[v.channel + w] =
          origin_of<Store>(job.table, job.x, v.channel + w);
    }
  }

  DTRAIN_HD ThreadSums<Number, width> sums_of_values(const Visits& v) const {
    ThreadSums<Number, width> sums;
    if (!v.any) return sums;
    Number origin[width];
    DTRAIN_UNROLL for (int w = 0; w < width; ++w) {
      origin[w] = origin_of<Store>(job.table, job.x, v.channel + w * v.channel_step);
    }
    for_visits(v, [&](int64_t i, int64_t row, int64_t column) {
      if (!is_valid(job.table, row, column)) return;
      const auto x = load<width>(job.x, i, kStore);
      DTRAIN_UNROLL for (int w = 0; w < width; ++w) {
        const Number offset = static_cast<Number>(x.at[w]) - origin[w];
        sums.add(w, offset, offset);
      }
      sums.end_visit();
    });
    return sums;
  }

  DTRAIN_HD void normalize(const Visits& v) const {
    const ColumnNormalization<Number, width> normal(job, v);
    for_visits(v, [&](int64_t i, int64_t row, int64_t column) {
      const bool valid = is_valid(job.table, row, column);
      const auto x = load<width>(job.x, i, kStore);
      Pack<Store, width> added = {}, out;
      if (job.residual != nullptr) added = load<width>(job.residual, i, kStore);
      DTRAIN_UNROLL for (int w = 0; w < width; ++w) {
        Number value = normal(x.at[w], w);
        if (job.residual != nullptr) value += static_cast<Number>(added.at[w]);
        out.at[w] = static_cast<Store>(valid ? activated_by(job.activation, value) : Number(0));
      }
      store(job.out, i, out);
    });
  }

  DTRAIN_HD ThreadSums<Number, width> gradient_sums(const Visits& v) const {
    ThreadSums<Number, width> sums;
    if (!v.any) return sums;
    const ColumnNormalization<Number, width> normal(job, v);
    for_visits(v, [&](int64_t i, int64_t row, int64_t column) {
      if (!is_valid(job.table, row, column)) return;
      const auto x = load<width>(job.x, i, kStore), dy = load<width>(job.dy, i, kStore);
      Pack<Store, width> y = {}, out;
      if (job.y != nullptr) y = load<width>(job.y, i, kStore);
      DTRAIN_UNROLL for (int w = 0; w < width; ++w) {
        const Number output = job.y != nullptr ? static_cast<Number>(y.at[w]) : normal(x.at[w], w);
        const Number gradient = passed_by(job.activation, static_cast<Number>(dy.at[w]), output);
        out.at[w] = static_cast<Store>(gradient);
        sums.add(w, gradient, static_cast<Number>(x.at[w]) - normal.mean.at[w]);
      }
      if (job.y != nullptr) store(job.out, i, out);
      sums.end_visit();
    });
    return sums;
  }

  DTRAIN_HD void input_gradient(const Visits& v) const {
    const ColumnNormalization<Number, width> normal(job, v);
    const auto slope = of_channels<width>(static_cast<const Number*>(job.slope), v);
    const auto shift = of_channels<width>(static_cast<const Number*>(job.shift), v);
    for_visits(v, [&](int64_t i, int64_t row, int64_t column) {
      const bool valid = is_valid(job.table, row, column);
      const auto x = load<width>(job.x, i, kStore), dy = load<width>(job.dy, i, kStore);
      Pack<Store, width> out;
      DTRAIN_UNROLL for (int w = 0; w < width; ++w) {
        const Number gradient =
            passed_by(job.activation, static_cast<Number>(dy.at[w]), normal(x.at[w], w));
        const Number result =
            input_gradient_of(gradient, static_cast<Number>(x.at[w]), normal.mean.at[w],
                              normal.scale.at[w], slope.at[w], shift.at[w]);
        out.at[w] = static_cast<Store>(valid ? result : Number(0));
      }
      store(job.out, i, out);
    });
  }

  DTRAIN_HD void pool(const Visits& v) const {
    const ColumnNormalization<Number, width> normal(job, v);
    for_visits(v, [&](int64_t output, int64_t row, int64_t column) {
      const int64_t first = window_of(job, row).x * job.table.channels + column;
      Pack<Store, width> x[4], out;
      Pack<uint8_t, width> chosen;
      DTRAIN_UNROLL for (int k = 0; k < 4; ++k) x[k] =
          load<width>(job.x, first + offset_of(job, k), kStore);
      DTRAIN_UNROLL for (int w = 0; w < width; ++w) {
        Number most = normal(x[0].at[w], w);
        int which = 0;
        DTRAIN_UNROLL for (int k = 1; k < 4; ++k) {
          const Number value = normal(x[k].at[w], w);
          const bool wins = value > most || value != value;  // the first of equal values; NaN wins
          most = wins ? value : most;
          which = wins ? k : which;
        }
        out.at[w] = static_cast<Store>(activated_by(job.activation, most));
        chosen.at[w] =
            static_cast<uint8_t>(passed_by(job.activation, Number(1), most) == 1 ? which : 4);
      }
      store(job.out, output, out);
      store(job.chosen, output, chosen);
    });
  }

  DTRAIN_HD ThreadSums<Number, width> pooled_gradient_sums(const Visits& v) const {
    ThreadSums<Number, width> sums;
    if (!v.any) return sums;
    const auto mean = of_channels<width>(static_cast<const Number*>(job.mean), v);
    for_visits(v, [&](int64_t output, int64_t row, int64_t column) {
      const int64_t first = window_of(job, row).x * job.table.channels + column;
      const auto dy = load<width>(job.dy, output, kStore);
      const auto chosen = load<width>(job.chosen, output, kByte);
      Pack<Store, width> x[4];
      if constexpr (width == 1) {
        // A choice between four loaded values would become an index, for which they go
        // through memory.
        x[3] = load<1>(job.x, first + offset_of(job, chosen.at[0] < 3 ? chosen.at[0] : 3), kStore);
      } else {
        DTRAIN_UNROLL for (int k = 0; k < 4; ++k) x[k] =
            load<width>(job.x, first + offset_of(job, k), kStore);
      }
      DTRAIN_UNROLL for (int w = 0; w < width; ++w) {
        Store value = x[width > 1 ? 0 : 3].at[w];
        if constexpr (width > 1) {  // comparisons with == would become an index, too
          DTRAIN_UNROLL for (int k = 1; k < 4; ++k) value = chosen.at[w] >= k ? x[k].at[w] : value;
        }
        const Number gradient = chosen.at[w] == 4 ? Number(0) : static_cast<Number>(dy.at[w]);
        sums.add(w, gradient, static_cast<Number>(value) - mean.at[w]);
      }
      sums.end_visit();
    });
    return sums;
  }

  DTRAIN_HD void pool_input_gradient(const Visits& v) const {
    const ColumnNormalization<Number, width> normal(job, v);
    const auto slope = of_channels<width>(static_cast<const Number*>(job.slope), v);
    const auto shift = of_channels<width>(static_cast<const Number*>(job.shift), v);
    for_visits(v, [&](int64_t, int64_t row, int64_t column) {
      const Window window = window_of(job, row);
      Pack<Store, width> dy = {};
      Pack<uint8_t, width> chosen = {};
      if (window.whole()) {
        dy = load<width>(job.dy, window.output * job.table.channels + column, kStore);
        chosen = load<width>(job.chosen, window.output * job.table.channels + column, kByte);
      }
      DTRAIN_UNROLL for (int k = 0; k < 4; ++k) {
        if (!window.has(k)) continue;
        const int64_t i = window.x * job.table.channels + column + offset_of(job, k);
        const auto x = load<width>(job.x, i, kStore);
        Pack<Store, width> out;
        DTRAIN_UNROLL for (int w = 0; w < width; ++w) {
          const Number gradient = chosen.at[w] == k ? static_cast<Number>(dy.at[w]) : Number(0);
          out.at[w] = static_cast<Store>(input_gradient_of(gradient, static_cast<Number>(x.at[w]),
                                                           normal.mean.at[w], normal.scale.at[w],
                                                           slope.at[w], shift.at[w]));
        }
        store(job.out, i, out);
      }
    });
  }
};

// ---- values per channel -------------------------------------------------------------------------

// A thread per channel.
template <typename Number>
struct PerChannel {
  using Memory = double;
  static constexpr int kMemory = 1;

  ChannelJob job;

  DTRAIN_HD int64_t blocks() const { return (job.channels + kThreads - 1) / kThreads; }
  DTRAIN_HD int phases() const { return 1; }

  DTRAIN_HD void run(int, int64_t block, int thread, double*) const {
    const int64_t channel = block * kThreads + thread;
    if (channel >= job.channels) return;
    const double* sums = job.sums;
    const int64_t second = job.channels + channel;
    if (job.pass == ChannelPass::kStatistics)
      statistics(channel, sums[0], sums[1 + channel], sums[1 + second]);
    if (job.pass == ChannelPass::kFixedStatistics) fixed_statistics(channel);
    if (job.pass == ChannelPass::kParameterGradients)
      parameter_gradients(channel, sums[channel], sums[second]);
    if (job.pass == ChannelPass::kCoefficients) coefficients(channel, sums[channel], sums[second]);
  }

  DTRAIN_HD void statistics(int64_t c, double values, double sum, double squares) const {
    const double count = values > 1 ? values : 1, mean = sum / count;
    const double deviation = squares / count - mean * mean;
    const double variance = deviation < 0 ? 0 : deviation;  // NaN stays NaN
    const double unbiased = variance * (count / (count > 2 ? count - 1 : 1));
    // The variance of a single value is unknown: nothing is learned from it.
    const auto momentum = static_cast<Number>(count > 1 ? job.momentum : 0);
    at(job.mean, c) = static_cast<Number>(mean);
    at(job.invstd, c) = static_cast<Number>(1 / ::sqrt(variance + job.eps));
    Number &running_mean = at(job.running_mean, c), &running_var = at(job.running_var, c);
    running_mean += momentum * (static_cast<Number>(mean) - running_mean);
    running_var += momentum * (static_cast<Number>(unbiased) - running_var);
    if (c > 0) return;
    *job.count = count;
    *job.batches += 1;
  }

  // `sum`, `product`: of the gradient, and of its product with x - mean.
  DTRAIN_HD void gradients(int64_t c, double sum, double product) const {
    parameter_gradients(c, sum, product);
    coefficients(c, sum, product);
  }

 private:
  DTRAIN_HD static Number& at(void* values, int64_t channel) {
    return static_cast<Number*>(values)[channel];
  }

  DTRAIN_HD void fixed_statistics(int64_t c) const {
    at(job.mean, c) = at(job.running_mean, c);
    at(job.invstd, c) =
        static_cast<Number>(1 / ::sqrt(static_cast<double>(at(job.running_var, c)) + job.eps));
    if (c == 0) *job.count = 1;
  }

  DTRAIN_HD void parameter_gradients(int64_t c, double sum, double product) const {
    at(job.weight_gradient, c) = static_cast<Number>(product * at(job.invstd, c));
    at(job.bias_gradient, c) = static_cast<Number>(sum);
  }

  DTRAIN_HD void coefficients(int64_t c, double sum, double product) const {
    const double count = *job.count, invstd = at(job.invstd, c);
    at(job.shift, c) = static_cast<Number>(sum / count);
    at(job.slope, c) = static_cast<Number>(product / count * invstd * invstd);
  }
};

// A block adds up the parts of kAcross channels.
template <typename Number>
struct Totals {
  using Memory = double;
  static constexpr int kAcross = 8, kDown = kThreads / kAcross, kMemory = 3 * kThreads;

  ChannelJob job;

  DTRAIN_HD int64_t blocks() const { return (job.channels + kAcross - 1) / kAcross; }
  DTRAIN_HD int phases() const { return 1 + halvings(kThreads, kAcross); }

  DTRAIN_HD void run(int phase, int64_t block, int thread, double* memory) const {
    const int64_t channel = block * kAcross + thread % kAcross;
    double *first = memory + thread, *second = first + kThreads, *values = second + kThreads;
    if (phase == 0) {
      add_parts(channel, thread / kAcross, *first, *second);
      *values = valid_values(thread / kAcross);
      return;
    }
    const int half = kThreads >> phase;
    if (thread < half) {
      *first += first[half];
      *second += second[half];
      *values += values[half];
    }
    if (phase == phases() - 1 && thread < kAcross && channel < job.channels)
      write(channel, *first, *second, *values);
  }

 private:
  DTRAIN_HD void add_parts(int64_t channel, int first_part, double& first, double& second) const {
    double a = 0, b = 0;
    const auto* partial = static_cast<const Number*>(job.partial);
    for (int64_t part = first_part; part < job.parts && channel < job.channels; part += kDown) {
      a += static_cast<double>(partial[2 * part * job.channels + channel]);
      b += static_cast<double>(partial[(2 * part + 1) * job.channels + channel]);
    }
    first = a;
    second = b;
  }

  DTRAIN_HD double valid_values(int first_row) const {
    if (job.table.lengths == nullptr) {
      if (first_row > 0) return 0;
      return static_cast<double>(job.table.channels_last ? job.table.rows
                                                         : job.table.rows * job.table.columns);
    }
    int64_t count = 0;
    for (int64_t row = first_row; row < job.table.rows; row += kDown) {
      count += valid_length(job.table.lengths[row], job.table.columns);
    }
    return static_cast<double>(count);
  }

  DTRAIN_HD void write(int64_t channel, double first, double second, double values) const {
    const PerChannel<Number> of_channel = {job};
    if (job.origin == nullptr) {
      if (job.pass == ChannelPass::kGradients) return of_channel.gradients(channel, first, second);
      job.sums[channel] = first;
      job.sums[job.channels + channel] = second;
      return;
    }
    const double mean =
        values == 0 ? 0 : static_cast<const Number*>(job.origin)[channel] + first / values;
    const double sum = mean * values;
    // From squares of deviations from the origin to squares.
    const double squares = values == 0 ? 0 : second + mean * mean * values - first * first / values;
    if (job.pass == ChannelPass::kStatistics)
      return of_channel.statistics(channel, values, sum, squares);
    if (channel == 0) job.sums[0] = values;
    job.sums[1 + channel] = sum;
    job.sums[1 + job.channels + channel] = squares;
  }
};

// ---- which kernel a job needs -------------------------------------------------------------------

template <typename Store, int width, bool pooled, typename Use>
void with_pass(const TensorJob& job, Use use) {
  switch (job.pass) {
    case TensorPass::kSums:
      if constexpr (!pooled) use(TensorKernel<Store, width, false, TensorPass::kSums>{job});
      break;
    case TensorPass::kNormalize:
      use(TensorKernel<Store, width, pooled, TensorPass::kNormalize>{job});
      break;
    case TensorPass::kGradientSums:
      use(TensorKernel<Store, width, pooled, TensorPass::kGradientSums>{job});
      break;
    case TensorPass::kInputGradient:
      use(TensorKernel<Store, width, pooled, TensorPass::kInputGradient>{job});
      break;
  }
}

// Calls use(kernel). The job's width is 1 or 16 bytes.
template <typename Store, typename Use>
void with_kernel(const TensorJob& job, Use use) {
  constexpr int kWidest = 16 / sizeof(Store);
  if (job.width == 1) {
    job.pooled ? with_pass<Store, 1, true>(job, use) : with_pass<Store, 1, false>(job, use);
  } else {
    job.pooled ? with_pass<Store, kWidest, true>(job, use)
               : with_pass<Store, kWidest, false>(job, use);
  }
}

template <typename Number, typename Use>
void with_kernel(const ChannelJob& job, Use use) {
  job.partial != nullptr ? use(Totals<Number>{job}) : use(PerChannel<Number>{job});
}

}  // namespace dtrain::kernels::batch_norm::blocks
