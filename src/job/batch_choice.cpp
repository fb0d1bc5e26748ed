#include "job/batch_choice.h"

#include <vector>

#include "core/error.h"
#include "text/strings.h"
#include "train/batch_arithmetic.h"

namespace dtrain::job {
namespace {

std::string place_of(const config::Loaded& loaded, std::string_view key) {
  const auto found = loaded.places.find(key);
  return found == loaded.places.end() ? "default" : found->second;
}

std::string decided_by(const config::Train& train, const config::Loaded& loaded) {
  if (loaded.overruled.global_batch > 0) {
    std::vector<std::string> places;
    for (const char* key : {"train.batch_size", "train.accumulate"}) {
      if (loaded.gives(key)) places.push_back(place_of(loaded, key));
    }
    return str(join(places, " and "), "; train.global_batch ", loaded.overruled.global_batch,
               " of ", loaded.overruled.source, " does not count");
  }
  if (train.global_batch > 0)
    return str("train.global_batch (", place_of(loaded, "train.global_batch"), ")");
  return "train.batch_size × ranks × train.accumulate";
}

}  // namespace

BatchChoice choose_batch(const config::Train& train, const config::Loaded& loaded, int64_t ranks,
                         bool resumed) {
  BatchChoice choice{
      train,
      resumed ? "the checkpoint: a resumed run keeps its global batch" : decided_by(train, loaded),
      ""};
  if (train.global_batch == 0) return choice;
  choice.train.accumulate = 0;
  const int64_t needed = train::micro_steps(train.global_batch, ranks, train.batch_size);
  if (train.accumulate == 0 || train.accumulate == needed) return choice;
  if (resumed) {
    choice.notice =
        str("train.accumulate ", train.accumulate, " (", place_of(loaded, "train.accumulate"),
            ") does not fit the checkpoint's global batch of ", train.global_batch, " on ", ranks,
            ranks == 1 ? " rank × " : " ranks × ", train.batch_size, ": ", needed, " is used");
    return choice;
  }
  const auto given = [&](const char* key, int64_t value) {
    return str(key, " ", value, " (", place_of(loaded, key), ")");
  };
  throw ConfigError(str(given("train.global_batch", train.global_batch), " on ", ranks,
                        ranks == 1 ? " rank with " : " ranks with ",
                        given("train.batch_size", train.batch_size), " needs train.accumulate ",
                        needed, ", not ", given("train.accumulate", train.accumulate),
                        ": leave train.accumulate out, and it is derived"));
}

std::string rate_advice(const config::Loaded& loaded, double rate, int64_t global_batch) {
  const config::ConfigBatch& meant = loaded.of_rate;
  if (meant.global_batch == 0 || meant.global_batch == global_batch) return "";
  return str(rate, " is for the global batch of ", meant.global_batch, " of ", meant.source,
             "; for ", global_batch, ", linear scaling suggests --lr ",
             rate * static_cast<double>(global_batch) / static_cast<double>(meant.global_batch));
}

}  // namespace dtrain::job
