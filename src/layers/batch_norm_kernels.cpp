#include "layers/batch_norm_kernels.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "layers/lengths.h"

namespace dtrain::layers::batch_norm {
namespace {

// ---- the CPU: one loop for both memory formats ----------------------------------------------------------------------

// The elements of a tile are visited in runs of at most kLanes elements that are contiguous in memory. In NCHW a tile
// is one channel and a run is some of its positions; in NHWC a tile is up to kLanes channels and a run is one position.
constexpr int64_t kLanes = 32;

struct Layout {
  int64_t samples, channels, positions;
  bool channels_last;
  const int64_t* lengths;  // nullptr: all positions

  int64_t valid(int64_t sample) const { return lengths ? valid_length(lengths[sample], positions) : positions; }
  int64_t tiles() const { return channels_last ? (channels + kLanes - 1) / kLanes : channels; }
  int64_t channel(int64_t tile, int64_t lane) const { return channels_last ? tile * kLanes + lane : tile; }
  int64_t lanes(int64_t tile) const { return channels_last ? std::min(kLanes, channels - tile * kLanes) : kLanes; }
};

Layout layout_of(const at::Tensor& x, const at::Tensor& lengths) {
  const int64_t samples = x.size(0), channels = x.size(1);
  const int64_t positions = samples * channels == 0 ? 0 : x.numel() / (samples * channels);
  return {samples, channels, positions, x.dim() == 2 || !x.is_contiguous(),
          lengths.defined() ? lengths.const_data_ptr<int64_t>() : nullptr};
}

// Calls run(offset, width). A width of kLanes is passed as a compile-time constant, so that loops are vectorized.
template <typename Run>
void for_each_run(const Layout& layout, int64_t tile, const Run& run) {
  const auto visit = [&](int64_t offset, int64_t width) {
    if (width == kLanes) {
      run(offset, std::integral_constant<int64_t, kLanes>{});
    } else {
      run(offset, width);
    }
  };
  for (int64_t b = 0; b < layout.samples; ++b) {
    const int64_t valid = layout.valid(b);
    if (layout.channels_last) {
      int64_t offset = b * layout.positions * layout.channels + tile * kLanes;
      for (int64_t t = 0; t < valid; ++t, offset += layout.channels) visit(offset, layout.lanes(tile));
    } else {
      const int64_t begin = (b * layout.channels + tile) * layout.positions;
      for (int64_t t = 0; t < valid; t += kLanes) visit(begin + t, std::min(kLanes, valid - t));
    }
  }
}

// totals[channel] = sum of term(index, lane) over the tile's elements.
template <typename Term>
void total(const Layout& layout, int64_t tile, double* totals, const Term& term) {
  double lanes[kLanes] = {};
  for_each_run(layout, tile, [&](int64_t offset, auto width) {
    for (int64_t j = 0; j < width; ++j) lanes[j] += term(offset + j, j);
  });
  for (int64_t j = 0; j < layout.lanes(tile); ++j) totals[layout.channel(tile, j)] += lanes[j];
}

// The values of a tile's lanes, from values per channel.
template <typename T>
struct Lanes {
  Lanes(const Layout& layout, int64_t tile, const std::vector<T>& channels) {
    for (int64_t j = 0; j < layout.lanes(tile); ++j) value[j] = channels[static_cast<size_t>(layout.channel(tile, j))];
  }
  T operator[](int64_t lane) const { return value[lane]; }
  T value[kLanes] = {};
};

template <typename T>
std::vector<T> vector_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(c10::CppTypeToScalarType<T>::value).contiguous();
  return {values.const_data_ptr<T>(), values.const_data_ptr<T>() + values.numel()};
}

template <typename Body>
void for_each_tile(const Layout& layout, const Body& body) {
  at::parallel_for(0, layout.tiles(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) body(tile);
  });
}

template <typename T>
at::Tensor cpu_sums(const at::Tensor& x, const at::Tensor& lengths) {
  const Layout layout = layout_of(x, lengths);
  const at::Tensor result = at::zeros({1 + 2 * layout.channels}, at::kDouble);
  double* sum = result.data_ptr<double>() + 1;
  double* squares = sum + layout.channels;
  const T* values = x.const_data_ptr<T>();
  int64_t count = 0;
  for (int64_t b = 0; b < layout.samples; ++b) count += layout.valid(b);
  result.data_ptr<double>()[0] = static_cast<double>(count);
  if (count == 0) return result;
  for_each_tile(layout, [&](int64_t tile) {
    total(layout, tile, sum, [&](int64_t i, int64_t) { return static_cast<double>(values[i]); });
    double mean[kLanes] = {};
    for (int64_t j = 0; j < layout.lanes(tile); ++j)
      mean[j] = sum[layout.channel(tile, j)] / static_cast<double>(count);
    total(layout, tile, squares, [&](int64_t i, int64_t lane) {
      const double offset = static_cast<double>(values[i]) - mean[lane];
      return offset * offset;
    });
    const int64_t own = layout.channels_last ? layout.lanes(tile) : 1;
    for (int64_t j = 0; j < own; ++j) squares[layout.channel(tile, j)] += mean[j] * sum[layout.channel(tile, j)];
  });
  return result;
}

template <typename T>
at::Tensor cpu_normalize(const at::Tensor& x, const at::Tensor& lengths, const at::Tensor& weight,
                         const at::Tensor& bias, const at::Tensor& mean, const at::Tensor& invstd) {
  const Layout layout = layout_of(x, lengths);
  const at::Tensor out = lengths.defined() ? at::zeros_like(x) : at::empty_like(x);
  const T* from = x.const_data_ptr<T>();
  T* to = out.data_ptr<T>();
  const auto means = vector_of<T>(mean), scales = vector_of<T>(weight * invstd), biases = vector_of<T>(bias);
  for_each_tile(layout, [&](int64_t tile) {
    const Lanes<T> m(layout, tile, means), scale(layout, tile, scales), b(layout, tile, biases);
    for_each_run(layout, tile, [&](int64_t offset, auto width) {
      for (int64_t j = 0; j < width; ++j) to[offset + j] = (from[offset + j] - m[j]) * scale[j] + b[j];
    });
  });
  return out;
}

template <typename T>
at::Tensor cpu_gradient_sums(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& lengths,
                             const at::Tensor& mean) {
  const Layout layout = layout_of(x, lengths);
  const at::Tensor result = at::zeros({2 * layout.channels}, at::kDouble);
  double* sum = result.data_ptr<double>();
  const T *gradient = dy.const_data_ptr<T>(), *values = x.const_data_ptr<T>();
  const auto means = vector_of<double>(mean);
  for_each_tile(layout, [&](int64_t tile) {
    const Lanes<double> m(layout, tile, means);
    total(layout, tile, sum, [&](int64_t i, int64_t) { return static_cast<double>(gradient[i]); });
    total(layout, tile, sum + layout.channels, [&](int64_t i, int64_t lane) {
      return static_cast<double>(gradient[i]) * (static_cast<double>(values[i]) - m[lane]);
    });
  });
  return result;
}

template <typename T>
at::Tensor cpu_input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& lengths,
                              const at::Tensor& mean, const at::Tensor& scale, const at::Tensor& slope,
                              const at::Tensor& shift) {
  const Layout layout = layout_of(x, lengths);
  const at::Tensor out = lengths.defined() ? at::zeros_like(x) : at::empty_like(x);
  const T *gradient = dy.const_data_ptr<T>(), *values = x.const_data_ptr<T>();
  T* to = out.data_ptr<T>();
  const auto means = vector_of<T>(mean), scales = vector_of<T>(scale), slopes = vector_of<T>(slope),
             shifts = vector_of<T>(shift);
  for_each_tile(layout, [&](int64_t tile) {
    const Lanes<T> m(layout, tile, means), k(layout, tile, scales), s(layout, tile, slopes), d(layout, tile, shifts);
    for_each_run(layout, tile, [&](int64_t offset, auto width) {
      for (int64_t j = 0; j < width; ++j)
        to[offset + j] = (gradient[offset + j] - d[j] - (values[offset + j] - m[j]) * s[j]) * k[j];
    });
  });
  return out;
}

// ---- padded sequences on the GPU ----------------------------------------------------------------------------------

at::Tensor valid_mask(const at::Tensor& x, const at::Tensor& lengths, at::ScalarType dtype) {  // [B, 1, T]
  return valid_positions(lengths, x.size(2)).unsqueeze(1).to(dtype);
}

at::Tensor per_channel(const at::Tensor& values) { return values.view({1, -1, 1}); }

}  // namespace

at::Tensor sums(const at::Tensor& x, const at::Tensor& lengths) {
  if (x.is_cpu()) return x.scalar_type() == at::kDouble ? cpu_sums<double>(x, lengths) : cpu_sums<float>(x, lengths);
  if (!lengths.defined()) {
    constexpr double kEps = 1e-5;  // subtracted again below; keeps the inverse of a zero variance finite
    const auto [mean, invstd] = at::batch_norm_stats(x, kEps);
    const at::Tensor wide = mean.to(at::kDouble);
    const at::Tensor variance = (invstd.to(at::kDouble).pow(-2) - kEps).clamp_min(0);
    const auto count = static_cast<double>(x.numel() / x.size(1));
    return at::cat({at::full({1}, count, wide.options()), wide * count, (variance + wide * wide) * count});
  }
  const at::Tensor mask = valid_mask(x, lengths, at::kDouble);
  const at::Tensor count = mask.sum(), sum = (x * mask).sum(at::IntArrayRef({0, 2}));
  const at::Tensor mean = sum / count.clamp_min(1);
  const at::Tensor offset = (x - per_channel(mean)) * mask;
  return at::cat({count.view({1}), sum, (offset * offset).sum(at::IntArrayRef({0, 2})) + mean * sum});
}

at::Tensor normalize(const at::Tensor& x, const at::Tensor& lengths, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& mean, const at::Tensor& invstd) {
  if (x.is_cpu()) {
    return x.scalar_type() == at::kDouble ? cpu_normalize<double>(x, lengths, weight, bias, mean, invstd)
                                          : cpu_normalize<float>(x, lengths, weight, bias, mean, invstd);
  }
  if (!lengths.defined()) return at::batch_norm_elemt(x, weight, bias, mean, invstd, /*eps=*/0);
  const at::Tensor y = (x - per_channel(mean)) * per_channel(weight * invstd) + per_channel(bias);
  return (y * valid_mask(x, lengths, mean.scalar_type())).to(x.scalar_type());
}

at::Tensor gradient_sums(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& lengths, const at::Tensor& mean,
                         const at::Tensor& invstd, const at::Tensor& weight) {
  if (x.is_cpu()) {
    return x.scalar_type() == at::kDouble ? cpu_gradient_sums<double>(dy, x, lengths, mean)
                                          : cpu_gradient_sums<float>(dy, x, lengths, mean);
  }
  if (!lengths.defined()) {
    const auto [sum_dy, sum_dy_xmu, dw, db] =
        at::batch_norm_backward_reduce(dy, x, mean, invstd, weight, /*input_g=*/true, /*weight_g=*/false,
                                       /*bias_g=*/false);
    return at::cat({sum_dy, sum_dy_xmu}).to(at::kDouble);
  }
  const at::Tensor valid = dy * valid_mask(x, lengths, mean.scalar_type());
  return at::cat({valid.sum(at::IntArrayRef({0, 2})), (valid * (x - per_channel(mean))).sum(at::IntArrayRef({0, 2}))})
      .to(at::kDouble);
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& lengths,
                          const at::Tensor& weight, const at::Tensor& mean, const at::Tensor& invstd,
                          const at::Tensor& gradient_sums, const at::Tensor& count) {
  const int64_t channels = x.size(1);
  const at::Tensor sum_dy = gradient_sums.slice(0, 0, channels), sum_dy_xmu = gradient_sums.slice(0, channels);
  if (!x.is_cpu() && !lengths.defined()) {
    return at::batch_norm_backward_elemt(dy, x, mean, invstd, weight, sum_dy.to(mean.scalar_type()),
                                         sum_dy_xmu.to(mean.scalar_type()), count.to(at::kInt).view({1}));
  }
  const at::Tensor scale = weight * invstd;
  const at::Tensor wide = invstd.to(at::kDouble), slope = sum_dy_xmu / count * wide * wide, shift = sum_dy / count;
  if (x.is_cpu()) {
    return x.scalar_type() == at::kDouble ? cpu_input_gradient<double>(dy, x, lengths, mean, scale, slope, shift)
                                          : cpu_input_gradient<float>(dy, x, lengths, mean, scale, slope, shift);
  }
  const auto broadcast = [&](const at::Tensor& values) { return per_channel(values.to(mean.scalar_type())); };
  const at::Tensor dx = (dy - broadcast(shift) - (x - broadcast(mean)) * broadcast(slope)) * broadcast(scale);
  return (dx * valid_mask(x, lengths, mean.scalar_type())).to(x.scalar_type());
}

}  // namespace dtrain::layers::batch_norm
