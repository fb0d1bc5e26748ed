#include "layers/dropout.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "layers/dropout_mask.h"
#include "layers/intra_op.h"

namespace dtrain::layers {
namespace {

thread_local const RandomContext* current = nullptr;

void fill_mask_on_cpu(const DropoutKey& key, float p, const int64_t* ids, int64_t samples, int64_t elements,
                      uint8_t* mask) {
  intra_op_for(0, samples, 1 + 4096 / (1 + elements), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const uint64_t sample = sample_key(key, ids[b]);
      for (int64_t e = 0; e < elements; ++e) mask[b * elements + e] = keeps(sample, e, p) ? 1 : 0;
    }
  });
}

// [B, ...] uint8 in C order, on the device of `input`.
at::Tensor keep_mask(const at::Tensor& input, double p, const RandomContext& context, int64_t layer) {
  const int64_t samples = input.size(0);
  const int64_t elements = samples == 0 ? 0 : input.numel() / samples;
  const at::Tensor ids = context.sample_ids.contiguous();
  at::Tensor mask = at::empty(input.sizes(), ids.options().dtype(at::kByte));
  const DropoutKey key{context.seed, context.step, layer};
  if (input.is_cuda()) {
    const c10::DeviceGuard guard(input.device());
    const c10::Stream stream = c10::impl::VirtualGuardImpl(at::kCUDA).getStream(input.device());
    fill_dropout_mask_on_gpu(key, static_cast<float>(p), ids.const_data_ptr<int64_t>(), samples, elements,
                             mask.mutable_data_ptr<uint8_t>(), stream.native_handle());
  } else {
    fill_mask_on_cpu(key, static_cast<float>(p), ids.const_data_ptr<int64_t>(), samples, elements,
                     mask.mutable_data_ptr<uint8_t>());
  }
  return mask;
}

}  // namespace

RandomScope::RandomScope(RandomContext context) : outer_(current), context_(std::move(context)) { current = &context_; }
RandomScope::~RandomScope() { current = outer_; }

const RandomContext* current_random_context() { return current; }

at::Tensor keyed_dropout(const at::Tensor& input, double p, int64_t layer) {
  DTRAIN_CHECK(p >= 0 && p < 1, "p is ", p);
  if (p == 0) return input;
  if (current == nullptr)
    throw Error("keyed dropout needs the step and the sample ids: open a RandomScope around forward");
  const at::Tensor& ids = current->sample_ids;
  DTRAIN_CHECK(ids.defined() && ids.scalar_type() == at::kLong && ids.dim() == 1 && ids.size(0) == input.size(0) &&
                   ids.device() == input.device(),
               "the RandomScope's sample_ids do not fit an input of shape ", input.sizes(), " on ", input.device());
  // Like torch's dropout, rounds the scale to the input's precision. The gradient is the same product.
  return input * keep_mask(input, p, *current, layer).to(input.scalar_type()).mul_(1 / (1 - p));
}

at::Tensor KeyedDropoutImpl::forward(const at::Tensor& x) { return drops() ? keyed_dropout(x, p_, layer_) : x; }

at::Tensor KeyedDropoutImpl::forward_time_first(const at::Tensor& x) {
  return drops() ? keyed_dropout(x.transpose(0, 1), p_, layer_).transpose(0, 1).contiguous() : x;
}

at::Tensor ids_on(at::Device device, const std::vector<int64_t>& ids) {
  const auto options = at::TensorOptions().dtype(at::kLong).pinned_memory(device.is_cuda());
  const at::Tensor host = at::empty({static_cast<int64_t>(ids.size())}, options);
  std::copy(ids.begin(), ids.end(), host.mutable_data_ptr<int64_t>());
  return host.to(device, /*non_blocking=*/true);
}

}  // namespace dtrain::layers
