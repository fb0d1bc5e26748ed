#include "train/batch_arithmetic.h"

#include <algorithm>

#include "data/order/shard.h"
#include "text/strings.h"

namespace dtrain::train {
namespace {

// Of the sizes that are `good`, the two nearest to `size` below it and the two above it: "15, 16,
// 18 or 19".
template <typename Good>
std::string nearest_sizes(int64_t size, int64_t most, const Good& good) {
  std::vector<std::string> texts;
  for (int64_t below = size - 1; below >= 1 && texts.size() < 2; --below) {
    if (good(below)) texts.insert(texts.begin(), str(below));
  }
  const size_t limit = texts.size() + 2;
  for (int64_t above = size + 1; above <= most && texts.size() < limit; ++above) {
    if (good(above)) texts.push_back(str(above));
  }
  if (texts.size() < 2) return join(texts, "");
  const std::string last = texts.back();
  texts.pop_back();
  return str(join(texts, ", "), " or ", last);
}

}  // namespace

int64_t micro_steps(int64_t global_batch, int64_t ranks, int64_t batch_size) {
  const int64_t share = (global_batch + ranks - 1) / ranks;
  return (share + batch_size - 1) / batch_size;
}

BatchArithmetic batch_arithmetic(const config::Train& train, int64_t ranks, int64_t samples) {
  BatchArithmetic b;
  b.ranks = ranks;
  b.batch_size = train.batch_size;
  b.samples = samples;
  b.global_batch = train.global_batch > 0
                       ? train.global_batch
                       : train.batch_size * ranks * std::max<int64_t>(1, train.accumulate);
  b.accumulate = micro_steps(b.global_batch, ranks, b.batch_size);
  b.steps_per_epoch = data::steps_per_epoch(samples, b.global_batch);
  b.tail = samples % b.global_batch;
  b.total_steps = train.epochs * b.steps_per_epoch;
  if (train.max_steps > 0) b.total_steps = std::min(b.total_steps, train.max_steps);
  return b;
}

int64_t largest_micro_batch(const BatchArithmetic& b) {
  return data::largest_micro_batch(b.samples, b.batch_size, b.global_batch,
                                   static_cast<int>(b.ranks));
}

std::string describe(const BatchArithmetic& b) {
  std::string text =
      str("global batch ", b.global_batch,
          b.global_batch == b.ranks * b.batch_size * b.accumulate ? " = " : " <= ", b.ranks,
          b.ranks == 1 ? " rank × " : " ranks × ", b.batch_size, " × accumulate ", b.accumulate,
          "; ", human_count(b.steps_per_epoch), b.steps_per_epoch == 1 ? " step" : " steps",
          " per epoch of ", human_count(b.samples), " samples");
  if (b.tail > 0 && b.steps_per_epoch > 1) text += str(", the last one with ", b.tail);
  return text;
}

std::string micro_batch_flags(const BatchArithmetic& b, int64_t batch_size) {
  const int64_t accumulate = micro_steps(b.global_batch, b.ranks, batch_size);
  const bool exact = b.ranks * batch_size * accumulate == b.global_batch;
  return str("--batch-size ", batch_size, " --accumulate ", accumulate,
             exact ? "" : str(" --train.global_batch ", b.global_batch));
}

SingleSamples single_samples(const BatchArithmetic& b) {
  const auto ranks = static_cast<int>(b.ranks);
  const int64_t size = data::division_size(b.batch_size, b.global_batch, ranks);
  const int64_t full = std::min(b.global_batch, b.samples);
  SingleSamples found;
  found.full = data::has_single(full, size, ranks);
  found.tail = b.steps_per_epoch > 1 && b.total_steps >= b.steps_per_epoch &&
               data::has_single(b.tail, size, ranks);
  for (int rank = 0; rank < ranks && found.full && !found.first; ++rank) {
    const data::GlobalBatch step{.epoch = 0, .positions = {0, full}};
    found.first =
        data::training_plan(step, size, {.rank = rank, .size = ranks}).micro[0].size() == 1;
  }
  return found;
}

bool has_pairs(const BatchArithmetic& b) {
  const auto ranks = static_cast<int>(b.ranks);
  const int64_t size = data::division_size(b.batch_size, b.global_batch, ranks);
  const bool has_tail = b.tail > 0 && b.steps_per_epoch > 1 && b.total_steps >= b.steps_per_epoch;
  for (const int64_t samples :
       {std::min(b.global_batch, b.samples), has_tail ? b.tail : int64_t{0}}) {
    const data::GlobalBatch step{.epoch = 0, .positions = {0, samples}};
    for (int rank = 0; rank < ranks && samples > 0; ++rank) {
      const data::MicroPlan plan = data::training_plan(step, size, {.rank = rank, .size = ranks});
      if (std::ranges::any_of(plan.micro,
                              [](const data::Range& range) { return range.size() == 2; }))
        return true;
    }
  }
  return false;
}

std::string flags_without_single_samples(const BatchArithmetic& b, bool keeps_global_batch) {
  const auto good = [&](int64_t batch_size, int64_t global_batch) {
    BatchArithmetic changed = b;
    changed.batch_size = batch_size;
    changed.global_batch = global_batch;
    changed.steps_per_epoch = data::steps_per_epoch(b.samples, global_batch);
    changed.tail = b.samples % global_batch;
    changed.total_steps = changed.steps_per_epoch;
    return !single_samples(changed).any();
  };
  const auto most = [&](int64_t size) { return 2 * size + 4 * b.ranks + 4; };
  const std::string sizes = nearest_sizes(b.batch_size, most(b.batch_size), [&](int64_t size) {
    return good(size, keeps_global_batch ? b.global_batch : size * b.ranks * b.accumulate);
  });
  if (!sizes.empty()) return str("--batch-size ", sizes);
  const std::string globals =
      nearest_sizes(b.global_batch, most(b.global_batch),
                    [&](int64_t global_batch) { return good(b.batch_size, global_batch); });
  return globals.empty() ? "" : str("--train.global_batch ", globals);
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
