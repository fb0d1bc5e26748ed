#include "kernels/batch_norm_gpu.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "core/check.h"

namespace dtrain::kernels::batch_norm::gpu {
namespace {

using blocks::ChannelJob;
using blocks::ChannelPass;
using blocks::RowTable;
using blocks::TensorJob;
using blocks::TensorPass;

template <typename Job>
void run(LaunchResult (*runner)(const Job&, void*), const Job& job, at::Device device) {
  if (device.is_cpu()) return check_launch(runner(job, nullptr));
  const c10::DeviceGuard guard(device);
  check_launch(
      runner(job, c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle()));
}
void run(const blocks::Runner& runner, const TensorJob& job, at::Device device) {
  run(runner.tensor, job, device);
}
void run(const blocks::Runner& runner, const ChannelJob& job, at::Device device) {
  run(runner.channel, job, device);
}

// The kernels see addresses alone, so what these are is checked here.
void check_place(const at::Tensor& tensor, at::ScalarType dtype, at::Device device) {
  DTRAIN_CHECK(tensor.scalar_type() == dtype && tensor.device() == device, "batch norm got ",
               tensor.scalar_type(), " on ", tensor.device(), ", not ", dtype, " on ", device);
}

// Whether channels are the innermost dimension in memory; so they are if there is one position.
bool is_channels_last(const at::Tensor& x) {
  return x.numel() == x.size(0) * x.size(1) || !x.is_contiguous();
}

RowTable table_of(const at::Tensor& x, const at::Tensor& lengths) {
  const int64_t samples = x.size(0), channels = x.size(1),
                positions = x.numel() / (samples * channels);
  if (lengths.defined()) {
    check_place(lengths, at::kLong, x.device());
    DTRAIN_CHECK(
        lengths.numel() == samples && lengths.is_contiguous() && x.dim() == 3 && x.is_contiguous(),
        "batch norm of ", x.sizes(), " got lengths ", lengths.sizes());
    return {samples, positions, channels, false, lengths.const_data_ptr<int64_t>()};
  }
  if (is_channels_last(x)) return {samples * positions, channels, channels, true, nullptr};
  return {samples, positions, channels, false, nullptr};
}

// Elements of the type of x, as dense and in the same order.
const void* elements_of(const at::Tensor& tensor, const at::Tensor& x) {
  if (!tensor.defined()) return nullptr;
  check_place(tensor, x.scalar_type(), x.device());
  DTRAIN_CHECK(tensor.is_contiguous(x.suggest_memory_format()), "batch norm got strides ",
               tensor.strides());
  return tensor.const_data_ptr();
}
const void* elements_of(const at::Tensor& tensor, at::IntArrayRef sizes, const at::Tensor& x) {
  DTRAIN_CHECK(!tensor.defined() || tensor.sizes() == sizes, "batch norm got ", tensor.sizes(),
               ", not ", sizes);
  return elements_of(tensor, x);
}

// Values per channel [C] in the precision of the arithmetic.
at::ScalarType number_of(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}
const void* channels_of(const at::Tensor& values, const at::Tensor& x) {
  check_place(values, number_of(x), x.device());
  DTRAIN_CHECK(values.numel() == x.size(1) && values.is_contiguous(), "batch norm of ", x.sizes(),
               " got ", values.sizes(), " values per channel");
  return values.const_data_ptr();
}
at::Tensor new_channels(const at::Tensor& x) {
  return at::empty({x.size(1)}, x.options().dtype(number_of(x)));
}

// Jobs are made in this order: the tensors, then the windows, then the grid, which depends on both.
TensorJob job_of(TensorPass pass, const at::Tensor& x, const at::Tensor& lengths,
                 const Affine* affine) {
  TensorJob job;
  job.pass = pass;
  job.type = type_of(x).value();
  job.table = table_of(x, lengths);
  job.x = elements_of(x, x);
  if (affine == nullptr) return job;
  job.mean = channels_of(affine->mean, x);
  job.invstd = channels_of(affine->invstd, x);
  job.weight = channels_of(affine->weight, x);
  job.bias = channels_of(affine->bias, x);
  return job;
}

at::DimVector pooled_sizes(const at::Tensor& x) {
  return {x.size(0), x.size(1), x.size(2) / 2, x.size(3) / 2};
}

// With `all`, windows that reach beyond x too.
void use_windows(TensorJob& job, const at::Tensor& x, const at::Tensor& chosen, bool all) {
  check_place(chosen, at::kByte, x.device());
  DTRAIN_CHECK(
      chosen.sizes() == pooled_sizes(x) && chosen.is_contiguous(at::MemoryFormat::ChannelsLast),
      "max-pooling of ", x.sizes(), " chose ", chosen.sizes());
  job.pooled = true;
  job.chosen = static_cast<uint8_t*>(chosen.mutable_data_ptr());
  job.image_height = x.size(2);
  job.image_width = x.size(3);
  job.windows_down = (x.size(2) + (all ? 1 : 0)) / 2;
  job.windows_across = (x.size(3) + (all ? 1 : 0)) / 2;
  job.table.rows = x.size(0) * job.windows_down * job.windows_across;
}

void choose_grid(TensorJob& job, const at::Tensor& x) {
  const auto widest = static_cast<int64_t>(16 / x.element_size());
  bool wide = job.table.columns % widest == 0 && job.table.lengths == nullptr;
  for (const void* data : {job.x, job.residual, job.y, job.dy, static_cast<const void*>(job.out)}) {
    wide = wide && reinterpret_cast<uintptr_t>(data) % 16 == 0;
  }
  wide = wide && reinterpret_cast<uintptr_t>(job.chosen) % static_cast<uintptr_t>(widest) == 0;
  job.width = wide ? static_cast<int>(widest) : 1;
  job.grid = blocks::grid_of(job.table, job.width);
}

// Runs a job that gives partial sums, and adds them up in `sums`.
void run_sums(const blocks::Runner& runner, TensorJob& job, const at::Tensor& x,
              const at::Tensor& sums, bool has_origin) {
  choose_grid(job, x);
  const int64_t channels = x.size(1);
  const at::Tensor partial = at::empty({2 * job.grid.parts + (has_origin ? 1 : 0), channels},
                                       x.options().dtype(number_of(x)));
  job.partial = partial.mutable_data_ptr();
  if (has_origin) job.origin = partial[2 * job.grid.parts].mutable_data_ptr();
  run(runner, job, x.device());
  ChannelJob totals;
  totals.pass = ChannelPass::kTotals;
  totals.wide = x.scalar_type() == at::kDouble;
  totals.channels = channels;
  totals.sums = sums.mutable_data_ptr<double>();
  totals.partial = job.partial;
  totals.origin = job.origin;
  totals.parts = job.grid.parts;
  totals.table = job.table;
  run(runner, totals, x.device());
}

at::Tensor new_sums(const at::Tensor& x, int64_t count) {
  return at::empty({count}, x.options().dtype(at::kDouble));
}

// A pass over channels, from sums, with values per channel like `values` [C].
ChannelJob channel_job(ChannelPass pass, const at::Tensor& sums, const at::Tensor& values) {
  const int64_t channels = values.numel();
  check_place(sums, at::kDouble, values.device());
  DTRAIN_CHECK(sums.is_contiguous() &&
                   sums.numel() == 2 * channels + (pass == ChannelPass::kStatistics ? 1 : 0),
               "batch norm of ", channels, " channels got ", sums.numel(), " sums");
  ChannelJob job;
  job.pass = pass;
  job.wide = values.scalar_type() == at::kDouble;
  job.channels = channels;
  job.sums = static_cast<double*>(sums.mutable_data_ptr());
  return job;
}

// Runs a job that gives statistics and may move the running ones.
Statistics run_statistics(const blocks::Runner& runner, ChannelJob& job, const Running& running) {
  const at::Device device = running.mean.device();
  for (const at::Tensor& values : {running.mean, running.variance}) {
    check_place(values, running.mean.scalar_type(), device);
    DTRAIN_CHECK(values.is_contiguous(), "running statistics with strides ", values.strides());
  }
  const Statistics result = {at::empty_like(running.mean), at::empty_like(running.mean),
                             at::empty({}, running.mean.options().dtype(at::kDouble))};
  job.eps = running.eps;
  job.mean = result.mean.mutable_data_ptr();
  job.invstd = result.invstd.mutable_data_ptr();
  job.count = result.count.mutable_data_ptr<double>();
  job.running_mean = running.mean.mutable_data_ptr();
  job.running_var = running.variance.mutable_data_ptr();
  run(runner, job, device);
  return result;
}

}  // namespace

std::optional<blocks::Type> type_of(const at::Tensor& x) {
  constexpr std::pair<at::ScalarType, blocks::Type> kTypes[] = {
      {at::kFloat, blocks::Type::kFloat},
      {at::kHalf, blocks::Type::kHalf},
      {at::kBFloat16, blocks::Type::kBFloat16},
      {at::kDouble, blocks::Type::kDouble}};
  for (const auto& [dtype, type] : kTypes) {
    if (dtype == x.scalar_type()) return type;
  }
  return std::nullopt;
}

bool can_pool(const at::Tensor& x) {
  return x.dim() == 4 && x.size(2) >= 2 && x.size(3) >= 2 && !x.is_contiguous() &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) && x.numel() / x.size(1) <= UINT32_MAX;
}

at::Tensor sums(const blocks::Runner& runner, const at::Tensor& x, const at::Tensor& lengths) {
  TensorJob job = job_of(TensorPass::kSums, x, lengths, nullptr);
  const at::Tensor result = new_sums(x, 1 + 2 * x.size(1));
  run_sums(runner, job, x, result, /*has_origin=*/true);
  return result;
}

Statistics statistics(const blocks::Runner& runner, const at::Tensor& sums,
                      const Running& running) {
  ChannelJob job = channel_job(ChannelPass::kStatistics, sums, running.mean);
  job.momentum = running.momentum;
  check_place(running.batches, at::kLong, running.mean.device());
  job.batches = running.batches.mutable_data_ptr<int64_t>();
  return run_statistics(runner, job, running);
}

Statistics fixed_statistics(const blocks::Runner& runner, const Running& running) {
  ChannelJob job;
  job.pass = ChannelPass::kFixedStatistics;
  job.wide = running.mean.scalar_type() == at::kDouble;
  job.channels = running.mean.numel();
  return run_statistics(runner, job, running);
}

NormOutput normalize(const blocks::Runner& runner, const at::Tensor& x, const at::Tensor& lengths,
                     const Affine& affine, const Epilogue& epilogue) {
  TensorJob job = job_of(TensorPass::kNormalize, x, lengths, &affine);
  job.activation = epilogue.activation;
  job.residual = elements_of(epilogue.residual, x.sizes(), x);
  NormOutput out;
  if (epilogue.max_pool) {
    const auto options = x.options().memory_format(at::MemoryFormat::ChannelsLast);
    out.y = at::empty(pooled_sizes(x), options);
    out.chosen = at::empty(pooled_sizes(x), options.dtype(at::kByte));
    use_windows(job, x, out.chosen, /*all=*/false);
  } else {
    out.y = at::empty_like(x);
  }
  job.out = out.y.mutable_data_ptr();
  choose_grid(job, x);
  run(runner, job, x.device());
  return out;
}

at::Tensor gradient_sums(const blocks::Runner& runner, const Saved& saved, at::Tensor& dy) {
  const at::Tensor& x = saved.x;
  const bool pooled = saved.chosen.defined();
  TensorJob job = job_of(TensorPass::kGradientSums, x, saved.lengths, &saved.affine);
  job.activation = saved.activation;
  job.dy = pooled ? elements_of(dy, pooled_sizes(x), x) : elements_of(dy, x.sizes(), x);
  job.y = elements_of(saved.y, x.sizes(), x);
  if (pooled) use_windows(job, x, saved.chosen, /*all=*/false);
  const at::Tensor before_activation = saved.y.defined() ? at::empty_like(x) : at::Tensor();
  if (before_activation.defined()) job.out = before_activation.mutable_data_ptr();
  const at::Tensor result = new_sums(x, 2 * x.size(1));
  run_sums(runner, job, x, result, /*has_origin=*/false);
  if (before_activation.defined()) dy = before_activation;
  return result;
}

ParameterGradients parameter_gradients(const blocks::Runner& runner, const Saved& saved,
                                       const at::Tensor& gradient_sums) {
  const at::Tensor& x = saved.x;
  const ParameterGradients result = {new_channels(x), new_channels(x)};
  ChannelJob job = channel_job(ChannelPass::kParameterGradients, gradient_sums, result.weight);
  job.invstd = const_cast<void*>(channels_of(saved.affine.invstd, x));
  job.weight_gradient = result.weight.mutable_data_ptr();
  job.bias_gradient = result.bias.mutable_data_ptr();
  run(runner, job, x.device());
  return result;
}

at::Tensor input_gradient(const blocks::Runner& runner, const Saved& saved, const at::Tensor& dy,
                          const at::Tensor& gradient_sums, const at::Tensor& count) {
  const at::Tensor& x = saved.x;
  const bool pooled = saved.chosen.defined();
  const at::Tensor slope = new_channels(x), shift = new_channels(x), out = at::empty_like(x);
  check_place(count, at::kDouble, x.device());
  ChannelJob coefficients = channel_job(ChannelPass::kCoefficients, gradient_sums, slope);
  coefficients.invstd = const_cast<void*>(channels_of(saved.affine.invstd, x));
  coefficients.count = const_cast<double*>(count.const_data_ptr<double>());
  coefficients.slope = slope.mutable_data_ptr();
  coefficients.shift = shift.mutable_data_ptr();
  run(runner, coefficients, x.device());

  TensorJob job = job_of(TensorPass::kInputGradient, x, saved.lengths, &saved.affine);
  job.activation = saved.y.defined() ? Activation::kNone : saved.activation;
  job.dy = pooled ? elements_of(dy, pooled_sizes(x), x) : elements_of(dy, x.sizes(), x);
  job.slope = slope.const_data_ptr();
  job.shift = shift.const_data_ptr();
  job.out = out.mutable_data_ptr();
  if (pooled) use_windows(job, x, saved.chosen, /*all=*/true);
  choose_grid(job, x);
  run(runner, job, x.device());
  return out;
}

}  // namespace dtrain::kernels::batch_norm::gpu
