#include "tune/tune_report.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "catalog/catalog.h"
#include "core/printable.h"
#include "core/strings.h"
#include "core/text_table.h"

namespace dtrain::tune {
namespace {

using Json = nlohmann::ordered_json;

std::string memory_text(const TuneResult& result) {
  if (result.largest.trials.empty()) return "";
  const std::string of = str(human_bytes(result.budget_bytes), " per rank");
  switch (result.largest.end) {
    case LargestBatch::End::kMost:
      return str("largest batch: ", result.largest.batch, " fits into ", of,
                 ", and a larger one is not needed: ",
                 result.keeps_global_batch
                     ? str("it is the rank's share of the global batch ", result.global_batch)
                     : str("there are ", human_count(result.samples), " training samples"),
                 "\n");
    case LargestBatch::End::kLimit:
      return result.largest.batch == 0
                 ? str("largest batch: none fits into ", of, "\n")
                 : str("largest batch that fits into ", of, ": ", result.largest.batch, "\n");
    case LargestBatch::End::kStopped:
      return str("largest batch: ", result.largest.batch, " fits into ", of,
                 "; there was no time to look for a larger one\n");
  }
  return "";
}

std::string table_of(const TuneResult& result) {
  std::vector<TextRow> rows;
  for (const Row& row : result.rows) {
    const Settings& s = row.settings;
    rows.push_back({row.chosen ? "*" : "", std::string(name_of(row.stage)), str(s.batch_size),
                    str(result.accumulate_of(s.batch_size)), std::string(name_of(s.amp)),
                    s.channels_last ? "yes" : "no", s.checkpointing ? "yes" : "no",
                    std::string(name_of(s.wire)), str(s.workers), str(s.prefetch),
                    std::isnan(row.samples_per_second) ? "-" : fixed(row.samples_per_second, 1),
                    std::isnan(row.memory_bytes) ? "-" : human_bytes(row.memory_bytes), row.note});
  }
  std::vector<Align> align(13, Align::kRight);
  align[0] = align[1] = align[12] = Align::kLeft;
  return text_table({"", "stage", "batch", "acc", "amp", "ch.last", "ckpt", "wire", "readers",
                     "ahead", "samples/s", "memory", "note"},
                    rows, align);
}

std::string range_text(const RangeTest& test) {
  std::string text = str("learning rate: ", test.rates.size(), " steps from ", test.rates.front(),
                         " to ", test.rates.back(), ", ");
  if (!test.suggestion)
    return text + "the loss does not fall by more than its noise: no suggestion\n";
  return str(text, "the loss falls fastest at ", scientific(test.suggestion->rate, 1),
             " and is lowest at ", scientific(test.suggestion->lowest, 1), " (-",
             fixed(100 * test.suggestion->fall, 0), " %); given: ", scientific(test.given, 1),
             "\n");
}

std::string result_text(const TuneResult& result) {
  std::string text = str("found: ", text_of(result.found), ", accumulate ",
                         result.accumulate_of(result.found.batch_size));
  if (result.found == result.given) {
    text = "found: nothing better than what is given: " + text_of(result.given);
  } else if (result.given_rate && result.found_rate) {
    text += "\n       " + gain_text(result);
  } else if (!result.given_fits) {
    text += str("\n       what is given does not fit into memory: ", text_of(result.given));
  }
  if (result.found_global_batch() != result.global_batch) {
    const double ratio =
        static_cast<double>(result.found_global_batch()) / static_cast<double>(result.global_batch);
    const bool tested = result.range_test && result.range_test->suggestion;
    text += str(
        "\n       global batch ", result.found_global_batch(), " in place of ", result.global_batch,
        tested
            ? "; the learning rate was tested with it"
            : str("; for it, linear scaling suggests --lr ", result.config.optimizer.lr * ratio));
  }
  return text + "\n";
}

Json json_of(const Settings& s) {
  return {{"train.batch_size", s.batch_size},
          {"train.amp", name_of(s.amp)},
          {"model.channels_last", s.channels_last},
          {"model.checkpointing", s.checkpointing},
          {"data.workers", s.workers},
          {"data.prefetch", s.prefetch},
          {"dist.wire", name_of(s.wire)}};
}

Json json_of(const std::optional<Spread>& rate) {
  if (!rate) return {};
  return {
      {"median", rate->median}, {"min", rate->low}, {"max", rate->high}, {"rounds", rate->count}};
}

Json json_of(const RangeTest& test) {
  Json json = {{"given", test.given}, {"rates", test.rates}, {"losses", test.losses}};
  json["suggestion"] = test.suggestion ? Json{{"rate", test.suggestion->rate},
                                              {"lowest", test.suggestion->lowest},
                                              {"fall", test.suggestion->fall}}
                                       : Json();
  return json;
}

Json rows_of(const TuneResult& result) {
  Json rows = Json::array();
  for (const Row& row : result.rows) {
    Json one = {{"stage", name_of(row.stage)}};
    one.update(json_of(row.settings));
    one.update(Json{{"accumulate", result.accumulate_of(row.settings.batch_size)},
                    {"samples_per_second", row.samples_per_second},
                    {"seconds", row.seconds},
                    {"memory_bytes", row.memory_bytes},
                    {"chosen", row.chosen},
                    {"note", row.note}});
    rows.push_back(std::move(one));
  }
  return rows;
}

const char* name_of_end(LargestBatch::End end) {
  return end == LargestBatch::End::kMost    ? "all fit"
         : end == LargestBatch::End::kLimit ? "limit"
                                            : "stopped";
}

}  // namespace

std::string gain_text(const TuneResult& result) {
  if (!result.found_rate) return "";
  const std::string found = str(fixed(result.found_rate->median, 1), " samples/s");
  if (!result.given_rate || result.found == result.given) return found;
  const double gain = 100 * (result.found_rate->median / result.given_rate->median - 1);
  return str(found, " in place of ", fixed(result.given_rate->median, 1), " (", gain < 0 ? "" : "+",
             fixed(gain, 1), " %)");
}

std::string catalog_row(const TuneResult& result) {
  const config::Config& config = result.config;
  const bool picture = catalog::row(config.task).sample == catalog::Sample::kPicture;
  const bool found = result.largest.end == LargestBatch::End::kLimit && result.largest.batch > 0;
  if (result.card.empty() || !picture || !found) return "";
  const Settings& s = result.found;
  const bool half = s.amp == config::AmpMode::kBf16 || s.amp == config::AmpMode::kFp16;
  return str("{.network = \"", name_of(config::network_of(config)),
             "\", .image_size = ", config.model.image_size, ", .half = ", half ? "true" : "false",
             ", .checkpointing = ", s.checkpointing ? "true" : "false",
             ", .batch_size = ", result.largest.batch, "}");
}

std::string text_of(const TuneResult& result, const std::string& patch) {
  std::string text = str(
      result.config.model.name, ", ",
      printable(std::filesystem::path(result.config.data.file).filename().string()), "; ",
      result.ranks, result.ranks == 1 ? " rank" : " ranks", " on ", result.device,
      ", global batch ", result.global_batch, "; samples/s of all ranks; *: taken in its stage\n",
      table_of(result), memory_text(result));
  if (!result.start.empty()) text += "the search for it " + result.start + "\n";
  if (const std::string row = catalog_row(result); !row.empty() && !result.interrupted) {
    text += str("for `measured` of ", result.card, " in src/catalog/gpus.cpp: ", row, "\n");
  }
  for (const std::string& one : result.left_out) text += "not tried: " + one + "\n";
  if (result.range_test) text += range_text(*result.range_test);
  if (result.interrupted)
    return text + "interrupted: this is what was found so far, and no config was written\n";
  text += result_text(result);
  text += str("took ", human_duration(result.seconds));
  return text + (patch.empty() ? "\n" : str("; `dtrain ", printable(patch), "` trains with it\n"));
}

std::string json_of(const TuneResult& result, const std::string& patch) {
  Json json = {{"command", "tune"},
               {"network", str(result.config.model.name)},
               {"data", result.config.data.file},
               {"device", result.device},
               {"ranks", result.ranks},
               {"global_batch", result.global_batch},
               {"samples", result.samples},
               {"budget_bytes", result.budget_bytes},
               {"largest_batch",
                {{"batch_size", result.largest.batch},
                 {"end", name_of_end(result.largest.end)},
                 {"trials", result.largest.trials.size()},
                 {"start", result.start},
                 {"catalog_row", catalog_row(result)}}},
               {"given", json_of(result.given)},
               {"given_fits", result.given_fits},
               {"given_samples_per_second", json_of(result.given_rate)},
               {"found", json_of(result.found)},
               {"found_accumulate", result.accumulate_of(result.found.batch_size)},
               {"found_global_batch", result.found_global_batch()},
               {"found_samples_per_second", json_of(result.found_rate)},
               {"rows", rows_of(result)},
               {"left_out", result.left_out},
               {"interrupted", result.interrupted},
               {"seconds", result.seconds},
               {"patch", patch}};
  if (result.range_test) json["range_test"] = json_of(*result.range_test);
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::tune
