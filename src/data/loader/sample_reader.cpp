#include "data/loader/sample_reader.h"

#include <cstring>
#include <exception>

#include "data/loader/sample_check.h"
#include "text/strings.h"

namespace dtrain::data {

SampleReader::SampleReader(const Store& store, const SampleSpec& spec, ReadOptions options,
                           trace::Track* track)
    : store_(store), schema_(store.schema()), spec_(spec), options_(options), track_(track) {
  if (spec.kind != SampleSpec::Kind::kImage) return;
  check_images(store);
  shape_ = {schema_.input.shape[0], schema_.input.shape[1]};
  augmenter_ = std::make_unique<Augmenter>(spec, shape_);
  image_.resize(static_cast<size_t>(shape_.bytes()));
}

void SampleReader::read(PendingBatch& job, int64_t item, bool few) {
  const int64_t id = job.batch.ids[static_cast<size_t>(item)];
  StageClock clock(counters_, few, track_, {job.batch.step, job.batch.micro, id}, *options_.clock);
  try {
    if (augmenter_) {
      read_image(job, item, id, clock);
    } else {
      read_rows(job, item, id, clock);
    }
  } catch (const DataError& error) {  // the message already names FILE#SAMPLE
    leave_out(job, item, error.what());
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    leave_out(job, item, str(store_.origin().name(id), ": cannot be read: ", error.what()));
  }
}

void SampleReader::read_image(PendingBatch& job, int64_t item, int64_t id, StageClock& clock) {
  const SampleAugment augment = options_.augment
                                    ? draw(spec_, options_.seed, job.batch.epoch, id, shape_)
                                    : centre_crop(shape_, spec_.centre_share);
  // Must come before anything that can throw: the device processes this sample even if it is left
  // out later.
  if (job.augments) std::memcpy(job.augments + item * sizeof(augment), &augment, sizeof(augment));
  const std::span<std::byte> pixels =
      job.inputs ? job.input_place(item) : std::as_writable_bytes(std::span(image_));
  store_.read_input(id, pixels);
  const std::span<std::byte> target = read_target(job, item, id);
  counters_.add_sample(static_cast<int64_t>(pixels.size() + target.size()));
  clock.has_read();
  if (options_.verify == Verify::kAlways) compare_checksum(id, pixels, target);
  refuse_bad_target(id, target);
  compare_within_budget(job.batch.epoch, id, pixels, target);
  number_classes(target);
  clock.has_decoded();
  if (augment.flip) {
    // float32 if there are signs, see check_loadable()
    auto* values = reinterpret_cast<float*>(target.data());
    for (size_t i = 0; i < spec_.target_flip_sign.size(); ++i)
      values[i] *= spec_.target_flip_sign[i];
  }
  if (!job.augments) {
    (*augmenter_)(image_.data(), augment,
                  job.batch.inputs.data_ptr<float>() + item * job.batch.inputs.stride(0));
    clock.has_augmented();
  }
}

void SampleReader::read_rows(PendingBatch& job, int64_t item, int64_t id, StageClock& clock) {
  job.lengths[item] = length_of(store_, id);
  refuse(id, length_defect(store_, spec_, id));
  const std::span<std::byte> all = job.input_place(item);
  const std::span<std::byte> input = all.first(static_cast<size_t>(store_.input_bytes(id)));
  store_.read_input(id, input);
  const std::span<std::byte> target = read_target(job, item, id);
  counters_.add_sample(static_cast<int64_t>(input.size() + target.size()));
  clock.has_read();
  std::memset(all.data() + input.size(), 0, all.size() - input.size());
  if (options_.verify == Verify::kAlways) compare_checksum(id, input, target);
  refuse_bad_target(id, target);
  const std::span values(reinterpret_cast<const float*>(input.data()),
                         input.size() / sizeof(float));
  if (const int64_t bad = first_not_finite(values); bad >= 0) {
    const int64_t columns = schema_.input.shape.back();
    refuse(id, str("row ", bad / columns, ", column ", bad % columns, " is ",
                   values[static_cast<size_t>(bad)]));
  }
  compare_within_budget(job.batch.epoch, id, input, target);
  number_classes(target);
  clock.has_decoded();
}

std::span<std::byte> SampleReader::read_target(PendingBatch& job, int64_t item, int64_t id) const {
  const std::span<std::byte> all = job.target_place(item);
  const std::span<std::byte> target = all.first(static_cast<size_t>(store_.target_bytes(id)));
  store_.read_target(id, target);
  // int64 -1, see storable_target()
  std::memset(all.data() + target.size(), 0xff, all.size() - target.size());
  return target;
}

void SampleReader::compare_checksum(int64_t id, std::span<const std::byte> input,
                                    std::span<const std::byte> target) const {
  if (sample_checksum(input, target) != store_.checksum(id)) {
    throw DataError(
        str(store_.origin().name(id),
            ": the checksum does not match: the file has changed since it was written (",
            store_.origin().source(id),
            "). Restore it from a copy, or make it again with `dtrain convert`. If it was changed "
            "on purpose, ",
            "--data.verify false reads it as it is."));
  }
}

void SampleReader::compare_within_budget(int64_t epoch, int64_t id,
                                         std::span<const std::byte> input,
                                         std::span<const std::byte> target) {
  if (options_.verify != Verify::kFirstEpoch || options_.skip_bad ||
      epoch != options_.verified_epoch)
    return;
  const auto begin = options_.clock->now();
  const bool allowed = budget_.allows(begin);
  counters_.add_comparison(allowed);
  if (!allowed) return;
  compare_checksum(id, input, target);
  budget_.spend(options_.clock->now() - begin);
}

// Without skip_bad, check_samples() has checked the whole file.
void SampleReader::refuse_bad_target(int64_t id, std::span<const std::byte> target) const {
  if (!options_.skip_bad || !options_.check_targets) return;
  refuse(id, target_defect(spec_, schema_.target.element, target, length_of(store_, id)));
}

// After the checksum was compared, which is of the numbers in the file.
void SampleReader::number_classes(std::span<std::byte> target) const {
  const std::vector<int64_t>& numbers = spec_.class_numbers;
  if (numbers.empty() || schema_.target.element != Element::kInt64) return;
  for (int64_t& value :
       std::span(reinterpret_cast<int64_t*>(target.data()), target.size() / sizeof(int64_t))) {
    const bool is_class = value >= 0 && value < static_cast<int64_t>(numbers.size());
    if (is_class)
      value = numbers[static_cast<size_t>(value)];  // others are reported, if that is wanted
  }
}

void SampleReader::leave_out(PendingBatch& job, int64_t item, const std::string& message) const {
  if (!options_.skip_bad) throw DataError(message);
  job.leave_out(item, message);
}

void SampleReader::refuse(int64_t id, const std::string& what) const {
  if (!what.empty()) throw DataError(bad_sample(store_, id, what, options_.skip_bad));
}

}  // namespace dtrain::data
