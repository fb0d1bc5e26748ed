#include "train/clip.h"

namespace dtrain::train {

at::Tensor clip_factor(const at::Tensor& norm, double limit) {
  return at::clamp_max(limit / (norm + 1e-6), 1.0);
}

at::Tensor norm_of(const std::vector<at::Tensor>& flat, at::ScalarType dtype) {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : flat)
    norms.push_back(at::linalg_vector_norm(gradient).to(dtype));
  return norms.size() == 1 ? norms[0] : at::linalg_vector_norm(at::stack(norms));
}

at::Tensor clip(const std::vector<at::Tensor>& flat, const at::Tensor& norm,
                const config::OptimizerConfig& options) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& gradient : flat) {
    if (options.clip_value > 0) gradient.clamp_(-options.clip_value, options.clip_value);
  }
  if (options.clip_norm <= 0) return {};
  return clip_factor(options.clip_value > 0 ? norm_of(flat, norm.scalar_type()) : norm,
                     options.clip_norm);
}

}  // namespace dtrain::train
