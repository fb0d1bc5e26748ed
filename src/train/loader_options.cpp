#include "train/loader_options.h"

namespace dtrain::train {

data::LoaderOptions loader_options(const config::Config& config, const BatchArithmetic& batches,
                                   int threads, at::Device device) {
  const bool overfits = config.train.overfit_batches > 0;  // the same batches again and again
  return {.batch_size = batches.batch_size,
          .global_batch = batches.global_batch,
          .avoid_single = true,
          .shuffle = !overfits,
          .augment = !overfits,
          .seed = config.train.seed,
          .threads = threads,
          .prefetch = static_cast<int>(config.data.prefetch),
          .verify = verify_of(config.data, /*first=*/true),
          .skip_bad = config.data.skips_bad_samples(),
          .device = device,
          .length_classes = config.data.length_classes};
}

data::Verify verify_of(const config::Data& data, bool first) {
  if (data.verify == config::VerifyMode::kTrue) return data::Verify::kAlways;
  return first && data.verify == config::VerifyMode::kFirstEpoch ? data::Verify::kFirstEpoch
                                                                 : data::Verify::kNever;
}

}  // namespace dtrain::train
