#include "kernels/winograd.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "core/check.h"
#include "kernels/intra_op.h"
#include "kernels/panel_products.h"
#include "kernels/winograd_loops.h"
#include "kernels/work_parts.h"

namespace dtrain::kernels {
namespace {

using winograd::kValues;
using winograd::TileImage;
using winograd::WinogradLoops;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
// Numbers of a block's patches, for each of the 16 values: 512 KiB
constexpr int64_t kPatches = 8192;
// So that the rows of a block do not lie in the same lines of the cache
constexpr int64_t kGap = 16;
// A block has a multiple of this many tiles, because a product computes 6 or 12 rows at once
constexpr int64_t kRows = 12;

TileImage image_of(const at::Tensor& x) {
  return {.height = x.size(2), .width = x.size(3), .channels = x.size(1)};
}

void check(const at::Tensor& x, int64_t in, int64_t out) {
  DTRAIN_CHECK(
      x.is_contiguous(kChannelsLast) && x.scalar_type() == at::kFloat && winograd_takes(in, out),
      "a Winograd convolution of ", x.sizes(), " ", x.scalar_type(), " with ", in, " and ", out,
      " channels");
}

// The tiles of a block: as many as keep its patches in the second cache.
int64_t tiles_of_block(int64_t channels, int64_t least) {
  return std::clamp(kPatches / channels / kRows * kRows, least, int64_t{8} * kRows);
}

// One allocation for all that a convolution needs beside its result: zeros, `shared` numbers, and
// for each part of the work the patches and tiles of a block. What begins at a multiple of kAligned
// numbers is aligned to a cache line.
class Workspace {
 public:
  Workspace(const at::Tensor& like, int64_t zeros, int64_t shared, int64_t parts, int64_t block,
            int64_t stride)
      : shared_(aligned(zeros)),
        parts_(shared_ + aligned(shared)),
        patches_(aligned(kValues * block * stride)),
        part_(patches_ + aligned(kValues * block * winograd::loops().tile)),
        numbers_(at::empty({parts_ + parts * part_}, like.options().memory_format(std::nullopt))) {
    std::fill_n(data(), zeros, 0.0F);
  }

  const float* zeros() const { return data(); }
  float* shared() const { return data() + shared_; }
  float* patches(int64_t part) const { return data() + parts_ + part * part_; }
  float* tiles(int64_t part) const { return patches(part) + patches_; }

 private:
  static constexpr int64_t kAligned = 16;
  static int64_t aligned(int64_t numbers) { return divide_up(numbers, kAligned) * kAligned; }
  float* data() const { return numbers_.mutable_data_ptr<float>(); }

  int64_t shared_, parts_, patches_, part_;
  at::Tensor numbers_;
};

// kernels [outer / tile, kValues, inner, tile]
void transform(const at::Tensor& weight, int64_t inner, int64_t outer, bool turned,
               float* kernels) {
  const WinogradLoops& loops = winograd::loops();
  const auto transform_tile = turned ? loops.transform_turned_kernels : loops.transform_kernels;
  const at::Tensor w = weight.contiguous(kChannelsLast);
  intra_op_for(0, outer / loops.tile, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      transform_tile(w.const_data_ptr<float>(), w.size(0), w.size(1), i * loops.tile,
                     kernels + i * kValues * inner * loops.tile);
    }
  });
}

// products [kValues, rows, tile] = patches [kValues, rows, stride] · kernel [kValues, inner, tile]
void multiply(const float* patches, int64_t rows, int64_t stride, const float* kernel,
              int64_t inner, const float* zeros, float* products) {
  const PanelLoops& loops = panel_loops();
  for (int64_t value = 0; value < kValues; ++value) {
    const PanelProduct product{.x = patches + value * rows * stride,
                               .x_stride = stride,
                               .x_width = inner,
                               .weights = kernel + value * inner * loops.tile,
                               .inner = inner,
                               .columns = loops.tile,
                               .start = zeros,
                               .y = products + value * rows * loops.tile,
                               .y_stride = loops.tile};
    loops.multiply(product, 0, 0, rows);
  }
}

// x convolved with the kernels, or with the turned ones, which gives `outer` channels, and bias
// [outer] added.
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, bool turned, const float* bias) {
  const WinogradLoops& loops = winograd::loops();
  const int64_t inner = weight.size(turned ? 0 : 1), outer = weight.size(turned ? 1 : 0);
  check(x, inner, outer);
  at::Tensor y = at::empty({x.size(0), outer, x.size(2), x.size(3)}, x.options(), kChannelsLast);
  const TileImage in = image_of(x), out = image_of(y);
  const int64_t stride = inner + kGap, tiles = x.size(0) * in.tiles(),
                block = tiles_of_block(inner, kRows);
  const int64_t blocks = divide_up(tiles, block),
                parts = std::min<int64_t>(at::get_num_threads(), blocks);
  const Workspace space(x, std::max(inner, outer), kValues * inner * outer, parts, block, stride);
  transform(weight, inner, outer, turned, space.shared());
  const float* const start = bias != nullptr ? bias : space.zeros();
  intra_op_for(0, parts, 1, [&](int64_t part_begin, int64_t part_end) {
    for (int64_t part = part_begin; part < part_end; ++part) {
      for (int64_t i = part * blocks / parts; i < (part + 1) * blocks / parts; ++i) {
        const int64_t begin = i * block, end = std::min(tiles, begin + block);
        loops.transform_patches(in, x.const_data_ptr<float>(), space.zeros(), begin, end,
                                space.patches(part), stride);
        for (int64_t column = 0; column < outer; column += loops.tile) {
          multiply(space.patches(part), end - begin, stride,
                   space.shared() + kValues * inner * column, inner, space.zeros(),
                   space.tiles(part));
          loops.transform_results(out, space.tiles(part), start, begin, end, column,
                                  y.mutable_data_ptr<float>());
        }
      }
    }
  });
  return y;
}

}  // namespace

bool winograd_takes(int64_t in_channels, int64_t out_channels) {
  const int64_t tile = winograd::loops().tile;
  return in_channels > 0 && in_channels % tile == 0 && out_channels % tile == 0;
}

at::Tensor winograd_conv2d(const at::Tensor& x, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias) {
  const at::Tensor start = bias ? bias->contiguous() : at::Tensor();
  return convolve(x, weight, /*turned=*/false, bias ? start.const_data_ptr<float>() : nullptr);
}

at::Tensor winograd_input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  return convolve(dy, weight, /*turned=*/true, /*bias=*/nullptr);
}

std::pair<at::Tensor, at::Tensor> winograd_weight_gradient(const at::Tensor& x,
                                                           const at::Tensor& dy, bool with_bias) {
  const WinogradLoops& loops = winograd::loops();
  const TileImage in = image_of(x), out = image_of(dy);
  check(x, in.channels, out.channels);
  check(dy, in.channels, out.channels);
  const int64_t columns = out.channels / loops.tile, of_column = kValues * in.channels * loops.tile;
  const int64_t tiles = x.size(0) * in.tiles(), block = tiles_of_block(in.channels, 4 * kRows);
  const int64_t blocks = divide_up(tiles, block), of_part = columns * of_column;
  const SumParts cut = parts_of_sums(blocks, columns, of_part, at::get_num_threads());
  const int64_t parts = cut.parts, groups = cut.groups;
  const int64_t stride = in.channels + kGap;
  const Workspace space(x, in.channels, parts * of_part, parts * groups, block, stride);
  at::Tensor biases =
      at::zeros({parts, with_bias ? out.channels : 0}, x.options().dtype(at::kDouble));
  intra_op_for(0, parts * groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i / groups, group = i % groups;
      const int64_t first = group * columns / groups, last = (group + 1) * columns / groups;
      float* const sums = space.shared() + part * of_part;
      double* const bias =
          with_bias ? biases.mutable_data_ptr<double>() + part * out.channels : nullptr;
      std::fill_n(sums + first * of_column, (last - first) * of_column, 0.0F);
      for (int64_t b = part * blocks / parts; b < (part + 1) * blocks / parts; ++b) {
        const int64_t tile = b * block, tile_end = std::min(tiles, tile + block);
        loops.transform_patches(in, x.const_data_ptr<float>(), space.zeros(), tile, tile_end,
                                space.patches(i), stride);
        for (int64_t column = first; column < last; ++column) {
          loops.transform_gradients(out, dy.const_data_ptr<float>(), tile, tile_end,
                                    column * loops.tile, space.tiles(i),
                                    with_bias ? bias + column * loops.tile : nullptr);
          loops.add_products(space.patches(i), stride, space.tiles(i), tile_end - tile, in.channels,
                             sums + column * of_column);
        }
      }
    }
  });
  at::Tensor of_weight = at::empty({out.channels, in.channels, 3, 3}, x.options(), kChannelsLast);
  intra_op_for(0, columns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end; ++column) {
      loops.gradient_of_kernels(space.shared() + column * of_column, parts, of_part, in.channels,
                                column * loops.tile, of_weight.mutable_data_ptr<float>());
    }
  });
  if (!with_bias) return {of_weight, at::Tensor()};
  return {of_weight, (parts == 1 ? biases[0] : biases.sum(0)).to(at::kFloat)};
}

}  // namespace dtrain::kernels
