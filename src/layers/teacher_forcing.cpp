#include "layers/teacher_forcing.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "layers/random_context.h"

namespace dtrain::layers {

at::Tensor forced_samples(const RandomContext& key, const TeacherForcing& forcing) {
  const at::Tensor ids = key.sample_ids.contiguous();
  const at::Device device = ids.device();
  const int64_t samples = ids.numel();
  const kernels::ForcingPlace place{place_of(key.seed, device), place_of(key.epoch, device)};
  at::Tensor forced = at::empty({samples}, ids.options().dtype(at::kBool));
  const auto* from = ids.const_data_ptr<int64_t>();
  auto* to = forced.mutable_data_ptr<bool>();
  if (ids.is_cuda()) {
    const c10::DeviceGuard guard(device);
    const c10::Stream stream = c10::impl::VirtualGuardImpl(at::kCUDA).getStream(device);
    kernels::check_launch(
        draw_forced_on_gpu(forcing, place, from, samples, to, stream.native_handle()));
  } else {
    for (int64_t i = 0; i < samples; ++i) to[i] = place.draw(forcing, from[i]);
  }
  return forced;
}

}  // namespace dtrain::layers
