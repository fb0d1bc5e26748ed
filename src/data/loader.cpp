#include "data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "core/check.h"
#include "core/random.h"
#include "data/augment.h"
#include "data/decode.h"
#include "data/device_stage.h"
#include "data/layout.h"
#include "data/read_ahead.h"

namespace dtrain::data {

namespace {

// The sequence of micro-batches, one after another: who is where in it.
struct Cursor {
  int64_t step = 0, micro = 0;
  void advance(int64_t micro_steps) {
    if (++micro == micro_steps) ++step, micro = 0;
  }
};

// A batch in the making. Its buffers are the batch's own tensors, or (for a device) a block of page-locked memory.
struct Pending : ReadAhead::Job {
  explicit Pending(Range range) : Job(range.size()), positions(range) {}
  Batch batch;
  Range positions;
  uint64_t order_key = 0;
  at::Tensor host;  // the block; undefined without a device, without samples, and once it is being copied
  PackedBatch packed;
  bool begun = false;

  std::byte* block() const { return static_cast<std::byte*>(host.data_ptr()); }
  float* targets() const {
    return host.defined() ? reinterpret_cast<float*>(block()) : batch.targets.data_ptr<float>();
  }
};

// What a reader thread has for itself.
struct Reader {
  std::unique_ptr<Decoder> decoder;
  Augmenter augmenter;
  std::vector<uint8_t> image;
};

std::vector<int64_t> with_samples(int64_t samples, const std::vector<int64_t>& shape) {
  std::vector<int64_t> result{samples};
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

}  // namespace

class Loader::Impl {
 public:
  Impl(const Store& store, std::vector<int64_t> ids, SampleSpec spec, LoaderOptions options, Shard shard,
       std::unique_ptr<DeviceStage> stage)
      : store_(store),
        ids_(std::move(ids)),
        spec_(std::move(spec)),
        options_(options),
        shard_(shard),
        schema_(store.schema()),
        count_(static_cast<int64_t>(ids_.size())),
        stage_(std::move(stage)) {
    check();
    image_ = {schema_.input.shape[0], schema_.input.shape[1]};
    if (!stage_ && !options_.device.is_cpu()) {
      stage_ = make_device_stage(options_.device, {spec_, image_, schema_.target.shape, largest_batch()});
    }
    if (stage_) {
      const PackedBatch largest{largest_batch(), schema_.target.row_elements(), image_.bytes()};
      block_count_ = static_cast<size_t>(std::max(1, options_.prefetch)) + 2;
      for (size_t i = 0; i < block_count_; ++i) free_blocks_.push_back(stage_->host_memory(largest.bytes()));
    }
    for (int i = 0; i < std::max(1, options_.threads); ++i) {
      readers_.push_back(
          {make_decoder(store_), Augmenter(spec_, image_), std::vector<uint8_t>(size_t(image_.bytes()))});
    }
    pool_ = std::make_unique<ReadAhead>(options_.threads, options_.prefetch,
                                        ReadAhead::Functions{[this] { return make(); },
                                                             [this](ReadAhead::Job& job, int64_t item, int thread) {
                                                               read(static_cast<Pending&>(job), item,
                                                                    readers_[static_cast<size_t>(thread)]);
                                                             }});
  }

  Batch next(const std::function<void()>& arrived) {
    DTRAIN_CHECK(!done(), "Loader::next() after the last of ", options_.steps, " optimizer steps");
    if (stage_) reclaim_blocks();
    const auto start = std::chrono::steady_clock::now();
    auto& front = static_cast<Pending&>(pool_->front());
    front.batch.read_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (stage_ && front.items() > 0) {
      if (arrived) arrived();
      if (!front.begun) begin_copy(front);
      StagedBatch staged = stage_->finish();
      front.batch.inputs = std::move(staged.inputs);
      front.batch.targets = std::move(staged.targets);
    }
    Batch batch = std::move(front.batch);
    pool_->take();
    if (stage_) {  // the next copy runs beside the kernels of this batch
      auto* ahead = static_cast<Pending*>(pool_->front_if_ready());
      if (ahead && ahead->items() > 0) begin_copy(*ahead);
    }
    consumer_.advance(batch.micro_steps);
    return batch;
  }

  bool done() const { return options_.steps >= 0 && consumer_.step >= options_.steps; }

  void seek(int64_t step) {
    DTRAIN_CHECK(step >= 0, "step ", step);
    pool_->restart([&](ReadAhead::Jobs jobs) {
      std::scoped_lock lock(blocks_mutex_);
      for (auto& job : jobs) {
        auto& pending = static_cast<Pending&>(*job);
        if (pending.host.defined()) free_blocks_.push_back(std::move(pending.host));
      }
      if (stage_) stage_->drop();
      producer_ = {step, 0};
      planned_step_ = -1;
    });
    consumer_ = {step, 0};
  }

  int64_t steps_per_epoch() const { return data::steps_per_epoch(count_, options_.global_batch); }
  int64_t bytes_read() const { return bytes_read_; }
  int queue_depth() const { return pool_->ready(); }

 private:
  void check() const {
    const std::string file = store_.path().string();
    DTRAIN_CHECK(options_.batch_size > 0 && options_.global_batch > 0, "batch ", options_.batch_size, ", global ",
                 options_.global_batch);
    DTRAIN_CHECK(0 <= shard_.rank && shard_.rank < shard_.size, "shard ", shard_.rank, " of ", shard_.size);
    make_decoder(store_);  // throws if these are not images
    if (ids_.empty()) {
      throw DataError(
          str(file, ": no samples to load: the split is empty. Choose another file, or change its splits."));
    }
    for (int64_t id : ids_) {
      if (id < 0 || id >= schema_.samples) {
        throw DataError(str(file, "#", id, ": the split names a sample outside 0 to ", schema_.samples - 1,
                            ". The file is damaged: make it again with `dtrain convert`."));
      }
    }
    const auto signs = static_cast<int64_t>(spec_.target_flip_sign.size());
    if (options_.augment && spec_.hflip && signs != schema_.target.row_elements()) {
      throw DataError(str(file, ": targets have ", schema_.target.row_elements(),
                          " elements, but the task says what a flip does to ", signs,
                          ". The file is for another task (", schema_.task, ")."));
    }
  }

  int64_t largest_batch() const {
    const int64_t share = part(std::min(options_.global_batch, count_), shard_.size, 0).size();
    return std::max<int64_t>(1, std::min(options_.batch_size, share));
  }

  // Called by the pool, one call at a time.
  std::unique_ptr<ReadAhead::Job> make() {
    if (options_.steps >= 0 && producer_.step >= options_.steps) return nullptr;
    if (planned_step_ != producer_.step) {
      plan_of_ = global_batch(producer_.step, count_, options_.global_batch);
      plan_ = micro_plan(plan_of_, options_.batch_size, shard_);
      planned_step_ = producer_.step;
    }
    auto job = std::make_unique<Pending>(plan_.micro[static_cast<size_t>(producer_.micro)]);
    const int64_t samples = job->items();
    if (stage_ && samples > 0) {
      std::scoped_lock lock(blocks_mutex_);
      if (free_blocks_.empty()) return nullptr;  // next() frees one and wakes the pool
      job->host = std::move(free_blocks_.front());
      free_blocks_.pop_front();
    }
    Batch& batch = job->batch;
    batch.ids.resize(static_cast<size_t>(samples));
    batch.epoch = plan_of_.epoch;
    batch.step = producer_.step;
    batch.micro = producer_.micro;
    batch.micro_steps = plan_.micro_steps;
    batch.global_samples = plan_of_.positions.size();
    job->order_key =
        keyed(static_cast<uint64_t>(Purpose::kPermutation), options_.seed, static_cast<uint64_t>(batch.epoch));
    job->packed = {samples, schema_.target.row_elements(), image_.bytes(), options_.augment && spec_.contrast > 0};
    if (!job->host.defined()) {
      const auto options = at::TensorOptions().dtype(at::kFloat).device(stage_ ? options_.device : at::kCPU);
      batch.inputs = at::empty({samples, 3, spec_.image_size, spec_.image_size},
                               options.memory_format(at::MemoryFormat::ChannelsLast));
      batch.targets = at::empty(with_samples(samples, schema_.target.shape), options);
    }
    producer_.advance(plan_.micro_steps);
    return job;
  }

  // Any reader thread; each sample of a batch once.
  void read(Pending& job, int64_t item, Reader& reader) {
    const int64_t position = job.positions.begin + item;
    const int64_t id = ids_[size_t(options_.shuffle ? permuted(position, count_, job.order_key) : position)];
    job.batch.ids[static_cast<size_t>(item)] = id;
    uint8_t* image = reader.image.data();
    if (job.host.defined()) {
      image = reinterpret_cast<uint8_t*>(job.block() + job.packed.images_at() + item * image_.bytes());
    }
    const std::span target(job.targets() + item * schema_.target.row_elements(), size_t(schema_.target.row_elements()));
    try {
      read_sample(reader, id, std::as_writable_bytes(std::span(image, size_t(image_.bytes()))), target);
    } catch (const Error&) {
      throw;  // says file#sample itself
    } catch (const std::exception& error) {
      throw DataError(str(store_.path().string(), "#", id, ": cannot be read: ", error.what()));
    }
    const SampleAugment augment =
        options_.augment ? draw(spec_, options_.seed, job.batch.epoch, id, image_) : centre_crop(image_);
    if (augment.flip) {
      for (size_t i = 0; i < target.size(); ++i) target[i] *= spec_.target_flip_sign[i];
    }
    if (job.host.defined()) {
      std::memcpy(job.block() + job.packed.augments_at() + item * sizeof(augment), &augment, sizeof(augment));
    } else {
      reader.augmenter(image, augment, job.batch.inputs.data_ptr<float>() + item * job.batch.inputs.stride(0));
    }
  }

  void read_sample(Reader& reader, int64_t id, std::span<std::byte> pixels, std::span<float> target) {
    const std::span<const std::byte> stored = reader.decoder->read(store_, id, pixels);
    store_.read_target(id, std::as_writable_bytes(target));
    bytes_read_.fetch_add(static_cast<int64_t>(stored.size() + target.size_bytes()), std::memory_order_relaxed);
    if (options_.verify && sample_checksum(stored, std::as_bytes(target)) != store_.checksum(id)) {
      throw DataError(str(store_.path().string(), "#", id,
                          ": the checksum does not match: the file has changed since it was written (",
                          store_.source(id), "). Restore it from a copy, or make it again with `dtrain convert`."));
    }
  }

  void begin_copy(Pending& job) {
    auto copy = stage_->begin(job.host, job.packed);
    job.begun = true;
    copying_.push_back({std::move(job.host), std::move(copy)});
    job.host = at::Tensor();
  }

  // Blocks whose copy is over go back to the readers. Waits only if otherwise none would be left for them.
  void reclaim_blocks() {
    bool freed = false;
    while (!copying_.empty()) {
      Copying& oldest = copying_.front();
      if (copying_.size() == block_count_) oldest.copy->wait();
      if (!oldest.copy->done()) break;
      std::scoped_lock lock(blocks_mutex_);
      free_blocks_.push_back(std::move(oldest.host));
      copying_.pop_front();
      freed = true;
    }
    if (freed) pool_->wake();
  }

  struct Copying {
    at::Tensor host;
    std::unique_ptr<HostCopy> copy;
  };

  const Store& store_;
  const std::vector<int64_t> ids_;
  const SampleSpec spec_;
  const LoaderOptions options_;
  const Shard shard_;
  const Schema schema_;
  const int64_t count_;
  ImageShape image_;
  std::vector<Reader> readers_;
  std::atomic<int64_t> bytes_read_ = 0;
  Cursor consumer_;            // of next()
  Cursor producer_;            // of make()
  int64_t planned_step_ = -1;  // what plan_ and plan_of_ are for
  GlobalBatch plan_of_;
  MicroPlan plan_;
  std::unique_ptr<DeviceStage> stage_;  // null: the readers make the tensors
  size_t block_count_ = 0;
  std::mutex blocks_mutex_;
  std::deque<at::Tensor> free_blocks_;  // guarded by blocks_mutex_
  std::deque<Copying> copying_;         // oldest first
  std::unique_ptr<ReadAhead> pool_;     // last: its threads use all of the above
};

Loader::Loader(const Store& store, std::vector<int64_t> ids, SampleSpec spec, LoaderOptions options, Shard shard)
    : Loader(store, std::move(ids), std::move(spec), options, shard, nullptr) {}
Loader::Loader(const Store& store, std::vector<int64_t> ids, SampleSpec spec, LoaderOptions options, Shard shard,
               std::unique_ptr<DeviceStage> stage)
    : impl_(std::make_unique<Impl>(store, std::move(ids), std::move(spec), options, shard, std::move(stage))) {}
Loader::~Loader() = default;
Batch Loader::next(const std::function<void()>& arrived) { return impl_->next(arrived); }
bool Loader::done() const { return impl_->done(); }
void Loader::seek(int64_t step) { impl_->seek(step); }
int64_t Loader::steps_per_epoch() const { return impl_->steps_per_epoch(); }
int64_t Loader::bytes_read() const { return impl_->bytes_read(); }
int Loader::queue_depth() const { return impl_->queue_depth(); }

}  // namespace dtrain::data
