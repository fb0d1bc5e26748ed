#include "kernels/convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "core/check.h"
#include "kernels/convolution_loops.h"
#include "kernels/intra_op.h"
#include "kernels/work_parts.h"

namespace dtrain::kernels {
namespace {

using convolution::ConvShape;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

ConvShape shape_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& dy,
                   int64_t stride, int64_t padding) {
  return {.in_channels = x.size(1),
          .height = x.size(2),
          .width = x.size(3),
          .out_channels = dy.size(1),
          .out_height = dy.size(2),
          .out_width = dy.size(3),
          .kernel_height = weight.size(2),
          .kernel_width = weight.size(3),
          .stride = stride,
          .padding = padding};
}

// The sums of each part, [tiles, taps, tile_width], as a weight that is channels_last.
at::Tensor as_weight(const at::Tensor& sums, const ConvShape& s) {
  const at::Tensor rows =
      sums.permute({0, 2, 1}).reshape({-1, s.taps()}).narrow(0, 0, s.out_channels).contiguous();
  return rows.view({s.out_channels, s.kernel_height, s.kernel_width, s.in_channels})
      .permute({0, 3, 1, 2});
}

}  // namespace

std::pair<at::Tensor, at::Tensor> conv2d_weight_gradient(const at::Tensor& x,
                                                         const at::Tensor& weight,
                                                         const at::Tensor& dy, int64_t stride,
                                                         int64_t padding, bool with_bias) {
  DTRAIN_CHECK(
      x.is_contiguous(kChannelsLast) && dy.is_contiguous(kChannelsLast) && x.size(0) == dy.size(0),
      "gradient of a convolution of ", x.sizes(), " with ", weight.sizes(), " from ", dy.sizes());
  const ConvShape shape = shape_of(x, weight, dy, stride, padding);
  const int64_t width = convolution::tile_width(), tiles = divide_up(shape.out_channels, width);
  const int64_t rows = x.size(0) * shape.out_height;
  const SumParts cut =
      parts_of_sums(rows, tiles, tiles * shape.taps() * width, at::get_num_threads());
  const int64_t parts = cut.parts, groups = cut.groups;
  const int64_t rows_per_part = divide_up(rows, parts), tiles_per_group = divide_up(tiles, groups);
  const at::Tensor sums = at::zeros({parts, tiles, shape.taps(), width}, x.options());
  const at::Tensor biases =
      at::zeros({parts, with_bias ? shape.out_channels : 0}, x.options().dtype(at::kDouble));
  intra_op_for(0, parts * groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i / groups, tile = i % groups * tiles_per_group;
      convolution::add_weight_gradient(
          shape, x.const_data_ptr<float>(), dy.const_data_ptr<float>(),
          std::min(rows, part * rows_per_part), std::min(rows, (part + 1) * rows_per_part),
          std::min(tiles, tile), std::min(tiles, tile + tiles_per_group),
          sums.mutable_data_ptr<float>() + part * sums.stride(0),
          with_bias ? biases.mutable_data_ptr<double>() + part * shape.out_channels : nullptr);
    }
  });
  return {as_weight(parts == 1 ? sums[0] : sums.sum(0), shape),
          with_bias ? biases.sum(0).to(at::kFloat) : at::Tensor()};
}

}  // namespace dtrain::kernels
