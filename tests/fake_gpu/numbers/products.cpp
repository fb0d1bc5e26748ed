#include <ATen/ATen.h>

#include "numbers/compute.h"
#include "numbers/operators.h"

namespace fake_gpu {
namespace {

at::Tensor mm(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  compute(a.device(), "mm", [out = on_host(out), a = on_host(a), b = on_host(b)] {
    out.copy_(at::mm(wide(a), wide(b)));
  });
  return out;
}

at::Tensor bmm(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor out = at::empty({a.size(0), a.size(1), b.size(2)}, a.options());
  compute(a.device(), "bmm", [out = on_host(out), a = on_host(a), b = on_host(b)] {
    out.copy_(at::bmm(wide(a), wide(b)));
  });
  return out;
}

at::Tensor addmm(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  const at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  compute(a.device(), "addmm",
          [=, out = on_host(out), c = on_host(c), a = on_host(a), b = on_host(b)] {
            out.copy_(at::addmm(wide(c), wide(a), wide(b), beta, alpha));
          });
  return out;
}

}  // namespace

void add_products(torch::Library& library) {
  library.impl("mm", TORCH_FN(mm));
  library.impl("bmm", TORCH_FN(bmm));
  library.impl("addmm", TORCH_FN(addmm));
}

}  // namespace fake_gpu
