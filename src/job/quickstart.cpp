#include "job/quickstart.h"

#include <string>

#include "core/error.h"
#include "core/log.h"
#include "synth/synth.h"
#include "text/strings.h"

namespace dtrain::job {

std::filesystem::path quickstart_file(const config::Config& config) {
  std::string name = "quickstart";
  if (config.task != catalog::TaskId{}) name += str("-", config.task);
  if (catalog::row(config.task).sample == catalog::SampleKind::kPicture)
    name += str("-", config.model.image_size);
  return std::filesystem::path("data") / (name + ".h5");
}

void make_quickstart_data(const config::Config& config, int threads) {
  if (catalog::row(config.task).generated.generator == catalog::Generator::kNone) {
    throw ConfigError(str("task ", config.task,
                          " has no generated data: give a data file with --dataset FILE "
                          "(dtrain convert and dtrain synth make some)"));
  }
  const std::filesystem::path file = quickstart_file(config);
  if (std::filesystem::exists(file)) return;
  log::info(str("generating the quick-start set, ", file.string(),
                ": no data.file or --dataset was given"));
  const synth::SynthSummary made =
      synth::synth(str(config.task), {.layout = "hdf5",
                                      .out = file,
                                      .size = static_cast<int>(config.model.image_size),
                                      .threads = threads});
  log::info(str("generated ", human_count(made.samples), " ", catalog::row(config.task).sample, "s",
                " in ", human_duration(made.seconds)));
}

}  // namespace dtrain::job
