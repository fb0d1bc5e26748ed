// Depthwise convolutions of fused_convolutions.h: rows of images, of which the last few that were
// normalized are kept.

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/depthwise_loops.h"
#include "kernels/fused_convolutions.h"
#include "kernels/fused_tensors.h"
#include "kernels/intra_op.h"
#include "kernels/work_parts.h"

namespace dtrain::kernels::fused {
namespace {

using depthwise::DepthwiseLoops;
using depthwise::DepthwiseShape;
using depthwise::WindowRows;

// A weight [C, 1, 3, 3] as the loops read it, [9, C], and the sum of its gradients [parts, 9, C] as
// a weight.
at::Tensor by_tap(const at::Tensor& weight) { return weight.view({-1, 9}).t().contiguous(); }
at::Tensor weight_of_parts(const at::Tensor& parts) {
  return parts.sum(0, /*keepdim=*/false, at::kDouble)
      .to(at::kFloat)
      .t()
      .contiguous()
      .view({-1, 1, 3, 3});
}

constexpr int64_t kBandElements = 128 << 10;  // elements of the input per band

// Successive rows of outputs of one sample, which one thread computes. The same for any number
// of threads.
struct Bands {
  Bands(int64_t samples, const DepthwiseShape& s)
      : samples(samples),
        height(s.out_height()),
        per_sample(std::clamp<int64_t>(divide_up(s.height * s.width * s.channels, kBandElements), 1,
                                       height)),
        size(divide_up(height, per_sample)) {}
  int64_t count() const { return samples * per_sample; }

  int64_t samples, height, per_sample, size;
};

// Rows of one sample of an Input or a Gradient, [width * C] each, of which the last ones that were
// asked for are kept.
template <typename Source>
class SampleRows {
 public:
  SampleRows(const Source& source, int64_t sample, int64_t height, int64_t width, int64_t channels,
             const float* zeros)
      : source_(source), first_(sample * height), height_(height), width_(width), zeros_(zeros) {
    if (source.norm == nullptr) return;
    for (auto& kept : memory_) kept.resize(static_cast<size_t>(width * channels));
  }

  const float* operator()(int64_t row) {
    if (row < 0 || row >= height_) return zeros_;
    const auto slot = static_cast<size_t>(row) % kKept;
    if (kept_[slot] != row) {
      rows_[slot] = read(source_, (first_ + row) * width_, width_, memory_[slot].data());
      kept_[slot] = row;
    }
    return rows_[slot];
  }
  WindowRows around(int64_t row) { return {{(*this)(row - 1), (*this)(row), (*this)(row + 1)}}; }

 private:
  static constexpr size_t kKept = 4;

  const Source& source_;
  int64_t first_, height_, width_;
  const float* zeros_;
  std::array<std::vector<float>, kKept> memory_;
  std::array<int64_t, kKept> kept_ = {-1, -1, -1, -1};
  std::array<const float*, kKept> rows_ = {};
};

// Calls body(band, sample, row, end) for the rows of outputs of each band.
template <typename Body>
void for_bands(const Bands& bands, const Body& body) {
  intra_op_for(0, bands.count(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t band = begin; band < end; ++band) {
      const int64_t row = band % bands.per_sample * bands.size;
      body(band, band / bands.per_sample, row, std::min(bands.height, row + bands.size));
    }
  });
}

}  // namespace

ConvOutput depthwise(const Input& in, const at::Tensor& weight, int64_t stride) {
  const at::Tensor& x = in.x;
  const DepthwiseShape s = {x.size(1), x.size(2), x.size(3), stride};
  const int64_t channels = s.channels, width = s.out_width(), height = s.out_height();
  const DepthwiseLoops& loops = depthwise::loops();
  const at::Tensor y = empty_image({x.size(0), channels, height, width}, x.options()),
                   taps = by_tap(weight);
  const std::vector<float> zeros(static_cast<size_t>(s.width * channels));
  const auto rows_of = [&](int64_t sample) {
    return SampleRows<Input>(in, sample, s.height, s.width, channels, zeros.data());
  };
  std::vector<float> first(static_cast<size_t>(width * channels));
  loops.convolve(s, rows_of(0).around(0), taps.const_data_ptr<float>(), first.data());
  first.resize(static_cast<size_t>(channels));
  const Bands bands(x.size(0), s);
  ChunkSums sums(bands.count(), channels);
  for_bands(bands, [&](int64_t band, int64_t sample, int64_t row, int64_t end) {
    SampleRows<Input> rows = rows_of(sample);
    for (; row < end; ++row) {
      const int64_t position = (sample * height + row) * width;
      float* out = row_of(y, position);
      loops.convolve(s, rows.around(row * stride), taps.const_data_ptr<float>(), out);
      batch_norm::loops<float>().sums({0, width * channels, channels}, out, first.data(),
                                      sums.of(band));
    }
  });
  return {y, sums.values_about(first, x.size(0) * height * width)};
}

Gradients depthwise_gradients(const Input& in, const at::Tensor& weight, int64_t stride,
                              const Gradient& gradient, bool with_x) {
  const at::Tensor& x = in.x;
  const DepthwiseShape s = {x.size(1), x.size(2), x.size(3), stride};
  const DepthwiseLoops& loops = depthwise::loops();
  const int64_t channels = s.channels, line = s.width * channels;
  Gradients result{.x = with_x ? at::empty_like(x) : at::Tensor(), .sums = {}, .weight = {}};
  const at::Tensor taps = by_tap(weight), backward_taps = stride == 1 ? taps.flip(0) : taps;
  const std::vector<float> zeros(static_cast<size_t>(line));
  const Bands bands(x.size(0), s);
  ChunkSums sums(bands.count(), in.norm != nullptr ? channels : 0);
  const at::Tensor of_bands = at::zeros({bands.count(), 9, channels}, x.options());
  for_bands(bands, [&](int64_t band, int64_t sample, int64_t row, int64_t end) {
    SampleRows<Input> rows(in, sample, s.height, s.width, channels, zeros.data());
    SampleRows<Gradient> dy(gradient, sample, s.out_height(), s.out_width(), channels,
                            zeros.data());
    float* dw = of_bands.mutable_data_ptr<float>() + band * 9 * channels;
    const float* of_taps = backward_taps.const_data_ptr<float>();
    for (; row < end; ++row) {
      loops.add_weight_gradient(s, rows.around(row * stride), dy(row), dw);
      for (int64_t i = row * stride; with_x && i < std::min(s.height, (row + 1) * stride); ++i) {
        const int64_t position = (sample * s.height + i) * s.width;
        float* dx = row_of(result.x, position);
        if (stride == 1) {
          loops.convolve(s, dy.around(i), of_taps, dx);
        } else {
          loops.spread(s, i % 2 == 1, dy(row), dy(row + 1), of_taps, zeros.data(), dx);
        }
        if (in.norm != nullptr) add_gradient_sums(in, position, s.width, dx, sums.of(band));
      }
    }
  });
  result.weight = weight_of_parts(of_bands);
  if (in.norm != nullptr) result.sums = sums.values();
  return result;
}

}  // namespace dtrain::kernels::fused
