#pragma once

// device.preset: settings for a GPU where neither the user's file nor a flag has any. The batch is
// computed from the memory of the card and from the memory that a sample of each network needs,
// which was measured on a CPU: it is estimated, and `dtrain tune` finds the real one. The same
// estimate is where tune begins to search.

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catalog/gpus.h"
#include "config/load.h"
#include "device/device.h"

namespace dtrain::dist {
class Communicator;
}

namespace dtrain::job {

// What a training step needs, in bytes: fixed + batch × sample.
struct BatchMemory {
  double fixed = 0;   // weights, gradients, moments
  double sample = 0;  // activations, and the sample itself
  double of(double batch) const { return fixed + batch * sample; }
};

// With 16-bit activations (fp16, bf16) or 32-bit ones. nullopt: the network is the user's, and
// unknown. Pure.
std::optional<BatchMemory> batch_memory(const config::Config&, bool half, bool checkpointing);

// A card of the table, or the one in the machine.
struct Card {
  std::string name;  // from the table, else from the driver
  int64_t memory_bytes = 0;
  int capability = 0;
  std::vector<catalog::FittingBatch> measured = {};  // go before what is computed from the memory
  int64_t ranks = 1;                                 // ranks of the run that share the memory
};

// The largest batch of a run like this that was measured on the card; 0: none was. Pure.
int64_t measured_batch_of(const Card&, const config::Config&, bool half, bool checkpointing);

// The samples of a micro-step that should fit into so much memory of a GPU; 0: none does. Pure.
int64_t fitting_batch(const BatchMemory&, int64_t memory_bytes);

// The device, of those of all ranks, that has the least memory for each of its ranks; with what was
// measured on it if it is in the table. Pure.
Card card_of_ranks(const std::vector<device::Properties>& devices);
Card card_of_run(dist::Communicator& host, at::Device);  // collective

struct Preset {
  std::vector<std::pair<std::string, std::string>> keys;  // path and value
  std::string text;  // for the banner: what was set, and what was not and why
};

// What the preset gives to a run of this number of ranks that `loaded` describes. Each of the ranks
// that share the card has an equal part of its memory, with a context of its own.
// `device_capability`: of the device that the run uses (0: a CPU), which may be another than the
// card's. Pure.
Preset preset_for(const Card&, const config::Loaded&, int64_t ranks, int device_capability);

// Puts the values of device.preset into loaded.config, and their origin into loaded.places. The
// same on every rank: `auto` is the GPU with the least memory for a rank. Returns the text for the
// banner. Collective.
std::string apply_preset(dist::Communicator& host, at::Device, config::Loaded& loaded);

}  // namespace dtrain::job
