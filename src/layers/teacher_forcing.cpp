#include "layers/teacher_forcing.h"

#include <ATen/ATen.h>

#include "kernels/launch.h"
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
    kernels::launch_on(device, [&](void* stream) {
      return draw_forced_on_gpu(forcing, place, from, samples, to, stream);
    });
  } else {
    for (int64_t i = 0; i < samples; ++i) to[i] = place.draw(forcing, from[i]);
  }
  return forced;
}

}  // namespace dtrain::layers
