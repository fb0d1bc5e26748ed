#include "train/norm_buffers.h"

namespace dtrain::train {

checkpoint::NamedTensors copy_buffers(const torch::nn::Module& module, const std::string& prefix) {
  checkpoint::NamedTensors copies;
  for (const auto& buffer : module.named_buffers()) {
    copies.emplace_back(
        prefix + buffer.key(),
        buffer.value().detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
  return copies;
}

AveragedBuffers::AveragedBuffers(torch::nn::Module& module, dist::Communicator& host,
                                 int64_t samples_seen)
    : module_(module) {
  if (host.size() == 1) return;
  local_ = copy_buffers(module);
  if (local_.empty()) return;

  const at::NoGradGuard no_grad;
  const auto weight = static_cast<double>(samples_seen);
  std::vector<at::Tensor> statistics = {at::full({1}, weight, at::kDouble)}, counters;
  for (const auto& [name, tensor] : local_) {
    const at::Tensor flat = tensor.reshape({-1});
    if (tensor.is_floating_point()) {
      // A rank of weight 0 adds zeros, because 0 × infinity would be NaN.
      statistics.push_back(samples_seen > 0 ? flat.to(at::kDouble) * weight
                                            : at::zeros(flat.sizes(), at::kDouble));
    } else {
      counters.push_back(flat.to(at::kLong));  // also flags
    }
  }
  at::Tensor sums = at::cat(statistics);
  host.all_reduce(sums, dist::ReduceOp::kSum).wait();
  at::Tensor counts = counters.empty() ? at::zeros({1}, at::kLong) : at::cat(counters).contiguous();
  host.all_reduce(counts, dist::ReduceOp::kMax).wait();

  // Before the first sample all ranks have the initial values, which stay.
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
  try {
    const at::NoGradGuard no_grad;
    size_t i = 0;
    for (const auto& buffer : module_.named_buffers()) {
      if (i < local_.size()) buffer.value().detach().copy_(local_[i++].second);
    }
  } catch (const c10::Error&) {
    // The device has failed, and the next operation on it says so: a destructor cannot.
  }
}

}  // namespace dtrain::train
