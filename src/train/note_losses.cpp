#include "train/note_losses.h"

#include <cmath>

#include "core/check.h"
#include "kernels/launch.h"
#include "kernels/step_numbers.h"

namespace dtrain::train {
namespace {

template <typename T>
kernels::LossesOfSamples<T> losses_of(const at::Tensor& losses, const at::Tensor& ids,
                                      const at::Tensor& record) {
  return {losses.const_data_ptr<T>(), ids.const_data_ptr<int64_t>(), losses.numel(),
          record.mutable_data_ptr<int64_t>()};
}

template <typename T>
at::Tensor note_on_cpu(const at::Tensor& losses, const at::Tensor& weight, const at::Tensor& ids,
                       const GradScaler& scaler, int64_t power_of_two, const LossNotes& notes) {
  kernels::note_bad_losses(losses_of<T>(losses, ids, notes.record));
  notes.sums.select(0, 0).add_(losses.sum());
  notes.sums.select(0, 1).add_(weight.reshape({}));
  return scaler.first_gradient(losses.scalar_type(), power_of_two).expand_as(losses);
}

template <typename T>
at::Tensor note_on_gpu(const at::Tensor& losses, const at::Tensor& weight, const at::Tensor& ids,
                       const GradScaler& scaler, int64_t power_of_two, const LossNotes& notes) {
  at::Tensor gradient = at::empty_like(losses);
  const at::Tensor there = weight.is_cuda() ? weight.to(at::kDouble) : at::Tensor();
  const kernels::NotedLosses<T> all{
      .of = losses_of<T>(losses, ids, notes.record),
      .sums = notes.sums.mutable_data_ptr<double>(),
      .weight = there.defined() ? 0 : weight.item<double>(),
      .weight_on_device = there.defined() ? there.const_data_ptr<double>() : nullptr,
      .scale = scaler.scale().const_data_ptr<float>(),
      .power = std::ldexp(1.0, static_cast<int>(-power_of_two)),
      .gradient = gradient.mutable_data_ptr<T>()};
  kernels::launch_on(losses.device(),
                     [&](void* stream) { return note_losses_on_gpu(all, stream); });
  return gradient;
}

template <typename T>
at::Tensor note(const at::Tensor& losses, const at::Tensor& weight, const at::Tensor& ids,
                const GradScaler& scaler, int64_t power_of_two, const LossNotes& notes) {
  return losses.is_cpu() ? note_on_cpu<T>(losses, weight, ids, scaler, power_of_two, notes)
                         : note_on_gpu<T>(losses, weight, ids, scaler, power_of_two, notes);
}

}  // namespace

at::Tensor note_losses(const tasks::Loss& loss, const at::Tensor& ids, const GradScaler& scaler,
                       int64_t power_of_two, const LossNotes& notes) {
  const at::NoGradGuard no_grad;
  const at::Tensor losses = loss.per_sample.detach().contiguous(), of = ids.contiguous();
  const bool is_double = losses.scalar_type() == at::kDouble;
  DTRAIN_CHECK(losses.sizes() == of.sizes() && of.scalar_type() == at::kLong &&
                   (is_double || losses.scalar_type() == at::kFloat) &&
                   of.device() == losses.device() && notes.sums.device() == losses.device(),
               losses.scalar_type(), " losses of shape ", losses.sizes(), " on ", losses.device(),
               " with ids of ", of.sizes(), " on ", of.device());
  return is_double ? note<double>(losses, loss.weight, of, scaler, power_of_two, notes)
                   : note<float>(losses, loss.weight, of, scaler, power_of_two, notes);
}

}  // namespace dtrain::train
