#include "job/preset.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "config/differences.h"
#include "dist/object_collectives.h"
#include "job/device_sharing.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kContext = 700 * kMiB;  // used by CUDA, cuBLAS and cuDNN before the first tensor
// Share of the other memory that a step may use; what is left is for buffers of libraries,
// fragments and the longest samples
constexpr double kUsed = 0.8;
constexpr int64_t kMostPictures = 256, kMostRows = 512;  // a GPU gains little from more
constexpr int64_t kTooFew = 8;                           // samples; then activations are recomputed

constexpr double kReferencePixels = 224;

bool is_picture(const config::Config& config) {
  return catalog::row(config.task).sample == catalog::SampleKind::kPicture;
}

// As much as fits of the rank's share of the global batch, in equal parts.
int64_t share_that_fits(int64_t global_batch, int64_t ranks, int64_t most) {
  const int64_t share = (global_batch + ranks - 1) / ranks;
  const int64_t parts = (share + most - 1) / most;
  return (share + parts - 1) / parts;
}

// Sets a key unless the user did.
class Setter {
 public:
  Setter(const config::Loaded& loaded, Preset& preset) : loaded_(loaded), preset_(preset) {}

  void set(const std::string& path, const std::string& value) {
    if (loaded_.gives(path)) {
      const auto place = loaded_.places.find(path);
      kept.push_back(str(path, " (", place == loaded_.places.end() ? "given" : place->second, ")"));
      return;
    }
    preset_.keys.emplace_back(path, value);
    done.push_back(path + " " + value);
  }

  std::vector<std::string> done, kept;

 private:
  const config::Loaded& loaded_;
  Preset& preset_;
};

}  // namespace

std::optional<BatchMemory> batch_memory(const config::Config& config, bool half,
                                        bool checkpointing) {
  const catalog::TrainingMemory& measured = catalog::row(config::network_of(config)).memory;
  if (measured.fixed == 0) return std::nullopt;
  double sample = half ? measured.half_sample : measured.sample;
  if (checkpointing && measured.checkpointed_sample > 0)
    sample *= measured.checkpointed_sample / measured.sample;
  if (is_picture(config)) {
    sample *= std::pow(static_cast<double>(config.model.image_size) / kReferencePixels, 2);
  } else {
    sample *= static_cast<double>(config.model.hidden) / 256;
  }
  return BatchMemory{.fixed = measured.fixed * kMiB, .sample = sample * kMiB};
}

int64_t measured_batch_of(const Card& card, const config::Config& config, bool half,
                          bool checkpointing) {
  if (!is_picture(config)) return 0;
  const std::string_view network = name_of(config::network_of(config));
  for (const catalog::FittingBatch& one : card.measured) {
    if (one.network == network && one.image_size == config.model.image_size && one.half == half &&
        one.checkpointing == checkpointing) {
      return one.batch_size;
    }
  }
  return 0;
}

int64_t fitting_batch(const BatchMemory& need, int64_t memory_bytes) {
  const double room = kUsed * (static_cast<double>(memory_bytes) - kContext) - need.fixed;
  return room < need.sample ? 0 : static_cast<int64_t>(room / need.sample);
}

Preset preset_for(const Card& card, const config::Loaded& loaded, int64_t ranks,
                  int device_capability) {
  Preset preset;
  Setter setter(loaded, preset);
  const config::Config& config = loaded.config;
  const bool bf16 = catalog::has_bf16(card.capability);
  const std::string amp = bf16 ? "bf16" : "fp16";
  const bool can = bf16 ? catalog::has_bf16(device_capability) : device_capability >= 75;
  if (can) setter.set("train.amp", amp);

  const int64_t memory = card.memory_bytes / card.ranks;
  const bool half =
      can &&
      (!loaded.gives("train.amp") || config.train.amp == config::AmpMode::kAuto ||
       config.train.amp == config::AmpMode::kBf16 || config.train.amp == config::AmpMode::kFp16);
  bool recomputes = config.model.checkpointing;
  std::optional<BatchMemory> need = batch_memory(config, half, recomputes);
  const auto measured_alone = [&] {  // what was measured had the whole card
    return card.ranks > 1 ? 0 : measured_batch_of(card, config, half, recomputes);
  };
  int64_t measured = measured_alone();
  const auto most_that_fit = [&] {
    if (measured > 0) return measured;
    return need ? fitting_batch(*need, memory) : 0;
  };
  if (need && most_that_fit() < kTooFew && !recomputes && is_picture(config) &&
      !loaded.gives("model.checkpointing")) {
    setter.set("model.checkpointing", "true");
    recomputes = true;
    need = batch_memory(config, half, recomputes);
    measured = measured_alone();
  }
  std::string why_no_batch = need ? "" : "the network is not in the table";
  const int64_t fitting = most_that_fit();
  if (need && fitting == 0) why_no_batch = "not even one sample may fit";
  if (config.train.global_batch > 0 && config.train.accumulate > 0) {
    why_no_batch = "train.global_batch and train.accumulate decide it";
  } else if (fitting > 0) {
    const int64_t most = std::min(fitting, is_picture(config) ? kMostPictures : kMostRows);
    const int64_t batch = config.train.global_batch > 0
                              ? share_that_fits(config.train.global_batch, ranks, most)
                              : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
    setter.set("train.batch_size", str(batch));
  }
  preset.text =
      str(card.name, " (", human_bytes(static_cast<double>(card.memory_bytes)),
          card.ranks > 1 ? str(", shared by ", card.ranks, " ranks") : "",
          measured > 0 ? "; measured on this card): " : "; estimated, `dtrain tune` measures): ",
          setter.done.empty() ? "nothing set" : "sets " + join(setter.done, ", "),
          setter.kept.empty() ? "" : "; kept " + join(setter.kept, ", "),
          why_no_batch.empty() ? "" : "; no batch size: " + why_no_batch);
  return preset;
}

Card card_of_ranks(const std::vector<device::Properties>& devices) {
  std::vector<std::string> uuids;
  for (const device::Properties& device : devices) uuids.push_back(device.uuid);
  const int capability =
      std::ranges::min_element(devices, {}, &device::Properties::capability)->capability;
  Card card{
      .name = "", .memory_bytes = std::numeric_limits<int64_t>::max(), .capability = capability};
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    const device::Properties& device = devices[rank];
    const int64_t ranks = device.uuid.empty() ? 1 : sharing_of(uuids, static_cast<int>(rank)).ranks;
    if (device.memory_bytes / ranks >= card.memory_bytes / card.ranks) continue;
    card.name = device.name;
    card.memory_bytes = device.memory_bytes;
    card.ranks = ranks;
  }
  const catalog::Gpu* known =
      capability == 0 ? nullptr : catalog::find_gpu(card.name, card.memory_bytes);
  if (known != nullptr) {
    card.name = known->name;
    card.measured = known->measured;
  }
  return card;
}

Card card_of_run(dist::Communicator& host, at::Device device) {
  const device::Properties own = device::properties(device);
  const std::vector<std::string> names = dist::all_gather_object(host, own.name),
                                 uuids = dist::all_gather_object(host, own.uuid);
  const std::vector<int64_t> memory = dist::all_gather_object(host, own.memory_bytes);
  const std::vector<int> capabilities = dist::all_gather_object(host, own.capability);
  std::vector<device::Properties> devices;
  for (size_t rank = 0; rank < names.size(); ++rank) {
    devices.push_back({.name = names[rank],
                       .uuid = uuids[rank],
                       .memory_bytes = memory[rank],
                       .capability = capabilities[rank]});
  }
  return card_of_ranks(devices);
}

std::string apply_preset(dist::Communicator& host, at::Device device, config::Loaded& loaded) {
  const std::string& name = loaded.config.device.preset;
  Card card = card_of_run(host, device);
  const int capability = card.capability;
  if (name == "auto") {
    if (capability == 0) return "auto: the run uses no GPU, so nothing is set";
  } else {
    const catalog::Gpu& gpu = *catalog::gpu_named(name);
    card = {.name = name,
            .memory_bytes = gpu.memory_bytes(),
            .capability = gpu.capability,
            .measured = gpu.measured,
            .ranks = card.ranks};
  }
  const Preset preset = preset_for(card, loaded, host.size(), capability);
  for (const auto& [path, value] : preset.keys) {
    config::set(loaded.config, path, value);
    loaded.places[path] = "preset " + card.name;
  }
  return preset.text;
}

}  // namespace dtrain::job
