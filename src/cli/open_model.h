#pragma once

// How predict, eval and export open a trained model: what they write must not replace what they
// read, all ranks have the same checkpoint, and an error of any rank is an error of all. Export
// does not place the network: it writes the network as it was loaded, on the CPU.

#include <filesystem>
#include <optional>

#include "cli/options.h"
#include "job/find_checkpoint.h"
#include "job/process_context.h"
#include "job/trained_model.h"
#include "os/output_guard.h"
#include "train/precision.h"

namespace dtrain::cli {

struct ModelOpening {
  const job::CheckpointName& checkpoint;
  const InferenceOptions& how;
  std::optional<config::OnBadSample> on_bad_sample = {};  // nullopt: as in training
  std::filesystem::path out = {};  // what the command writes; "" or "-": the standard output
  bool is_file = false;            // whatever `out` is named, it is no stream, device or pipe
  bool replace = false;            // --force
  Inputs inputs = {};              // what it reads beside the model
  IsEarlierOutput is_earlier_output = {};
};

// The guard of a command that reads only the files of the checkpoint: OutputError if `out` exists
// without `replace`, or is one of the inputs. Returns it, "" for the standard output. Collective.
std::filesystem::path guard_output(dist::Communicator& host, const ModelOpening&);

// guard_output(), then loads the model: OutputError if `out` is one of its files. Errors as of
// job::load_model(). Collective.
job::TrainedModel open_model(job::ProcessContext&, const ModelOpening&);

// Moves the network to the device of this rank, in the precision of --amp. ConfigError as of
// train::choose_precision(). Collective.
train::Precision place_on_device(job::ProcessContext&, job::TrainedModel&, config::AmpMode);

}  // namespace dtrain::cli
