#include <ATen/ATen.h>
#include <ATen/native/ConvUtils.h>

#include <array>
#include <tuple>
#include <vector>

#include "numbers/compute.h"
#include "numbers/operators.h"

namespace fake_gpu {
namespace {

struct Geometry {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

// As cuDNN chooses it.
at::MemoryFormat format_of(const at::Tensor& x, const at::Tensor& weight) {
  const bool last = x.suggest_memory_format() == at::MemoryFormat::ChannelsLast ||
                    weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  return x.dim() == 4 && last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

at::Tensor plain(const at::Tensor& tensor) { return wide(tensor).contiguous(); }

at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  TORCH_CHECK(x.scalar_type() == weight.scalar_type(), "Input type (", x.scalar_type(),
              ") and weight type (", weight.scalar_type(), ") should be the same");
  const Geometry to{stride.vec(),         padding.vec(), dilation.vec(),
                    output_padding.vec(), transposed,    groups};
  const auto sizes =
      transposed
          ? at::native::conv_input_size(x.sizes(), weight.sizes(), padding, output_padding, stride,
                                        dilation, groups)
          : at::native::conv_output_size(x.sizes(), weight.sizes(), padding, stride, dilation);
  const at::Tensor y = at::empty(sizes, x.options().memory_format(format_of(x, weight)));
  compute(x.device(), "convolution",
          [to, y = on_host(y), x = on_host(x), weight = on_host(weight), bias = on_host(bias)] {
            y.copy_(at::convolution(plain(x), plain(weight), wide(bias), to.stride, to.padding,
                                    to.dilation, to.transposed, to.output_padding, to.groups));
          });
  return y;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
    at::OptionalIntArrayRef bias_sizes, at::IntArrayRef stride, at::IntArrayRef padding,
    at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> mask) {
  const Geometry to{stride.vec(),         padding.vec(), dilation.vec(),
                    output_padding.vec(), transposed,    groups};
  const auto format = format_of(x, weight);
  const auto like = [&](bool wanted, const at::Tensor& of) {
    return wanted ? at::empty(of.sizes(), of.options().memory_format(format)) : at::Tensor();
  };
  const at::Tensor dx = like(mask[0], x), dw = like(mask[1], weight);
  at::Tensor db;
  if (mask[2]) db = at::empty({transposed ? weight.size(1) * groups : weight.size(0)}, x.options());
  const std::vector<int64_t> of_bias =
      bias_sizes.has_value() ? bias_sizes->vec() : std::vector<int64_t>();
  compute(x.device(), "convolution_backward",
          [to, mask, of_bias, out = std::array{on_host(dx), on_host(dw), on_host(db)},
           dy = on_host(dy), x = on_host(x), weight = on_host(weight)] {
            const auto [a, b, c] = at::convolution_backward(
                plain(dy), plain(x), plain(weight), of_bias, to.stride, to.padding, to.dilation,
                to.transposed, to.output_padding, to.groups, mask);
            const std::array found = {a, b, c};
            for (size_t i = 0; i < out.size(); ++i)
              if (out[i].defined()) out[i].copy_(found[i]);
          });
  return {dx, dw, db};
}

}  // namespace

void add_convolutions(torch::Library& library) {
  library.impl("convolution", TORCH_FN(convolution));
  library.impl("convolution_backward", TORCH_FN(convolution_backward));
}

}  // namespace fake_gpu
