#include "kernels/batch_norm_cpu.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "core/check.h"
#include "kernels/batch_norm_channels.h"
#include "kernels/batch_norm_loops.h"
#include "kernels/intra_op.h"
#include "kernels/lengths.h"
#include "kernels/work_parts.h"

namespace dtrain::kernels::batch_norm::cpu {
namespace {

constexpr int64_t kPartElements = 64 << 10;  // per part of a tensor; one thread works on a part
constexpr int64_t kMostParts = 256;

bool is_channels_last(const at::Tensor& x) { return x.dim() == 2 || !x.is_contiguous(); }

// A tensor in parts, each of which has a fixed set of channels: if channels are last, some
// successive positions of all channels, else all positions of one channel.
class Parts {
 public:
  Parts(const at::Tensor& x, const at::Tensor& lengths)
      : samples_(x.size(0)),
        channels_(x.size(1)),
        positions_(samples_ * channels_ == 0 ? 0 : x.numel() / (samples_ * channels_)),
        channels_last_(is_channels_last(x)),
        lengths_(lengths.defined() ? lengths.const_data_ptr<int64_t>() : nullptr) {
    if (!channels_last_) {
      period_ = kPlanePeriod;
      count_ = channels_;
      return;
    }
    const int64_t lanes = kLanes / std::gcd(kLanes, std::max<int64_t>(channels_, 1));
    rows_per_period_ = lanes * divide_up(kShortestPeriod, lanes * std::max<int64_t>(channels_, 1));
    period_ = rows_per_period_ * channels_;
    if (lengths_ != nullptr) {
      count_ = samples_;
      return;
    }
    const int64_t rows = samples_ * positions_;
    const int64_t parts = std::clamp<int64_t>(rows * channels_ / kPartElements, 1, kMostParts);
    rows_per_part_ = divide_up(divide_up(rows, parts), rows_per_period_) * rows_per_period_;
    count_ = divide_up(rows, std::max<int64_t>(rows_per_part_, 1));
  }

  int64_t count() const { return count_; }
  int64_t period() const { return period_; }
  int64_t channels() const { return channels_; }

  int64_t valid_positions() const {
    if (lengths_ == nullptr) return samples_ * positions_;
    int64_t valid = 0;
    for (int64_t b = 0; b < samples_; ++b) valid += valid_of(b);
    return valid;
  }

  // The position in memory of a valid value of the channel; there must be one.
  int64_t first_value(int64_t channel) const {
    int64_t b = 0;
    while (valid_of(b) == 0) ++b;
    return channels_last_ ? b * positions_ * channels_ + channel
                          : (b * channels_ + channel) * positions_;
  }

  // Calls body(run) for the valid elements of a part.
  template <typename Body>
  void for_runs(int64_t part, const Body& body) const {
    if (channels_last_) {
      const int64_t begin = lengths_ != nullptr ? part * positions_ : part * rows_per_part_;
      const int64_t rows = lengths_ != nullptr
                               ? valid_of(part)
                               : std::min(rows_per_part_, samples_ * positions_ - begin);
      if (rows > 0) body(ElementRun{begin * channels_, rows * channels_, period_});
      return;
    }
    for (int64_t b = 0; b < samples_; ++b) {
      const int64_t valid = valid_of(b);
      if (valid > 0) body(ElementRun{(b * channels_ + part) * positions_, valid, period_});
    }
  }

  // The coefficients of a part, from values per channel. `memory` [period] is used if they do not
  // lie ready.
  template <typename Number>
  const Number* coefficients(int64_t part, const Number* by_channel,
                             std::vector<Number>& memory) const {
    if (by_channel == nullptr || (channels_last_ && rows_per_period_ == 1)) return by_channel;
    memory.resize(static_cast<size_t>(period_));
    if (!channels_last_) {
      std::fill(memory.begin(), memory.end(), by_channel[part]);
    } else {
      for (int64_t row = 0; row < rows_per_period_; ++row) {
        std::copy_n(by_channel, channels_, memory.data() + row * channels_);
      }
    }
    return memory.data();
  }

  // Adds the sums of a part [2][period] to those of its channels [2][C].
  void add_part(int64_t part, const double* of_part, double* of_channels) const {
    for (int64_t which = 0; which < 2; ++which) {
      for (int64_t i = 0; i < period_; ++i) {
        const int64_t channel = channels_last_ ? i % channels_ : part;
        of_channels[which * channels_ + channel] += of_part[which * period_ + i];
      }
    }
  }

 private:
  static constexpr int64_t kPlanePeriod = 64;  // for channels that are contiguous
  static constexpr int64_t kShortestPeriod = 64;

  int64_t valid_of(int64_t sample) const {
    return lengths_ == nullptr ? positions_ : valid_length(lengths_[sample], positions_);
  }

  int64_t samples_, channels_, positions_;
  bool channels_last_;
  const int64_t* lengths_;
  int64_t rows_per_period_ = 1, rows_per_part_ = 1, period_ = 0, count_ = 0;
};

template <typename Body>
void in_parallel(int64_t parts, const Body& body) {
  intra_op_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) body(part);
  });
}

template <typename Store>
const Store* data_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<const Store*>(tensor.const_data_ptr()) : nullptr;
}
template <typename Store>
Store* mutable_data_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<Store*>(tensor.mutable_data_ptr()) : nullptr;
}

// Calls use(Store()) with the type in memory of x.
template <typename Use>
auto by_type(const at::Tensor& x, Use use) {
  if (x.scalar_type() == at::kDouble) return use(double());
  if (x.scalar_type() == at::kBFloat16) return use(uint16_t());
  DTRAIN_CHECK(x.scalar_type() == at::kFloat, "batch norm on the CPU of ",
               c10::toString(x.scalar_type()));
  return use(float());
}

// Calls body(run, coefficients) for the valid elements of a part.
template <typename Number, typename Body>
void for_runs_of(const Parts& parts, int64_t part, const ChannelValues<Number>& values,
                 const Body& body) {
  const Coefficients<Number> all = values.all();
  std::array<std::vector<Number>, 5> memory;
  const Coefficients<Number> of_part = {
      parts.coefficients(part, all.mean, memory[0]), parts.coefficients(part, all.scale, memory[1]),
      parts.coefficients(part, all.bias, memory[2]), parts.coefficients(part, all.slope, memory[3]),
      parts.coefficients(part, all.shift, memory[4])};
  parts.for_runs(part, [&](const ElementRun& run) { body(run, of_part); });
}

// Adds up in the order of the parts: add(part, double* [width]) fills the zeroed sums of a part,
// and collect(part, const double* [width]) takes them.
template <typename Add, typename Collect>
void total(int64_t parts, int64_t width, const Add& add, const Collect& collect) {
  std::vector<double> of_parts(static_cast<size_t>(parts * width));
  in_parallel(parts, [&](int64_t part) { add(part, of_parts.data() + part * width); });
  for (int64_t part = 0; part < parts; ++part) collect(part, of_parts.data() + part * width);
}

// [2][C] of the sums that add(part, double* [2][period]) gives for each part.
template <typename Add>
void total(const Parts& parts, double* result, const Add& add) {
  total(parts.count(), 2 * parts.period(), add,
        [&](int64_t part, const double* of_part) { parts.add_part(part, of_part, result); });
}

// ---- max-pooling --------------------------------------------------------------------------------

// Rows of outputs in parts.
class PooledRows {
 public:
  explicit PooledRows(at::IntArrayRef x)
      : channels_(x[1]), height_(x[2]), width_(x[3]), rows_(x[0] * (x[2] / 2)) {
    const int64_t parts =
        std::clamp<int64_t>(rows_ * 2 * width_ * channels_ / kPartElements, 1, kMostParts);
    rows_per_part_ = std::max<int64_t>(divide_up(rows_, parts), 1);
  }

  int64_t count() const { return divide_up(rows_, rows_per_part_); }

  template <typename Body>
  void for_rows(int64_t part, const Body& body) const {
    const int64_t end = std::min(rows_, (part + 1) * rows_per_part_);
    for (int64_t row = part * rows_per_part_; row < end; ++row) {
      const int64_t sample = row / (height_ / 2), of_sample = row % (height_ / 2);
      body(PooledRow{channels_, width_, (sample * height_ + 2 * of_sample) * width_ * channels_,
                     row * (width_ / 2) * channels_});
    }
  }

  // The elements of x in no window, which an odd height or width leaves: runs of whole positions.
  template <typename Body>
  void for_rest(const Body& body) const {
    const int64_t samples = height_ < 2 ? 0 : rows_ / (height_ / 2), line = width_ * channels_;
    for (int64_t b = 0; b < samples; ++b) {
      const int64_t begin = b * height_ * line;
      if (width_ % 2 == 1) {
        for (int64_t y = 0; y < height_; ++y)
          body(ElementRun{begin + (y + 1) * line - channels_, channels_, channels_});
      }
      if (height_ % 2 == 0) continue;
      for (int64_t column = 0; column < width_ - width_ % 2; ++column) {
        body(ElementRun{begin + (height_ - 1) * line + column * channels_, channels_, channels_});
      }
    }
  }

 private:
  int64_t channels_, height_, width_, rows_, rows_per_part_ = 1;
};

at::Tensor empty_pooled(at::IntArrayRef x, const at::TensorOptions& options) {
  return at::empty({x[0], x[1], x[2] / 2, x[3] / 2},
                   options.memory_format(at::MemoryFormat::ChannelsLast));
}

template <typename Store>
NormOutput pooled(const at::Tensor& x, const Coefficients<NumberOf<Store>>& coefficients,
                  Activation activation) {
  const PooledRows rows(x.sizes());
  const NormOutput out = {empty_pooled(x.sizes(), x.options()),
                          empty_pooled(x.sizes(), x.options().dtype(at::kByte))};
  const NormTensors<Store> data{.x = data_of<Store>(x), .out = mutable_data_of<Store>(out.y)};
  auto* chosen = mutable_data_of<uint8_t>(out.chosen);
  in_parallel(rows.count(), [&](int64_t part) {
    rows.for_rows(part, [&](const PooledRow& row) {
      loops<Store>().pool(row, coefficients, data, activation, chosen);
    });
  });
  return out;
}

template <typename Store>
at::Tensor pooled_sums(const Saved& saved, const at::Tensor& dy,
                       const Coefficients<NumberOf<Store>>& coefficients) {
  const PooledRows rows(saved.x.sizes());
  const int64_t width = 2 * saved.x.size(1);
  const NormTensors<Store> data{.x = data_of<Store>(saved.x), .dy = data_of<Store>(dy)};
  const auto* chosen = data_of<uint8_t>(saved.chosen);
  const at::Tensor result = at::zeros({width}, at::kDouble);
  double* sum = result.data_ptr<double>();
  total(
      rows.count(), width,
      [&](int64_t part, double* of_part) {
        rows.for_rows(part, [&](const PooledRow& row) {
          loops<Store>().pool_gradient_sums(row, coefficients, data, chosen, of_part);
        });
      },
      [&](int64_t, const double* of_part) {
        for (int64_t i = 0; i < width; ++i) sum[i] += of_part[i];
      });
  return result;
}

// Fills `out`, the gradient of x.
template <typename Store>
void pooled_input_gradient(const at::Tensor& out, const at::Tensor& x, const at::Tensor& dy,
                           const at::Tensor& chosen,
                           const Coefficients<NumberOf<Store>>& coefficients) {
  const PooledRows rows(out.sizes());
  const NormTensors<Store> data{
      .x = data_of<Store>(x), .dy = data_of<Store>(dy), .out = mutable_data_of<Store>(out)};
  in_parallel(rows.count(), [&](int64_t part) {
    rows.for_rows(part, [&](const PooledRow& row) {
      loops<Store>().pool_input_gradient(row, coefficients, data, data_of<uint8_t>(chosen));
    });
  });
  const std::vector<Store> zeros(static_cast<size_t>(out.size(1)));
  rows.for_rest([&](const ElementRun& run) {
    if (coefficients.mean == nullptr) {
      std::fill_n(data.out + run.begin, run.count, Store());
      return;
    }
    const NormTensors<Store> part{
        .x = data.x + run.begin, .dy = zeros.data(), .out = data.out + run.begin};
    loops<Store>().input_gradient({0, run.count, run.period}, coefficients, part,
                                  Activation::kNone);
  });
}

}  // namespace

at::Tensor sums(const at::Tensor& x, const at::Tensor& lengths) {
  const Parts parts(x, lengths);
  const int64_t channels = parts.channels(), count = parts.valid_positions();
  const at::Tensor result = at::zeros({1 + 2 * channels}, at::kDouble);
  double* values = result.data_ptr<double>();
  values[0] = static_cast<double>(count);
  if (count == 0) return result;
  by_type(x, [&](auto store) {
    using Store = decltype(store);
    using Number = NumberOf<Store>;
    const auto* from = data_of<Store>(x);
    // The first value of each channel, so that a large mean costs no precision
    std::vector<Number> origin;
    for (int64_t c = 0; c < channels; ++c) {
      if constexpr (std::is_same_v<Store, uint16_t>) {
        origin.push_back(static_cast<float>(
            c10::BFloat16(from[parts.first_value(c)], c10::BFloat16::from_bits())));
      } else {
        origin.push_back(from[parts.first_value(c)]);
      }
    }
    total(parts, values + 1, [&](int64_t part, double* sums) {
      std::vector<Number> memory;
      const Number* of_part = parts.coefficients(part, origin.data(), memory);
      parts.for_runs(part,
                     [&](const ElementRun& run) { loops<Store>().sums(run, from, of_part, sums); });
    });
    move_sums_to_zero(origin.data(), channels, values);
  });
  return result;
}

NormOutput normalize(const at::Tensor& x, const at::Tensor& lengths, const Affine& affine,
                     const Epilogue& epilogue) {
  return by_type(x, [&](auto store) {
    using Store = decltype(store);
    using Number = NumberOf<Store>;
    const ChannelValues<Number> values(affine);
    if (epilogue.max_pool) return pooled<Store>(x, values.all(), epilogue.activation);
    const Parts parts(x, lengths);
    const NormOutput out = {lengths.defined() ? at::zeros_like(x) : at::empty_like(x), {}};
    const NormTensors<Store> data{.x = data_of<Store>(x),
                                  .residual = data_of<Store>(epilogue.residual),
                                  .out = mutable_data_of<Store>(out.y)};
    in_parallel(parts.count(), [&](int64_t part) {
      for_runs_of(parts, part, values, [&](const ElementRun& run, const Coefficients<Number>& of) {
        loops<Store>().normalize(run, of, data, epilogue.activation);
      });
    });
    return out;
  });
}

at::Tensor gradient_sums(const Saved& saved, at::Tensor& dy) {
  return by_type(saved.x, [&](auto store) {
    using Store = decltype(store);
    using Number = NumberOf<Store>;
    const ChannelValues<Number> values(saved.affine);
    if (saved.chosen.defined()) return pooled_sums<Store>(saved, dy, values.all());
    const Parts parts(saved.x, saved.lengths);
    const at::Tensor before_activation = saved.y.defined() ? at::empty_like(saved.x) : at::Tensor();
    const at::Tensor result = at::zeros({2 * parts.channels()}, at::kDouble);
    const NormTensors<Store> data{.x = data_of<Store>(saved.x),
                                  .y = data_of<Store>(saved.y),
                                  .dy = data_of<Store>(dy),
                                  .out = mutable_data_of<Store>(before_activation)};
    total(parts, result.data_ptr<double>(), [&](int64_t part, double* sums) {
      for_runs_of(parts, part, values, [&](const ElementRun& run, const Coefficients<Number>& of) {
        loops<Store>().gradient_sums(run, of, data, saved.activation, sums);
      });
    });
    if (before_activation.defined()) dy = before_activation;
    return result;
  });
}

at::Tensor input_gradient(const Saved& saved, const at::Tensor& dy, const at::Tensor& gradient_sums,
                          const at::Tensor& count) {
  const at::Tensor out =
      saved.lengths.defined() ? at::zeros_like(saved.x) : at::empty_like(saved.x);
  by_type(saved.x, [&](auto store) {
    using Store = decltype(store);
    using Number = NumberOf<Store>;
    ChannelValues<Number> values(saved.affine);
    values.add_sums(saved.affine, gradient_sums, count);
    if (saved.chosen.defined()) {
      pooled_input_gradient<Store>(out, saved.x, dy, saved.chosen, values.all());
      return;
    }
    const Parts parts(saved.x, saved.lengths);
    const NormTensors<Store> data{
        .x = data_of<Store>(saved.x), .dy = data_of<Store>(dy), .out = mutable_data_of<Store>(out)};
    const Activation activation = saved.y.defined() ? Activation::kNone : saved.activation;
    in_parallel(parts.count(), [&](int64_t part) {
      for_runs_of(parts, part, values, [&](const ElementRun& run, const Coefficients<Number>& of) {
        loops<Store>().input_gradient(run, of, data, activation);
      });
    });
  });
  return out;
}

bool can_pool(const at::Tensor& x) {
  const bool known = x.scalar_type() == at::kDouble || x.scalar_type() == at::kFloat ||
                     x.scalar_type() == at::kBFloat16;
  return known && x.dim() == 4 && x.size(2) >= 2 && x.size(3) >= 2 && !x.is_contiguous() &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

NormOutput pool(const at::Tensor& x, Activation activation) {
  return by_type(x, [&](auto store) { return pooled<decltype(store)>(x, {}, activation); });
}

at::Tensor pool_gradient(const at::Tensor& dy, const at::Tensor& chosen, at::IntArrayRef x_sizes) {
  const at::Tensor out =
      at::empty(x_sizes, dy.options().memory_format(at::MemoryFormat::ChannelsLast));
  by_type(dy, [&](auto store) { pooled_input_gradient<decltype(store)>(out, {}, dy, chosen, {}); });
  return out;
}

}  // namespace dtrain::kernels::batch_norm::cpu
