#pragma once

// How predict, eval and export open a trained model: what they write must not replace what they
// read, all ranks have the same checkpoint, and an error of any rank is an error of all.

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
  bool replace = false;            // --force
  Inputs inputs = {};              // what it reads beside the model
  IsEarlierOutput is_earlier_output = {};
};

// On rank 0, before and after the model is loaded: OutputError if `out` exists without `replace`,
// or is one of the inputs or files of the model. Errors as of job::load_model(). Collective.
job::TrainedModel open_model(job::ProcessContext&, const ModelOpening&);

// Moves the network to the device of this rank, in the precision of --amp. ConfigError as of
// train::choose_precision(). Collective.
train::Precision place_on_device(job::ProcessContext&, job::TrainedModel&, config::AmpMode);

}  // namespace dtrain::cli
