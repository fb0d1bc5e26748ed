// The loader connects micro_batches.h (which samples), read_ahead.h (the threads), sample_reader.h
// (reads one sample), pending_batch.h (the batch that they fill), host_blocks.h and device_stage.h
// (its way to a device) and bad_samples.h (samples left out).

#include "data/loader/loader.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "core/check.h"
#include "data/loader/bad_samples.h"
#include "data/loader/batch_tensors.h"
#include "data/loader/device_stage.h"
#include "data/loader/host_blocks.h"
#include "data/loader/pending_batch.h"
#include "data/loader/read_ahead.h"
#include "data/loader/sample_check.h"
#include "data/loader/sample_reader.h"
#include "data/order/micro_batches.h"

namespace dtrain::data {
namespace {

void check_loadable(const Store& store, const std::vector<int64_t>& ids, const SampleSpec& spec,
                    const LoaderOptions& options, Shard shard) {
  const std::string file = store.origin().path().string();
  const Schema& schema = store.schema();
  const bool rows = spec.kind == SampleSpec::Kind::kRows;
  DTRAIN_CHECK(options.batch_size > 0 && options.global_batch > 0, "batch ", options.batch_size,
               ", global ", options.global_batch);
  DTRAIN_CHECK(0 <= shard.rank && shard.rank < shard.size, "shard ", shard.rank, " of ",
               shard.size);
  if (!rows) {
    check_images(store);
  } else if (schema.input.element != Element::kFloat32 || !storable_input(schema.input)) {
    throw DataError(str(file, ": samples of ", text_of(schema.input),
                        " are not rows of float32. Make the file with `dtrain convert`."));
  }
  if (ids.empty()) {
    throw DataError(str(
        file,
        ": no samples to load: the split is empty. Choose another file, or change its splits."));
  }
  for (const int64_t id : ids) {
    if (id < 0 || id >= schema.samples) {
      throw DataError(str(file, "#", id, ": the split names a sample outside 0 to ",
                          schema.samples - 1,
                          ". The file is damaged: make it again with `dtrain convert`."));
    }
  }
  const auto signs = static_cast<int64_t>(spec.target_flip_sign.size());
  const int64_t expected =
      schema.target.element == Element::kFloat32 ? schema.target.row_elements() : 0;
  if (!rows && options.augment && spec.hflip && signs != expected) {
    throw DataError(str(file, ": targets are ", text_of(schema.target),
                        ": a flip needs a sign for each of ", expected,
                        " elements, but the task gives ", signs, ". The file is for another task (",
                        schema.task, ")."));
  }
}

OrderOptions order_options(const LoaderOptions& options, const SampleSpec& spec) {
  return {.batch_size = options.batch_size,
          .global_batch = options.global_batch,
          .steps = options.steps,
          .shuffle = options.shuffle,
          .seed = options.seed,
          .length_window = spec.length_window,
          .avoid_single = options.avoid_single};
}

std::function<int64_t(int64_t)> lengths(const Store& store, const SampleSpec& spec) {
  if (spec.kind != SampleSpec::Kind::kRows) return nullptr;
  return [&store](int64_t id) { return length_of(store, id); };
}

ReadOptions read_options(const LoaderOptions& options) {
  return {.augment = options.augment,
          .seed = options.seed,
          .verify = options.verify,
          .verified_epoch = options.verified_epoch,
          .skip_bad = options.skip_bad,
          .check_targets = options.check_targets,
          .clock = options.clock};
}

Batch without_tensors(MicroBatch micro) {
  Batch batch;
  batch.rows = micro.rows;
  batch.ids = std::move(micro.ids);
  batch.epoch = micro.epoch;
  batch.step = micro.at.step;
  batch.micro = micro.at.micro;
  batch.micro_steps = micro.micro_steps;
  batch.global_samples = micro.global_samples;
  return batch;
}

}  // namespace

LoaderOptions one_pass(int64_t samples, int64_t batch_size, int ranks) {
  const int64_t global_batch = batch_size * ranks;
  return {.batch_size = batch_size,
          .global_batch = global_batch,
          .steps = steps_per_epoch(samples, global_batch),
          .shuffle = false,
          .augment = false};
}

class Loader::Impl {
 public:
  Impl(const Store& store, std::vector<int64_t> ids, SampleSpec spec, LoaderOptions options,
       Shard shard, std::unique_ptr<DeviceStage> stage)
      : store_(store),
        spec_(std::move(spec)),
        options_(options),
        plan_(std::move(ids), order_options(options_, spec_), shard, lengths(store, spec_)),
        length_classes_(classes_of(plan_)),
        bad_samples_(store, length_classes_),
        stage_(std::move(stage)) {
    const std::vector<int64_t>& shape = store.schema().input.shape;
    const ImageShape image =
        spec_.kind == SampleSpec::Kind::kImage ? ImageShape{shape[0], shape[1]} : ImageShape{};
    // 0 if batches differ in size: then their buffers grow with the first long batches.
    const int64_t expected =
        store.schema().input.variable()
            ? 0
            : packed(std::vector(size_t(plan_.largest()), plan_.any_id())).bytes();
    if (!stage_ && !options_.device.is_cpu()) {
      stage_ = make_device_stage(options_.device, {spec_, image, plan_.largest(), expected});
    }
    if (stage_) blocks_.emplace(*stage_, std::max(1, options_.prefetch) + 2, expected);
    for (int i = 0; i < std::max(1, options_.threads); ++i) {
      trace::Track* track =
          options_.recorder ? options_.recorder->track(str("loader ", i), trace::kLoaderPlace + i)
                            : nullptr;
      readers_.emplace_back(store_, spec_, read_options(options_), track);
    }
    if (options_.static_buffers) buffers_.emplace(spec_.image_size, options_.device);
    if (options_.recorder) ready_ = options_.recorder->track(trace::kCounters, 0);
    pool_ = std::make_unique<Pool>(
        options_.threads, options_.prefetch,
        Pool::Functions{[this] { return make(); },
                        [this](PendingBatch& job, int64_t item, Pool::Worker worker) {
                          readers_[static_cast<size_t>(worker.thread)].read(job, item, worker.few);
                        }},
        options_.compare_readers, *options_.clock);
  }

  Batch next(const std::function<void()>& arrived, const std::function<void()>& copied) {
    DTRAIN_CHECK(!done(), "Loader::next() after the last of ", options_.steps, " optimizer steps");
    if (stage_ && blocks_->reclaim()) pool_->wake();
    if (ready_ && ready_->on()) note_ready();
    PendingBatch& front = pool_->front();
    if (stage_ && front.items() > 0) {
      if (arrived) arrived();
      if (!front.begun) begin_copy(front);
      BatchTensors into = buffers_ ? buffers_->of(front.packed)
                                   : make_tensors(front.packed, spec_.image_size, options_.device);
      stage_->finish(copied, into);
      put(std::move(into), front.batch);
    } else if (buffers_ && front.items() > 0) {
      BatchTensors into = buffers_->of(front.packed);
      copy(tensors_of(front.batch), into);
      put(std::move(into), front.batch);
    }
    if (!front.bad.empty()) bad_samples_.leave_out_of(front);
    Batch batch = std::move(front.batch);
    pool_->take();
    if (stage_) {  // the next copy overlaps with the kernels of this batch
      PendingBatch* ahead = pool_->front_if_ready();
      if (ahead && ahead->items() > 0) begin_copy(*ahead);
    }
    consumed_.advance(batch.micro_steps);
    return batch;
  }

  bool done() const { return options_.steps >= 0 && consumed_.step >= options_.steps; }

  void seek(int64_t step) {
    DTRAIN_CHECK(step >= 0, "step ", step);
    pool_->restart([&](Pool::Jobs jobs) {
      for (auto& job : jobs) {
        if (job->host.defined()) blocks_->give_back(std::move(job->host));
      }
      if (stage_) stage_->drop();
      plan_.seek(step);
    });
    consumed_ = {step, 0};
  }

  int64_t steps_per_epoch() const { return plan_.steps_per_epoch(); }
  LoaderStats stats() const {
    LoaderStats sum;
    for (const SampleReader& reader : readers_) sum += reader.stats();
    const auto [front, room] = pool_->waited();
    sum.wait_seconds = front;
    sum.full_seconds = room;
    return sum;
  }
  const std::vector<int64_t>& length_classes() const { return length_classes_; }
  int queue_depth() const { return pool_->ready(); }
  const std::set<int64_t>& bad_ids() const { return bad_samples_.ids(); }

 private:
  using Pool = ReadAhead<PendingBatch>;

  PackedBatch packed(const std::vector<int64_t>& ids) const {
    return packed_batch(store_, spec_, options_.augment, ids, length_classes_);
  }

  std::vector<int64_t> classes_of(MicroBatches& plan) const {
    if (options_.length_classes == 0 || !store_.schema().input.variable()) return {};
    std::vector<PaddedLength> lengths = plan.padded_lengths();
    for (PaddedLength& one : lengths) {
      if (spec_.longest > 0)
        one.length = std::min(one.length, spec_.longest);  // what is longer is left out
    }
    return data::length_classes(lengths, options_.length_classes);
  }

  // Plans the next batch and gives it memory. The pool makes one call at a time.
  std::unique_ptr<PendingBatch> make() {
    if (plan_.done()) return nullptr;
    at::Tensor block;
    if (stage_ && plan_.samples() > 0) {
      block = blocks_->take();
      if (!block.defined()) return nullptr;  // next() frees one and wakes the pool
    }
    Batch batch = without_tensors(plan_.next());
    PackedBatch sizes = packed(batch.ids);
    auto job = std::make_unique<PendingBatch>(std::move(batch), std::move(sizes));
    if (block.defined()) {
      const int64_t bytes = job->packed.bytes();
      job->place_in_block(block.numel() < bytes ? stage_->host_memory(bytes) : std::move(block));
    } else {
      job->place_in_tensors(spec_.image_size, options_.device);
    }
    return job;
  }

  void note_ready() const {
    const trace::Time now = trace::now();
    ready_->add({.name = "batches ready",
                 .begin = now,
                 .end = now,
                 .kind = trace::Kind::kCounter,
                 .a = queue_depth()});
  }

  void begin_copy(PendingBatch& job) {
    auto copy = stage_->begin(job.host, job.packed);
    job.begun = true;
    blocks_->copying(std::exchange(job.host, {}), std::move(copy));
  }

  const Store& store_;
  const SampleSpec spec_;
  const LoaderOptions options_;
  MicroBatches plan_;                          // what make() plans next
  const std::vector<int64_t> length_classes_;  // empty: a batch is padded to its longest sample
  MicroStep consumed_;                         // what next() returns next
  std::deque<SampleReader> readers_;           // one per thread
  BadSamples bad_samples_;
  std::optional<StaticBuffers> buffers_;  // none: each batch has tensors of its own
  trace::Track* ready_ = nullptr;
  std::optional<HostBlocks>
      blocks_;  // only with a stage; lives longer than it, which may still copy from a block
  std::unique_ptr<DeviceStage> stage_;  // null: the readers write the tensors directly
  std::unique_ptr<Pool> pool_;          // last, because its threads use the members above
};

Loader::Loader(const Store& store, std::vector<int64_t> ids, SampleSpec spec, LoaderOptions options,
               Shard shard)
    : Loader(store, std::move(ids), std::move(spec), options, shard, nullptr) {}
Loader::Loader(const Store& store, std::vector<int64_t> ids, SampleSpec spec, LoaderOptions options,
               Shard shard, std::unique_ptr<DeviceStage> stage) {
  check_loadable(store, ids, spec, options, shard);
  impl_ = std::make_unique<Impl>(store, std::move(ids), std::move(spec), options, shard,
                                 std::move(stage));
}
Loader::~Loader() = default;
Batch Loader::next(const std::function<void()>& arrived, const std::function<void()>& copied) {
  return impl_->next(arrived, copied);
}
bool Loader::done() const { return impl_->done(); }
void Loader::seek(int64_t step) { impl_->seek(step); }
int64_t Loader::steps_per_epoch() const { return impl_->steps_per_epoch(); }
LoaderStats Loader::stats() const { return impl_->stats(); }
const std::vector<int64_t>& Loader::length_classes() const { return impl_->length_classes(); }
int Loader::queue_depth() const { return impl_->queue_depth(); }
const std::set<int64_t>& Loader::bad_ids() const { return impl_->bad_ids(); }

}  // namespace dtrain::data
