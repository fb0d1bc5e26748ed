#include "train/batch_arithmetic.h"

#include <algorithm>

#include "core/strings.h"
#include "data/order/shard.h"

namespace dtrain::train {

int64_t micro_steps(int64_t global_batch, int64_t ranks, int64_t batch_size) {
  const int64_t share = (global_batch + ranks - 1) / ranks;
  return (share + batch_size - 1) / batch_size;
}

BatchArithmetic batch_arithmetic(const config::Train& train, int64_t ranks, int64_t samples) {
  BatchArithmetic b;
  b.ranks = ranks;
  b.batch_size = train.batch_size;
  b.samples = samples;
  b.global_batch =
      train.global_batch > 0 ? train.global_batch : train.batch_size * ranks * std::max<int64_t>(1, train.accumulate);
  b.accumulate = micro_steps(b.global_batch, ranks, b.batch_size);
  b.steps_per_epoch = data::steps_per_epoch(samples, b.global_batch);
  b.tail = samples % b.global_batch;
  b.total_steps = train.epochs * b.steps_per_epoch;
  if (train.max_steps > 0) b.total_steps = std::min(b.total_steps, train.max_steps);
  return b;
}

int64_t largest_micro_batch(const BatchArithmetic& b) {
  const int64_t share = (std::min(b.global_batch, b.samples) + b.ranks - 1) / b.ranks;
  return std::max<int64_t>(1, std::min(b.batch_size, share));
}

std::string describe(const BatchArithmetic& b) {
  std::string text = str("global batch ", b.global_batch,
                         b.global_batch == b.ranks * b.batch_size * b.accumulate ? " = " : " <= ", b.ranks,
                         b.ranks == 1 ? " rank × " : " ranks × ", b.batch_size, " × accumulate ", b.accumulate, "; ",
                         human_count(b.steps_per_epoch), b.steps_per_epoch == 1 ? " step" : " steps", " per epoch of ",
                         human_count(b.samples), " samples");
  if (b.tail > 0 && b.steps_per_epoch > 1) text += str(", the last one with ", b.tail);
  return text;
}

std::string micro_batch_flags(const BatchArithmetic& b, int64_t batch_size) {
  const int64_t accumulate = micro_steps(b.global_batch, b.ranks, batch_size);
  const bool exact = b.ranks * batch_size * accumulate == b.global_batch;
  return str("--batch-size ", batch_size, " --accumulate ", accumulate,
             exact ? "" : str(" --train.global_batch ", b.global_batch));
}

data::Splits overfit_splits(const data::Splits& all, int64_t samples, uint64_t seed) {
  const auto count = static_cast<int64_t>(all.train.size());
  data::Splits few;
  for (int64_t i = 0; i < std::min(samples, count); ++i) {
    few.train.push_back(all.train[static_cast<size_t>(data::permuted(i, count, seed))]);
  }
  few.val = few.train;
  return few;
}

}  // namespace dtrain::train
