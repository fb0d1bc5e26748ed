#include "kernels/batch_norm_gpu.h"

#include <utility>

#include "core/check.h"
#include "kernels/launch.h"

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
  launch_on(device, [&](void* stream) { return runner(job, stream); });
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

// Runs a job that gives partial sums, and `then`, which adds them up.
void run_sums(const blocks::Runner& runner, TensorJob& job, const at::Tensor& x, bool has_origin,
              ChannelJob then) {
  choose_grid(job, x);
  const at::Tensor partial = at::empty({2 * job.grid.parts + (has_origin ? 1 : 0), x.size(1)},
                                       x.options().dtype(number_of(x)));
  job.partial = partial.mutable_data_ptr();
  if (has_origin) job.origin = partial[2 * job.grid.parts].mutable_data_ptr();
  run(runner, job, x.device());
  then.partial = job.partial;
  then.origin = job.origin;
  then.parts = job.grid.parts;
  then.table = job.table;
  run(runner, then, x.device());
}

// A pass over the channels of x.
ChannelJob channel_job(ChannelPass pass, const at::Tensor& x) {
  ChannelJob job;
  job.pass = pass;
  job.wide = x.scalar_type() == at::kDouble;
  job.channels = x.size(1);
  return job;
}

// Runs a job that gives partial sums, and returns their totals.
at::Tensor totals_of(const blocks::Runner& runner, TensorJob& job, const at::Tensor& x,
                     bool has_origin) {
  const at::Tensor sums =
      at::empty({2 * x.size(1) + (has_origin ? 1 : 0)}, x.options().dtype(at::kDouble));
  ChannelJob totals = channel_job(ChannelPass::kTotals, x);
  totals.sums = sums.mutable_data_ptr<double>();
  run_sums(runner, job, x, has_origin, totals);
  return sums;
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

// Where a job writes statistics, and which running ones it may move.
Statistics place_statistics(ChannelJob& job, const Running& running) {
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
  return result;
}

// Of a batch, too.
Statistics place_batch_statistics(ChannelJob& job, const Running& running) {
  job.momentum = running.momentum;
  check_place(running.batches, at::kLong, running.mean.device());
  job.batches = running.batches.mutable_data_ptr<int64_t>();
  return place_statistics(job, running);
}

ParameterGradients place_parameter_gradients(ChannelJob& job, const Saved& saved) {
  const ParameterGradients result = {new_channels(saved.x), new_channels(saved.x)};
  job.invstd = const_cast<void*>(channels_of(saved.affine.invstd, saved.x));
  job.weight_gradient = result.weight.mutable_data_ptr();
  job.bias_gradient = result.bias.mutable_data_ptr();
  return result;
}

// What the gradient of x needs of each channel.
struct Coefficients {
  at::Tensor slope, shift;
};

Coefficients place_coefficients(ChannelJob& job, const Saved& saved, const at::Tensor& count) {
  check_place(count, at::kDouble, saved.x.device());
  const Coefficients result = {new_channels(saved.x), new_channels(saved.x)};
  job.invstd = const_cast<void*>(channels_of(saved.affine.invstd, saved.x));
  job.count = const_cast<double*>(count.const_data_ptr<double>());
  job.slope = result.slope.mutable_data_ptr();
  job.shift = result.shift.mutable_data_ptr();
  return result;
}

// The pass over x and dy that gives partial sums. `before_activation`: receives what becomes of dy,
// where there is an output.
TensorJob gradient_sums_job(const Saved& saved, const at::Tensor& dy,
                            at::Tensor& before_activation) {
  const at::Tensor& x = saved.x;
  const bool pooled = saved.chosen.defined();
  TensorJob job = job_of(TensorPass::kGradientSums, x, saved.lengths, &saved.affine);
  job.activation = saved.activation;
  job.dy = pooled ? elements_of(dy, pooled_sizes(x), x) : elements_of(dy, x.sizes(), x);
  job.y = elements_of(saved.y, x.sizes(), x);
  if (pooled) use_windows(job, x, saved.chosen, /*all=*/false);
  if (saved.y.defined()) before_activation = at::empty_like(x);
  if (saved.y.defined()) job.out = before_activation.mutable_data_ptr();
  return job;
}

at::Tensor input_gradient_by(const blocks::Runner& runner, const Saved& saved, const at::Tensor& dy,
                             const Coefficients& coefficients) {
  const at::Tensor& x = saved.x;
  const bool pooled = saved.chosen.defined();
  const at::Tensor out = at::empty_like(x);
  TensorJob job = job_of(TensorPass::kInputGradient, x, saved.lengths, &saved.affine);
  job.activation = saved.y.defined() ? Activation::kNone : saved.activation;
  job.dy = pooled ? elements_of(dy, pooled_sizes(x), x) : elements_of(dy, x.sizes(), x);
  job.slope = coefficients.slope.const_data_ptr();
  job.shift = coefficients.shift.const_data_ptr();
  job.out = out.mutable_data_ptr();
  if (pooled) use_windows(job, x, saved.chosen, /*all=*/true);
  choose_grid(job, x);
  run(runner, job, x.device());
  return out;
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
  return totals_of(runner, job, x, /*has_origin=*/true);
}

Statistics statistics_of(const blocks::Runner& runner, const at::Tensor& x,
                         const at::Tensor& lengths, const Running& running) {
  channels_of(running.mean, x);
  TensorJob job = job_of(TensorPass::kSums, x, lengths, nullptr);
  ChannelJob then = channel_job(ChannelPass::kStatistics, x);
  Statistics result = place_batch_statistics(then, running);
  run_sums(runner, job, x, /*has_origin=*/true, then);
  return result;
}

Statistics statistics(const blocks::Runner& runner, const at::Tensor& sums,
                      const Running& running) {
  ChannelJob job = channel_job(ChannelPass::kStatistics, sums, running.mean);
  Statistics result = place_batch_statistics(job, running);
  run(runner, job, running.mean.device());
  return result;
}

Statistics fixed_statistics(const blocks::Runner& runner, const Running& running) {
  ChannelJob job;
  job.pass = ChannelPass::kFixedStatistics;
  job.wide = running.mean.scalar_type() == at::kDouble;
  job.channels = running.mean.numel();
  Statistics result = place_statistics(job, running);
  run(runner, job, running.mean.device());
  return result;
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
  at::Tensor before_activation = dy;
  TensorJob job = gradient_sums_job(saved, dy, before_activation);
  at::Tensor result = totals_of(runner, job, saved.x, /*has_origin=*/false);
  dy = before_activation;
  return result;
}

ParameterGradients parameter_gradients(const blocks::Runner& runner, const Saved& saved,
                                       const at::Tensor& gradient_sums) {
  ChannelJob job =
      channel_job(ChannelPass::kParameterGradients, gradient_sums, saved.affine.invstd);
  ParameterGradients result = place_parameter_gradients(job, saved);
  run(runner, job, saved.x.device());
  return result;
}

at::Tensor input_gradient(const blocks::Runner& runner, const Saved& saved, const at::Tensor& dy,
                          const at::Tensor& gradient_sums, const at::Tensor& count) {
  ChannelJob job = channel_job(ChannelPass::kCoefficients, gradient_sums, saved.affine.invstd);
  const Coefficients coefficients = place_coefficients(job, saved, count);
  run(runner, job, saved.x.device());
  return input_gradient_by(runner, saved, dy, coefficients);
}

NormGradients gradients(const blocks::Runner& runner, const Saved& saved, at::Tensor& dy,
                        const at::Tensor& count, bool of_input) {
  at::Tensor before_activation = dy;
  TensorJob job = gradient_sums_job(saved, dy, before_activation);
  ChannelJob then = channel_job(ChannelPass::kGradients, saved.x);
  const Coefficients coefficients = place_coefficients(then, saved, count);
  NormGradients result = {place_parameter_gradients(then, saved), {}};
  run_sums(runner, job, saved.x, /*has_origin=*/false, then);
  dy = before_activation;
  if (of_input) result.input = input_gradient_by(runner, saved, dy, coefficients);
  return result;
}

}  // namespace dtrain::kernels::batch_norm::gpu
