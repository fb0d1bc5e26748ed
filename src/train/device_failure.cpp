#include "train/device_failure.h"

#include "device/device.h"
#include "dist/failure.h"
#include "text/library_text.h"
#include "text/strings.h"

namespace dtrain::train {
namespace {

std::string smaller_batch(const BatchArithmetic& b) {
  if (largest_micro_batch(b) == 1) {
    return "the micro-batch cannot be smaller: use --model.checkpointing true (convolutional "
           "networks), --amp bf16 or fp16, or a smaller network";
  }
  return dtrain::str("use ", micro_batch_flags(b, largest_micro_batch(b) / 2),
                     ", which trains with the same global batch of ", b.global_batch);
}

}  // namespace

std::optional<DeviceFailure> device_failure(const c10::Error& error, const BatchArithmetic& b,
                                            const DeviceState& state, const std::string& where) {
  const at::Device device = state.device;
  const std::string why = dist::first_line(error);
  // First: what a library cannot allocate on a GPU that has failed is not a matter of memory.
  if (dist::says_failed(error) || !state.works) {
    return DeviceFailure{
        DeviceError(dtrain::str(
            device, " has failed ", where, ": ", why,
            ". An earlier kernel may be the cause: CUDA_LAUNCH_BLOCKING=1 shows which. `dmesg` has "
            "the driver's message (Xid); --resume auto continues from the newest checkpoint")),
        /*lost=*/true};
  }
  const std::optional<double> of_host =
      device.is_cpu() ? out_of_host_memory(error.what_without_backtrace()) : std::nullopt;
  if (!of_host && !dist::is_out_of_memory(error)) return std::nullopt;
  // The allocator's message is long, and repeats what is said here; one of a library names
  // the library.
  const bool by_allocator = of_host || why.starts_with("CUDA out of memory");
  const double requested =
      of_host.value_or(bytes_out_of_device_memory(error.what_without_backtrace()));
  const int64_t samples = largest_micro_batch(b);
  const std::string advice = state.advice ? state.advice(requested) : "";
  return DeviceFailure{
      DeviceError(dtrain::str(
          "out of ", of_host ? "host memory" : dtrain::str("memory on ", device),
          requested > 0 ? dtrain::str(" for a tensor of ", human_bytes(requested)) : "",
          " with a micro-batch of ", samples, samples == 1 ? " sample" : " samples",
          by_allocator ? "" : " (" + why + ")", " (peak ",
          human_bytes(static_cast<double>(device::memory_use(device).peak)), " of ",
          human_bytes(state.memory_bytes), "): ", advice.empty() ? smaller_batch(b) : advice)),
      /*lost=*/false};
}

void throw_device_failure(const c10::Error& error, const TrainContext& context,
                          const std::string& where) {
  const std::optional<DeviceFailure> failure =
      device_failure(error, context.batches,
                     {.device = context.device,
                      .memory_bytes = static_cast<double>(context.device_facts.memory_bytes),
                      .works = device::works(context.device),
                      .advice = context.memory_advice},
                     where);
  if (!failure) return;
  // Nothing that belongs to a failed GPU can be freed: that throws again, where nothing catches it.
  if (failure->lost && context.device_failed) context.device_failed(failure->error);
  throw failure->error;
}

}  // namespace dtrain::train
