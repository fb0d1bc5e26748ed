#include "cli/open_model.h"

#include "cli/row_output.h"
#include "dist/agree.h"
#include "job/placement.h"
#include "os/file_system.h"

namespace dtrain::cli {

std::filesystem::path guard_output(dist::Communicator& host, const ModelOpening& opening) {
  const bool streams = !opening.is_file && is_standard_output(opening.out);
  const std::filesystem::path out = streams ? "" : opening.out;
  dist::agree_on_rank0(host, [&] {
    protect(out, opening.inputs, opening.is_earlier_output);
    (opening.is_file ? check_new_file : check_output)(out, opening.replace);
  });
  return out;
}

job::TrainedModel open_model(job::ProcessContext& process, const ModelOpening& opening) {
  dist::Communicator& host = process.host;
  const std::filesystem::path out = guard_output(host, opening);
  job::TrainedModel model = job::load_model(host, opening.checkpoint,
                                            {.module_file = opening.how.module_file,
                                             .on_bad_sample = opening.on_bad_sample,
                                             .device = process.device});
  dist::agree_on_rank0(host, [&] {
    protect(out, {.files = {model.config.model.file}, .folders = {model.checkpoint}});
  });
  return model;
}

train::Precision place_on_device(job::ProcessContext& process, job::TrainedModel& model,
                                 config::AmpMode amp) {
  train::Precision precision{};
  dist::agree(process.host, [&] { precision = job::choose_precision(amp, process.device); });
  job::place_on_device(*model.task, precision, process.device);
  return precision;
}

}  // namespace dtrain::cli
