#include "layers/random_context.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace dtrain::layers {
namespace {

thread_local const RandomContext* current = nullptr;

}  // namespace

RandomContext random_context(uint64_t seed, int64_t step, const at::Tensor& sample_ids,
                             int64_t epoch) {
  const auto number = [&](int64_t value) {
    return at::full({}, value, sample_ids.options().dtype(at::kLong));
  };
  return {.seed = number(static_cast<int64_t>(seed)),
          .step = number(step),
          .sample_ids = sample_ids,
          .epoch = number(epoch)};
}

RandomScope::RandomScope(RandomContext context) : outer_(current), context_(std::move(context)) {
  current = &context_;
}
RandomScope::~RandomScope() { current = outer_; }

const RandomContext* current_random_context() { return current; }

const int64_t* place_of(const at::Tensor& number, at::Device device) {
  DTRAIN_CHECK(number.defined() && number.scalar_type() == at::kLong && number.numel() == 1 &&
                   number.device() == device,
               "the RandomContext has no int64 number on ", device);
  return number.const_data_ptr<int64_t>();
}

at::Tensor ids_on(at::Device device, const std::vector<int64_t>& ids) {
  const auto options = at::TensorOptions().dtype(at::kLong).pinned_memory(device.is_cuda());
  const at::Tensor host = at::empty({static_cast<int64_t>(ids.size())}, options);
  std::copy(ids.begin(), ids.end(), host.mutable_data_ptr<int64_t>());
  return host.to(device, /*non_blocking=*/true);
}

}  // namespace dtrain::layers
