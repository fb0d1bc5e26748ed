// The parts of LibTorch's batch norm over ranks, which it has for GPUs alone, by their definition.

#include <ATen/ATen.h>

#include <tuple>
#include <vector>

#include "numbers/compute.h"
#include "numbers/operators.h"

namespace fake_gpu {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

// Of one value for each channel, as a GPU's kernels compute it.
at::TensorOptions statistics_of(const Tensor& x) {
  return x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

// A value for each channel, so that it fits x.
Tensor spread(const Tensor& values, const Tensor& x) {
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[1] = x.size(1);
  return values.reshape(sizes);
}

Tensor sum_of_channels(const Tensor& x) {
  std::vector<int64_t> others;
  for (int64_t dim = 0; dim < x.dim(); ++dim)
    if (dim != 1) others.push_back(dim);
  return x.sum(others);
}

std::tuple<Tensor, Tensor> stats(const Tensor& x, double eps) {
  const Tensor mean = at::empty({x.size(1)}, statistics_of(x)), invstd = at::empty_like(mean);
  compute(x.device(), "batch_norm_stats",
          [eps, mean = on_host(mean), invstd = on_host(invstd), x = on_host(x)] {
            const Tensor values = wide(x);
            const double count = static_cast<double>(x.numel() / x.size(1));
            mean.copy_(sum_of_channels(values) / count);
            const Tensor from_mean = values - spread(mean, x);
            invstd.copy_((sum_of_channels(from_mean * from_mean) / count + eps).rsqrt());
          });
  return {mean, invstd};
}

Tensor elemt(const Tensor& x, const Optional& weight, const Optional& bias, const Tensor& mean,
             const Tensor& invstd, double) {
  const Tensor y = like(x);
  compute(x.device(), "batch_norm_elemt",
          [y = on_host(y), x = on_host(x), weight = on_host(weight), bias = on_host(bias),
           mean = on_host(mean), invstd = on_host(invstd)] {
            Tensor values = (wide(x) - spread(mean, x)) * spread(invstd, x);
            if (weight.defined()) values = values * spread(weight, x);
            if (bias.defined()) values = values + spread(bias, x);
            y.copy_(values);
          });
  return y;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_reduce(const Tensor& dy, const Tensor& x,
                                                           const Tensor& mean, const Tensor& invstd,
                                                           const Optional& weight, bool of_input,
                                                           bool of_weight, bool of_bias) {
  const auto made = [&](bool wanted, const at::TensorOptions& options) {
    return wanted ? at::empty({x.size(1)}, options) : Tensor();
  };
  const at::TensorOptions of_parameters =
      weight && weight->defined() ? weight->options() : statistics_of(x);
  const Tensor sum_dy = made(of_input, mean.options()), sum_dy_xmu = made(of_input, mean.options());
  const Tensor dw = made(of_weight, of_parameters), db = made(of_bias, of_parameters);
  compute(x.device(), "batch_norm_backward_reduce",
          [sum_dy = on_host(sum_dy), sum_dy_xmu = on_host(sum_dy_xmu), dw = on_host(dw),
           db = on_host(db), dy = on_host(dy), x = on_host(x), mean = on_host(mean),
           invstd = on_host(invstd)] {
            const Tensor sum = sum_of_channels(wide(dy));
            const Tensor product = sum_of_channels(wide(dy) * (wide(x) - spread(mean, x)));
            if (sum_dy.defined()) sum_dy.copy_(sum);
            if (sum_dy_xmu.defined()) sum_dy_xmu.copy_(product);
            if (dw.defined()) dw.copy_(product * invstd);
            if (db.defined()) db.copy_(sum);
          });
  return {sum_dy, sum_dy_xmu, dw, db};
}

Tensor backward_elemt(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& invstd,
                      const Optional& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                      const Tensor& count) {
  const Tensor dx = like(x);
  compute(x.device(), "batch_norm_backward_elemt",
          [dx = on_host(dx), dy = on_host(dy), x = on_host(x), mean = on_host(mean),
           invstd = on_host(invstd), weight = on_host(weight), sum_dy = on_host(sum_dy),
           sum_dy_xmu = on_host(sum_dy_xmu), count = on_host(count)] {
            const Tensor samples = count.sum().to(mean.scalar_type());
            const Tensor slope = sum_dy_xmu / samples * invstd * invstd;
            const Tensor scale = weight.defined() ? invstd * weight : invstd;
            dx.copy_((wide(dy) - spread(sum_dy / samples, x) -
                      (wide(x) - spread(mean, x)) * spread(slope, x)) *
                     spread(scale, x));
          });
  return dx;
}

}  // namespace

void add_shared_norms(torch::Library& library) {
  library.impl("batch_norm_stats", TORCH_FN(stats));
  library.impl("batch_norm_elemt", TORCH_FN(elemt));
  library.impl("batch_norm_backward_reduce", TORCH_FN(backward_reduce));
  library.impl("batch_norm_backward_elemt", TORCH_FN(backward_elemt));
}

}  // namespace fake_gpu
