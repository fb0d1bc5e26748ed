#include "layers/norm_kernels.h"

#include <array>
#include <memory>
#include <mutex>

#include "core/log.h"
#include "kernels/batch_norm_gpu.h"
#include "layers/batch_norm_check.h"
#include "text/strings.h"

namespace dtrain::layers {
namespace {

using kernels::batch_norm::blocks::Runner;

// Kernels, and whether they have been compared for each of their types.
class ComparedKernels {
 public:
  explicit ComparedKernels(const NormKernels& kernels) : kernels_(kernels) {}

  bool are(const NormKernels& others) const { return kernels_ == others; }

  const Runner* runner_for(const at::Tensor& x) {
    const auto type = kernels::batch_norm::gpu::type_of(x);
    if (!type || x.numel() == 0 || x.device().type() != kernels_.device) return nullptr;
    if (x.scalar_type() == at::kDouble && !x.is_cpu()) return nullptr;
    Type& of = types_[static_cast<size_t>(*type)];
    std::call_once(of.compared, [&] { of.right = are_right(x.device(), x.scalar_type()); });
    return of.right ? &kernels_.runner : nullptr;
  }

 private:
  struct Type {
    std::once_flag compared;
    bool right = false;
  };

  bool are_right(at::Device device, at::ScalarType dtype) const {
    const auto found = batch_norm::disagreement(kernels_.runner, device, dtype);
    if (!found) return true;
    log::warning(dtrain::str("dtrain's own kernels of batch norm cannot be used on ", device,
                             " for ", c10::toString(dtype), ": ", *found,
                             ". LibTorch's operators take their place, and training is slower. "
                             "Please report this with the name of the GPU; "
                             "--device.fused_norm false avoids this message"));
    return false;
  }

  const NormKernels kernels_;
  std::array<Type, 4> types_;  // one per blocks::Type
};

std::unique_ptr<ComparedKernels>& current() {
  static auto kernels = std::make_unique<ComparedKernels>(NormKernels{});
  return kernels;
}

}  // namespace

void use_norm_kernels(const std::optional<NormKernels>& kernels) {
  if (kernels && current() != nullptr && current()->are(*kernels)) return;
  current() = kernels ? std::make_unique<ComparedKernels>(*kernels) : nullptr;
}

const Runner* norm_runner(const at::Tensor& x) {
  ComparedKernels* kernels = current().get();
  return kernels == nullptr ? nullptr : kernels->runner_for(x);
}

}  // namespace dtrain::layers
