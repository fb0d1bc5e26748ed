#include "layers/dropout.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>

#include "core/check.h"
#include "kernels/dropout_mask.h"
#include "kernels/intra_op.h"
#include "kernels/launch.h"

namespace dtrain::layers {
namespace {

using kernels::DropoutKey;
using kernels::DropoutKeyPlace;

void fill_mask_on_cpu(const DropoutKey& key, float p, const int64_t* ids, int64_t samples,
                      int64_t elements, uint8_t* mask) {
  kernels::intra_op_for(0, samples, 1 + 4096 / (1 + elements), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const uint64_t sample = sample_key(key, ids[b]);
      for (int64_t e = 0; e < elements; ++e)
        mask[b * elements + e] = kernels::keeps(sample, e, p) ? 1 : 0;
    }
  });
}

DropoutKeyPlace key_in(const RandomContext& context, at::Device device, int64_t layer) {
  return {place_of(context.seed, device), place_of(context.step, device), layer};
}

// [B, ...] uint8 in C order, on the CPU.
at::Tensor keep_mask(const at::Tensor& input, double p, const RandomContext& context,
                     int64_t layer) {
  const int64_t samples = input.size(0);
  const at::Tensor ids = context.sample_ids.contiguous();
  at::Tensor mask = at::empty(input.sizes(), ids.options().dtype(at::kByte));
  fill_mask_on_cpu(key_in(context, at::kCPU, layer).read(), static_cast<float>(p),
                   ids.const_data_ptr<int64_t>(), samples,
                   samples == 0 ? 0 : input.numel() / samples, mask.mutable_data_ptr<uint8_t>());
  return mask;
}

// [B, ...] in C order, scaled, of the type of `input` on its GPU: the factor of dropped().
at::Tensor scaled_mask(const at::Tensor& input, double p, const RandomContext& context,
                       int64_t layer) {
  const int64_t samples = input.size(0), elements = samples == 0 ? 0 : input.numel() / samples;
  const at::Tensor ids = context.sample_ids.contiguous();
  at::Tensor mask = at::empty(input.sizes(), input.options().requires_grad(false));
  const DropoutKeyPlace key = key_in(context, input.device(), layer);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, input.scalar_type(), "dropout", [&] {
    kernels::launch_on(input.device(), [&](void* stream) {
      return kernels::fill_dropout_mask_on_gpu(
          key, static_cast<float>(p), ids.const_data_ptr<int64_t>(), samples, elements,
          static_cast<scalar_t>(static_cast<at::opmath_type<scalar_t>>(1 / (1 - p))),
          mask.mutable_data_ptr<scalar_t>(), stream);
    });
  });
  return mask;
}

// [N, C] uint8: that of the row of step t of a sample has its elements from t * C on.
at::Tensor packed_keep_mask(const at::Tensor& rows, const PackedSteps& steps, double p,
                            const RandomContext& context, int64_t layer) {
  const int64_t width = rows.size(1);
  const at::Tensor mask =
      at::empty(rows.sizes(), rows.options().dtype(at::kByte).requires_grad(false));
  const DropoutKey key = key_in(context, at::kCPU, layer).read();
  const at::Tensor sample_ids = context.sample_ids.contiguous();
  const auto* ids = sample_ids.const_data_ptr<int64_t>();
  auto* kept = mask.mutable_data_ptr<uint8_t>();
  const auto fill = [&](int64_t sequence) {
    const uint64_t sample = sample_key(key, ids[steps.order[static_cast<size_t>(sequence)]]);
    int64_t row = sequence, element = 0;
    for (const int64_t count : steps.counts) {
      if (count <= sequence) return;
      for (int64_t i = 0; i < width; ++i, ++element) {
        kept[row * width + i] = kernels::keeps(sample, element, static_cast<float>(p)) ? 1 : 0;
      }
      row += count;
    }
  };
  const auto sequences = static_cast<int64_t>(steps.order.size());
  kernels::intra_op_for(0, sequences, 1 + 4096 * sequences / (1 + rows.numel()),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t sequence = begin; sequence < end; ++sequence) fill(sequence);
                        });
  return mask;
}

// Like torch's dropout, rounds the scale to the input's precision. The gradient is the
// same product.
at::Tensor dropped(const at::Tensor& input, const at::Tensor& mask, double p) {
  return input * mask.to(input.scalar_type()).mul_(1 / (1 - p));
}

const RandomContext& context_for(int64_t samples, const at::Tensor& input) {
  const RandomContext* current = current_random_context();
  if (current == nullptr)
    throw Error(
        "keyed dropout needs the step and the sample ids: open a RandomScope around forward");
  const at::Tensor& ids = current->sample_ids;
  DTRAIN_CHECK(ids.defined() && ids.scalar_type() == at::kLong && ids.dim() == 1 &&
                   ids.size(0) == samples && ids.device() == input.device(),
               "the RandomScope's sample_ids do not fit ", samples,
               " samples of an input of shape ", input.sizes(), " on ", input.device());
  return *current;
}

}  // namespace

at::Tensor keyed_dropout(const at::Tensor& input, double p, int64_t layer) {
  DTRAIN_CHECK(p >= 0 && p < 1, "p is ", p);
  if (p == 0) return input;
  const RandomContext& context = context_for(input.size(0), input);
  return input.is_cuda() ? input * scaled_mask(input, p, context, layer)
                         : dropped(input, keep_mask(input, p, context, layer), p);
}

at::Tensor KeyedDropoutImpl::forward(const at::Tensor& x) {
  return drops() ? keyed_dropout(x, p_, layer_) : x;
}

at::Tensor KeyedDropoutImpl::forward_time_first(const at::Tensor& x) {
  return drops() ? keyed_dropout(x.transpose(0, 1), p_, layer_).transpose(0, 1).contiguous() : x;
}

at::Tensor KeyedDropoutImpl::forward_packed(const at::Tensor& x, const PackedSteps& steps) {
  if (!drops()) return x;
  const RandomContext& context = context_for(static_cast<int64_t>(steps.order.size()), x);
  return dropped(x, packed_keep_mask(x, steps, p_, context, layer_), p_);
}

}  // namespace dtrain::layers
