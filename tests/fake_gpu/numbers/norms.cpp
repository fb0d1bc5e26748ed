#include <ATen/ATen.h>

#include <tuple>

#include "numbers/compute.h"
#include "numbers/operators.h"

namespace fake_gpu {
namespace {

using Optional = std::optional<at::Tensor>;

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> cudnn_batch_norm(
    const at::Tensor& x, const at::Tensor& weight, const Optional& bias, const Optional& mean,
    const Optional& variance, bool training, double momentum, double eps) {
  const at::Tensor y = like(x);
  const auto channels = training ? x.size(1) : 0;
  const at::Tensor batch_mean = at::empty({channels}, weight.options());
  const at::Tensor batch_invstd = at::empty({channels}, weight.options());
  const at::Tensor reserve = at::empty({0}, x.options().dtype(at::kByte));
  compute(x.device(), "cudnn_batch_norm",
          [=, y = on_host(y), batch_mean = on_host(batch_mean),
           batch_invstd = on_host(batch_invstd), x = on_host(x), weight = on_host(weight),
           bias = on_host(bias), mean = on_host(mean), variance = on_host(variance)] {
            const auto [out, m, s] =
                at::native_batch_norm(x, weight, bias, mean, variance, training, momentum, eps);
            y.copy_(out);
            if (!training) return;
            batch_mean.copy_(m);
            batch_invstd.copy_(s);
          });
  return {y, batch_mean, batch_invstd, reserve};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cudnn_batch_norm_backward(
    const at::Tensor& x, const at::Tensor& dy, const at::Tensor& weight, const Optional& mean,
    const Optional& variance, const Optional& batch_mean, const Optional& batch_invstd, double eps,
    const at::Tensor&) {
  const at::Tensor dx = like(x), dw = at::empty_like(weight), db = at::empty_like(weight);
  compute(
      x.device(), "cudnn_batch_norm_backward",
      [=, dx = on_host(dx), dw = on_host(dw), db = on_host(db), x = on_host(x), dy = on_host(dy),
       weight = on_host(weight), mean = on_host(mean), variance = on_host(variance),
       batch_mean = on_host(batch_mean), batch_invstd = on_host(batch_invstd)] {
        const auto [a, b, c] = at::native_batch_norm_backward(
            dy, x, weight, mean, variance, batch_mean, batch_invstd, true, eps, {true, true, true});
        dx.copy_(a);
        dw.copy_(b);
        db.copy_(c);
      });
  return {dx, dw, db};
}

}  // namespace

void add_norms(torch::Library& library) {
  library.impl("cudnn_batch_norm", TORCH_FN(cudnn_batch_norm));
  library.impl("cudnn_batch_norm_backward", TORCH_FN(cudnn_batch_norm_backward));
}

}  // namespace fake_gpu
