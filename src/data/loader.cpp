#include "data/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

#include "core/check.h"
#include "core/log.h"
#include "data/augment.h"
#include "data/decode.h"
#include "data/device_stage.h"
#include "data/epoch_order.h"
#include "data/finite.h"
#include "data/layout.h"
#include "data/read_ahead.h"
#include "data/target_defect.h"

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
  using Job::Job;
  Batch batch;
  PackedBatch packed;           // sizes, also of a batch that is not packed
  at::Tensor host;              // the block; undefined without a device, without samples, and once it is being copied
  std::byte* inputs = nullptr;  // where the readers write, sample after sample; null: images of the CPU's way
  std::byte* targets = nullptr;
  std::byte* augments = nullptr;  // images for a device
  int64_t* lengths = nullptr;     // rows
  bool begun = false;

  struct Bad {
    int64_t item;
    std::string message;
  };
  std::mutex bad_mutex;
  std::vector<Bad> bad;  // left out, in any order

  void use_block() {
    auto* block = static_cast<std::byte*>(host.data_ptr());
    targets = block;
    inputs = block + packed.inputs_at();
    if (packed.rows()) {
      lengths = reinterpret_cast<int64_t*>(block + packed.lengths_at());
    } else {
      augments = block + packed.augments_at();
    }
  }
};

// What a reader thread has for itself; of images only.
struct Reader {
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<Augmenter> augmenter;
  std::vector<uint8_t> image;
};

// The rows of a tensor whose samples are kept, narrowed to `longest` along the second dimension unless that is < 0.
at::Tensor kept_rows(const at::Tensor& tensor, const at::Tensor& kept, int64_t longest = -1) {
  const at::Tensor rows = tensor.index_select(0, kept);
  if (longest >= 0) return rows.narrow(1, 0, longest).contiguous();
  return tensor.dim() == 4 ? rows.contiguous(at::MemoryFormat::ChannelsLast) : rows;
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
        classes_(static_cast<int64_t>(class_names(store).size())),
        count_(static_cast<int64_t>(ids_.size())),
        stage_(std::move(stage)) {
    check();
    order_ = std::make_unique<EpochOrder>(
        count_,
        EpochOrderOptions{options_.shuffle, options_.seed, options_.global_batch, rows() ? spec_.length_window : 0},
        [this](int64_t index) { return length_of(ids_[static_cast<size_t>(index)]); });
    if (!rows()) image_ = {schema_.input.shape[0], schema_.input.shape[1]};
    // Batches of rows differ in size: their memory grows with the first long ones.
    const int64_t expected =
        schema_.input.variable() ? 0 : packed(std::vector(size_t(largest_batch()), ids_[0])).bytes();
    if (!stage_ && !options_.device.is_cpu()) {
      stage_ = make_device_stage(options_.device, {spec_, image_, largest_batch(), expected});
    }
    if (stage_) {
      block_count_ = static_cast<size_t>(std::max(1, options_.prefetch)) + 2;
      for (size_t i = 0; i < block_count_; ++i) free_blocks_.push_back(stage_->host_memory(expected));
    }
    for (int i = 0; i < std::max(1, options_.threads); ++i) {
      if (rows()) {
        readers_.emplace_back();
      } else {
        readers_.push_back({make_decoder(store_), std::make_unique<Augmenter>(spec_, image_),
                            std::vector<uint8_t>(size_t(image_.bytes()))});
      }
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
      front.batch.lengths = std::move(staged.lengths);
    }
    if (!front.bad.empty()) leave_out_bad(front);
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
  int64_t bad_samples() const { return static_cast<int64_t>(bad_ids_.size()); }

 private:
  void check() const {
    const std::string file = store_.path().string();
    DTRAIN_CHECK(options_.batch_size > 0 && options_.global_batch > 0, "batch ", options_.batch_size, ", global ",
                 options_.global_batch);
    DTRAIN_CHECK(0 <= shard_.rank && shard_.rank < shard_.size, "shard ", shard_.rank, " of ", shard_.size);
    if (rows()) {
      if (schema_.input.element != Element::kFloat32 || !storable_input(schema_.input)) {
        throw DataError(str(file, ": samples of ", text_of(schema_.input),
                            " are not rows of float32. Make the file with `dtrain convert`."));
      }
    } else {
      make_decoder(store_);  // throws if these are not images
    }
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
    const int64_t expected = schema_.target.element == Element::kFloat32 ? schema_.target.row_elements() : 0;
    if (!rows() && options_.augment && spec_.hflip && signs != expected) {
      throw DataError(str(file, ": targets are ", text_of(schema_.target), ", of which a flip changes the sign of ",
                          expected, " elements, but the task says what it does to ", signs,
                          ". The file is for another task (", schema_.task, ")."));
    }
  }

  bool rows() const { return spec_.kind == SampleSpec::Kind::kRows; }

  int64_t length_of(int64_t id) const {
    if (schema_.input.variable()) return store_.input_rows(id);
    return schema_.input.shape.size() == 2 ? schema_.input.shape[0] : 1;
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
    const Range positions = plan_.micro[static_cast<size_t>(producer_.micro)];
    at::Tensor block;
    if (stage_ && positions.size() > 0) {
      std::scoped_lock lock(blocks_mutex_);
      if (free_blocks_.empty()) return nullptr;  // next() frees one and wakes the pool
      block = std::move(free_blocks_.front());
      free_blocks_.pop_front();
    }
    auto job = std::make_unique<Pending>(positions.size());
    Batch& batch = job->batch;
    batch.epoch = plan_of_.epoch;
    batch.step = producer_.step;
    batch.micro = producer_.micro;
    batch.micro_steps = plan_.micro_steps;
    batch.global_samples = plan_of_.positions.size();
    batch.ids.reserve(static_cast<size_t>(positions.size()));
    for (int64_t position = positions.begin; position < positions.end; ++position) {
      batch.ids.push_back(ids_[static_cast<size_t>((*order_)(batch.epoch, position))]);
      if (rows()) batch.rows += length_of(batch.ids.back());
    }
    job->packed = packed(batch.ids);
    if (block.defined()) {
      job->host = block.numel() < job->packed.bytes() ? stage_->host_memory(job->packed.bytes()) : std::move(block);
      job->use_block();
    } else {
      make_tensors(*job);
    }
    producer_.advance(plan_.micro_steps);
    return job;
  }

  // The sizes of a batch of these samples.
  PackedBatch packed(const std::vector<int64_t>& ids) const {
    const auto sizes = [&](const Field& field, auto&& rows_of) {
      std::vector<int64_t> result{static_cast<int64_t>(ids.size())};
      result.insert(result.end(), field.shape.begin(), field.shape.end());
      if (field.variable()) {
        result[1] = 0;
        for (const int64_t id : ids) result[1] = std::max(result[1], rows_of(id));
      }
      return result;
    };
    PackedBatch result;
    result.kind = spec_.kind;
    result.inputs = sizes(schema_.input, [&](int64_t id) { return store_.input_rows(id); });
    result.targets = sizes(schema_.target, [&](int64_t id) { return store_.target_rows(id); });
    result.target_element = schema_.target.element;
    result.needs_mean = options_.augment && spec_.contrast > 0;
    return result;
  }

  void make_tensors(Pending& job) const {
    Batch& batch = job.batch;
    const auto options = at::TensorOptions().device(stage_ ? options_.device : at::kCPU);
    batch.targets = at::empty(job.packed.targets, options.dtype(scalar_type(schema_.target.element)));
    const int64_t samples = job.packed.samples();
    if (rows()) {
      batch.inputs = at::empty(job.packed.inputs, options.dtype(at::kFloat));
      batch.lengths = at::empty({samples}, options.dtype(at::kLong));
    } else {
      batch.inputs = at::empty({samples, 3, spec_.image_size, spec_.image_size},
                               options.dtype(at::kFloat).memory_format(at::MemoryFormat::ChannelsLast));
    }
    if (samples == 0) return;  // perhaps on a device: nobody writes
    job.targets = static_cast<std::byte*>(batch.targets.data_ptr());
    if (!rows()) return;
    job.inputs = static_cast<std::byte*>(batch.inputs.data_ptr());
    job.lengths = batch.lengths.data_ptr<int64_t>();
  }

  // Any reader thread; each sample of a batch once.
  void read(Pending& job, int64_t item, Reader& reader) {
    const int64_t id = job.batch.ids[static_cast<size_t>(item)];
    try {
      if (rows()) {
        read_rows(job, item, id);
      } else {
        read_image(job, item, id, reader);
      }
    } catch (const DataError& error) {  // says file#sample itself
      leave_out(job, item, error.what());
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      leave_out(job, item, str(store_.path().string(), "#", id, ": cannot be read: ", error.what()));
    }
  }

  std::string advice() const {
    return options_.skip_bad
               ? ""
               : ". Convert the raw data again, which leaves such samples out, or set data.on_bad_sample: skip.";
  }

  void leave_out(Pending& job, int64_t item, const std::string& message) const {
    if (!options_.skip_bad) throw DataError(message);
    const std::scoped_lock lock(job.bad_mutex);
    job.bad.push_back({item, message});
  }

  void read_image(Pending& job, int64_t item, int64_t id, Reader& reader) {
    const SampleAugment augment = options_.augment ? draw(spec_, options_.seed, job.batch.epoch, id, image_)
                                                   : centre_crop(image_, spec_.centre_share);
    // Before what may throw: a device also works on a sample that is left out afterwards.
    if (job.augments) std::memcpy(job.augments + item * sizeof(augment), &augment, sizeof(augment));
    auto* image = job.inputs ? reinterpret_cast<uint8_t*>(job.inputs + item * image_.bytes()) : reader.image.data();
    const auto stored =
        reader.decoder->read(store_, id, std::as_writable_bytes(std::span(image, size_t(image_.bytes()))));
    const std::span<std::byte> target = read_target(job, item, id);
    count_and_verify(id, stored, target);
    refuse_bad_target(id, target);
    if (augment.flip) {
      auto* values = reinterpret_cast<float*>(target.data());  // float32 where there are signs, see check()
      for (size_t i = 0; i < spec_.target_flip_sign.size(); ++i) values[i] *= spec_.target_flip_sign[i];
    }
    if (!job.augments) {
      (*reader.augmenter)(image, augment, job.batch.inputs.data_ptr<float>() + item * job.batch.inputs.stride(0));
    }
  }

  void read_rows(Pending& job, int64_t item, int64_t id) {
    job.lengths[item] = length_of(id);
    if (job.lengths[item] == 0) {
      throw DataError(str(store_.path().string(), "#", id, ": has no rows (", store_.source(id), ")", advice()));
    }
    const int64_t slot = job.packed.input_bytes() / job.packed.samples();
    const std::span<std::byte> all(job.inputs + item * slot, static_cast<size_t>(slot));
    const std::span<std::byte> input = all.first(static_cast<size_t>(store_.input_bytes(id)));
    store_.read_input(id, input);
    std::memset(all.data() + input.size(), 0, all.size() - input.size());
    const std::span<std::byte> target = read_target(job, item, id);
    count_and_verify(id, input, target);
    refuse_bad_target(id, target);
    const std::span values(reinterpret_cast<const float*>(input.data()), input.size() / sizeof(float));
    if (const int64_t bad = first_not_finite(values); bad >= 0) {
      const int64_t columns = schema_.input.shape.back();
      throw DataError(str(store_.path().string(), "#", id, ": row ", bad / columns, ", column ", bad % columns, " is ",
                          values[static_cast<size_t>(bad)], " (", store_.source(id), ")", advice()));
    }
  }

  // Padded with -1 where samples differ in their number of targets. Returns the sample's own.
  std::span<std::byte> read_target(Pending& job, int64_t item, int64_t id) const {
    const int64_t slot = job.packed.target_bytes() / job.packed.samples();
    const std::span<std::byte> all(job.targets + item * slot, static_cast<size_t>(slot));
    const std::span<std::byte> target = all.first(static_cast<size_t>(store_.target_bytes(id)));
    store_.read_target(id, target);
    std::memset(all.data() + target.size(), 0xff, all.size() - target.size());  // int64 -1, see storable_target()
    return target;
  }

  // Without skip_bad a task has refused the whole file before.
  void refuse_bad_target(int64_t id, std::span<const std::byte> target) const {
    if (!options_.skip_bad || schema_.target.element != Element::kInt64) return;
    const std::span values(reinterpret_cast<const int64_t*>(target.data()), target.size() / sizeof(int64_t));
    const std::string what = target_defect(schema_, classes_, values, length_of(id));
    if (what.empty()) return;
    throw DataError(str(store_.path().string(), "#", id, ": ", what, " (", store_.source(id), ")"));
  }

  void count_and_verify(int64_t id, std::span<const std::byte> input, std::span<const std::byte> target) {
    bytes_read_.fetch_add(static_cast<int64_t>(input.size() + target.size()), std::memory_order_relaxed);
    if (options_.verify && sample_checksum(input, target) != store_.checksum(id)) {
      throw DataError(str(store_.path().string(), "#", id,
                          ": the checksum does not match: the file has changed since it was written (",
                          store_.source(id), "). Restore it from a copy, or make it again with `dtrain convert`."));
    }
  }

  // Of a batch whose tensors are made: the rest moves together.
  void leave_out_bad(Pending& job) {
    Batch& batch = job.batch;
    std::vector<bool> bad(batch.ids.size());
    std::sort(job.bad.begin(), job.bad.end(), [](const auto& a, const auto& b) { return a.item < b.item; });
    for (const Pending::Bad& one : job.bad) {
      const int64_t id = batch.ids[static_cast<size_t>(one.item)];
      bad[static_cast<size_t>(one.item)] = true;
      if (bad_ids_.insert(id).second) warn_of(id, one.message);
    }
    std::vector<int64_t> kept, ids;
    int64_t longest = 0, longest_target = 0;
    batch.rows = 0;
    for (size_t i = 0; i < bad.size(); ++i) {
      if (bad[i]) continue;
      const int64_t id = batch.ids[i];
      kept.push_back(static_cast<int64_t>(i));
      ids.push_back(id);
      longest = std::max(longest, length_of(id));
      longest_target = std::max(longest_target, store_.target_rows(id));
      if (rows()) batch.rows += length_of(id);
    }
    const at::Tensor index = at::tensor(kept, at::kLong).to(batch.inputs.device());
    batch.inputs = kept_rows(batch.inputs, index, schema_.input.variable() ? longest : -1);
    batch.targets = kept_rows(batch.targets, index, schema_.target.variable() ? longest_target : -1);
    if (batch.lengths.defined()) batch.lengths = batch.lengths.index_select(0, index);
    batch.ids = std::move(ids);
  }

  void warn_of(int64_t id, const std::string& message) const {
    std::string source;
    try {
      source = store_.source(id);
    } catch (const DataError&) {  // what is broken may be broken here too
    }
    const bool told = source.empty() || message.find(source) != std::string::npos;
    log::warning(str("left out, as data.on_bad_sample says: ", message, told ? "" : " (" + source + ")"));
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
  const int64_t classes_;  // that the file names; 0: none
  const int64_t count_;
  ImageShape image_;  // of images
  std::vector<Reader> readers_;
  std::unique_ptr<EpochOrder> order_;  // of make()
  std::atomic<int64_t> bytes_read_ = 0;
  std::set<int64_t> bad_ids_;  // warned of
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
int64_t Loader::bad_samples() const { return impl_->bad_samples(); }

}  // namespace dtrain::data
