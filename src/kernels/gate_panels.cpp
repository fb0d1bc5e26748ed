#include "kernels/gate_panels.h"

#include <ATen/ATen.h>

namespace dtrain::kernels {

at::Tensor GatePanels::by_group(const at::Tensor& weight) const {
  const int64_t inputs = weight.size(1), more = groups() * tile - hidden;
  const at::Tensor by_gate = weight.detach().reshape({4, hidden, inputs});
  const at::Tensor padded = more == 0 ? by_gate : at::constant_pad_nd(by_gate, {0, 0, 0, more});
  return padded.view({4, groups(), tile, inputs}).transpose(0, 1);
}

at::Tensor GatePanels::transposed(const at::Tensor& weight) const {
  return by_group(weight).transpose(2, 3).contiguous().view({panels(), weight.size(1), tile});
}

at::Tensor GatePanels::straight(const at::Tensor& weight) const {
  const int64_t inputs = weight.size(1), count = (inputs + tile - 1) / tile;
  const at::Tensor grouped = by_group(weight).reshape({rows(), inputs});
  const at::Tensor padded =
      inputs % tile == 0 ? grouped : at::constant_pad_nd(grouped, {0, count * tile - inputs});
  return padded.view({rows(), count, tile}).transpose(0, 1).contiguous();
}

at::Tensor GatePanels::restored(const at::Tensor& transposed) const {
  const int64_t inputs = transposed.size(1);
  const at::Tensor by_gate = transposed.view({groups(), 4, inputs, tile}).permute({1, 0, 3, 2});
  return by_gate.reshape({4, groups() * tile, inputs})
      .narrow(1, 0, hidden)
      .reshape({4 * hidden, inputs})
      .contiguous();
}

}  // namespace dtrain::kernels
