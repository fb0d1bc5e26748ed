#include "checkpoint/finite_values.h"

#include <cmath>
#include <vector>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::checkpoint {

std::string not_finite(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return "";
  const at::Tensor values = tensor.detach();
  const auto [least, largest] = values.aminmax();  // NaN is passed on
  if (std::isfinite(least.item<double>()) && std::isfinite(largest.item<double>())) return "";
  const at::Tensor place = at::isfinite(values).logical_not().nonzero()[0].to(at::kCPU);
  at::Tensor value = values;
  std::vector<int64_t> index;
  for (int64_t d = 0; d < place.numel(); ++d) {
    index.push_back(place[d].item<int64_t>());
    value = value[index.back()];
  }
  const auto number = value.item<double>();
  const char* name = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  return index.empty() ? name : dtrain::str(name, " at ", shape_text(index));
}

void check_finite(const at::Tensor& tensor, const std::string& name, const std::string& file) {
  const std::string defect = not_finite(tensor);
  if (defect.empty()) return;
  throw CheckpointError(
      dtrain::str(file, ": tensor '", name, "' has a value that is not finite (", defect,
                  "), and so would be what is computed with it: use another file or checkpoint"));
}

}  // namespace dtrain::checkpoint
