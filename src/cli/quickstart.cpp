#include "cli/quickstart.h"

#include "core/log.h"
#include "core/strings.h"
#include "data/synth/synth.h"

namespace dtrain::cli {

std::filesystem::path quickstart_file(const config::Config& config) {
  return std::filesystem::path("data") / str("quickstart-", config.model.image_size, ".h5");
}

void make_quickstart_data(const config::Config& config, int threads) {
  const std::filesystem::path file = quickstart_file(config);
  if (std::filesystem::exists(file)) return;
  log::info(str("generating the quick-start set, ", file.string(), ": no data.file or --dataset was given"));
  const data::SynthSummary made = data::synth("headpose", {.layout = "hdf5",
                                                           .out = file,
                                                           .samples = 4000,
                                                           .size = static_cast<int>(config.model.image_size),
                                                           .threads = threads});
  log::info(str("generated ", human_count(made.samples), " heads in ", human_duration(made.seconds)));
}

}  // namespace dtrain::cli
