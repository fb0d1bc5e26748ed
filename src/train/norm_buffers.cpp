#include "train/norm_buffers.h"

namespace dtrain::train {

checkpoint::NamedTensors copy_buffers(const torch::nn::Module& module, const std::string& prefix) {
  checkpoint::NamedTensors copies;
  for (const auto& buffer : module.named_buffers()) {
    copies.emplace_back(prefix + buffer.key(),
                        buffer.value().detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
  return copies;
}

AveragedBuffers::AveragedBuffers(torch::nn::Module& module, dist::Communicator& host, int64_t samples_seen)
    : module_(module) {
  if (host.size() == 1) return;
  local_ = copy_buffers(module);
  if (local_.empty()) return;

  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> statistics, counters;
  for (const auto& [name, tensor] : local_) {
    (tensor.is_floating_point() ? statistics : counters).push_back(tensor.reshape({-1}));
  }
  const auto weight = static_cast<double>(samples_seen);
  std::vector<at::Tensor> parts = {at::full({1}, weight, at::kDouble)};
  for (const at::Tensor& tensor : statistics) parts.push_back(tensor.to(at::kDouble) * weight);
  at::Tensor sums = at::cat(parts);
  host.all_reduce(sums, dist::ReduceOp::kSum).wait();
  at::Tensor counts = counters.empty() ? at::zeros({1}, at::kLong) : at::cat(counters).contiguous();
  host.all_reduce(counts, dist::ReduceOp::kMax).wait();

  // Before the first sample all ranks hold the initial values: keep them.
  if (sums[0].item<double>() == 0) return;
  const at::Tensor means = sums / sums[0];
  int64_t at = 1, count = 0;
  for (const auto& buffer : module.named_buffers()) {
    const at::Tensor& tensor = buffer.value();
    if (tensor.is_floating_point()) {
      tensor.detach().copy_(means.slice(0, at, at + tensor.numel()).view(tensor.sizes()));
      at += tensor.numel();
    } else {
      tensor.detach().copy_(counts.slice(0, count, count + tensor.numel()).view(tensor.sizes()));
      count += tensor.numel();
    }
  }
}

AveragedBuffers::~AveragedBuffers() {
  const at::NoGradGuard no_grad;
  size_t i = 0;
  for (const auto& buffer : module_.named_buffers()) {
    if (i < local_.size()) buffer.value().detach().copy_(local_[i++].second);
  }
}

}  // namespace dtrain::train
