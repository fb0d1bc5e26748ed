#include "train/memory_remedies.h"

#include <algorithm>
#include <cmath>

#include "text/strings.h"

namespace dtrain::train {
namespace {

constexpr double kLeastSaving = 0.01;  // share of what a step needs; less is not worth a line

// The largest of 1/2, 1/4, ... of the micro-batch that saves enough, else one sample.
Remedy smaller_batch(const MemoryNeed& need) {
  const BatchArithmetic& b = need.batches;
  const int64_t samples = largest_micro_batch(b);
  if (samples <= 1) return {};
  const double per_sample =
      (static_cast<double>(need.step.activations) +
       static_cast<double>(need.step.batch) * static_cast<double>(1 + need.read_ahead)) /
      static_cast<double>(samples);
  const auto saving_of = [&](int64_t size) {
    return per_sample * static_cast<double>(samples - size);
  };
  int64_t size = samples / 2;
  while (size > 1 && saving_of(size) < need.missing) size /= 2;
  return {.flags = micro_batch_flags(b, size),
          .saving = saving_of(size),
          .effect = str("trains with the same global batch of ", b.global_batch)};
}

Remedy fewer_activations(const MemoryNeed& need, double activations, std::string flags,
                         std::string effect) {
  if (std::isnan(activations)) return {};
  return {.flags = std::move(flags),
          .saving = static_cast<double>(need.step.activations) - activations,
          .effect = std::move(effect)};
}

Remedy shorter_read_ahead(const MemoryNeed& need) {
  if (need.read_ahead <= 1) return {};
  return {.flags = "--data.prefetch 1",
          .saving = static_cast<double>(need.step.batch) * static_cast<double>(need.read_ahead - 1),
          .effect = "the same training, reading less far ahead"};
}

Remedy without_average(const MemoryNeed& need) {
  if (!need.keeps_average) return {};
  return {.flags = "--train.ema 0",
          .saving = static_cast<double>(need.step.average),
          .effect = "without the average of the weights"};
}

Remedy without_moments(const MemoryNeed& need) {
  if (!need.keeps_moments) return {};
  return {.flags = "--optimizer.name sgd --optimizer.momentum 0",
          .saving = static_cast<double>(need.step.moments),
          .effect = "another optimizer, which needs another learning rate"};
}

}  // namespace

std::vector<Remedy> memory_remedies(const MemoryNeed& need) {
  // From what changes nothing to what changes the training most.
  std::vector<Remedy> all = {
      smaller_batch(need),
      fewer_activations(need, need.activations_checkpointed, "--model.checkpointing true",
                        "the same training, with one more forward pass"),
      shorter_read_ahead(need),
      fewer_activations(need, need.activations_amp, "--amp " + need.amp, "computes in " + need.amp),
      without_average(need),
      without_moments(need),
  };
  std::erase_if(
      all, [&](const Remedy& remedy) { return !(remedy.saving > kLeastSaving * need.total()); });
  for (Remedy& remedy : all) remedy.enough = remedy.saving >= need.missing;
  const auto rest = std::stable_partition(all.begin(), all.end(),
                                          [](const Remedy& remedy) { return remedy.enough; });
  std::stable_sort(rest, all.end(),
                   [](const Remedy& a, const Remedy& b) { return a.saving > b.saving; });
  if (all.size() > kRemedies) all.resize(kRemedies);
  return all;
}

std::string describe(const MemoryNeed& need) {
  const auto bytes = [](double count) { return human_bytes(count); };
  std::vector<std::string> kinds;
  const auto kind = [&](const char* name, double count) {
    if (count > 0) kinds.push_back(str(name, " ", bytes(count)));
  };
  for (const auto& [name, of_step] : kMemoryKinds) {
    if (of_step != &StepMemory::batch) kind(name, static_cast<double>(need.step.*of_step));
  }
  kind("batches", static_cast<double>(need.step.batch) * static_cast<double>(1 + need.read_ahead));
  std::string text =
      str("a step needs about ", bytes(need.total()), " for its tensors (", join(kinds, ", "), ")");
  const std::vector<Remedy> remedies = memory_remedies(need);
  if (remedies.empty())
    return text +
           "; no change of the configuration saves much: use a smaller network or a larger GPU";
  if (need.missing > 0) text += str(", and ", bytes(need.missing), " or more were missing");
  text += ". Predicted savings:";
  for (const Remedy& remedy : remedies) {
    text +=
        str("\n  ", remedy.flags, ": -", bytes(remedy.saving),
            need.missing > 0 && !remedy.enough ? " (not enough alone)" : "", "; ", remedy.effect);
  }
  return text;
}

}  // namespace dtrain::train
