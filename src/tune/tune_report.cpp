#include "tune/tune_report.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "catalog/catalog.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/text_table.h"

namespace dtrain::tune {
namespace {

using Json = nlohmann::ordered_json;

std::string memory_text(const TuneResult& result) {
  const LargestBatch& largest = result.found.largest;
  const StepBatches& batches = result.run.batches;
  if (largest.trials.empty()) return "";
  const std::string of =
      str(human_bytes(static_cast<double>(result.run.budget.bytes)), " per rank");
  switch (largest.end) {
    case LargestBatch::End::kMost:
      return str("largest batch: ", largest.batch, " fits into ", of,
                 ", and a larger one is not needed: ",
                 batches.keeps_global_batch
                     ? str("it is the rank's share of the global batch ", batches.global_batch)
                     : str("there are ", human_count(batches.samples), " training samples"),
                 "\n");
    case LargestBatch::End::kLimit:
      return largest.batch == 0
                 ? str("largest batch: none fits into ", of, "\n")
                 : str("largest batch that fits into ", of, ": ", largest.batch, "\n");
    case LargestBatch::End::kStopped:
      return str("largest batch: ", largest.batch, " fits into ", of,
                 "; there was no time to look for a larger one\n");
  }
  return "";
}

std::string table_of(const TuneResult& result) {
  // The number of micro-steps stands beside the batch that it follows from.
  const auto add_keys = [](TextRow& row, const auto& cell, const std::string& accumulate) {
    for (const TunedKey& key : tuned_keys()) {
      row.push_back(cell(key));
      if (key.group == KeyGroup::kBatch) row.push_back(accumulate);
    }
  };
  TextRow heading = {"", "stage"};
  add_keys(
      heading, [](const TunedKey& key) { return std::string(key.heading); }, "acc");
  heading.insert(heading.end(), {"samples/s", "memory", "note"});
  std::vector<TextRow> rows;
  for (const TrialRow& row : result.found.rows) {
    const auto cell = [&](const TunedKey& key) {
      const std::string value = key.value(row.settings);
      return value == "true" ? "yes" : value == "false" ? "no" : value;
    };
    TextRow cells = {row.chosen ? "*" : "", str(row.stage)};
    add_keys(cells, cell, str(result.run.batches.accumulate_of(row.settings.batch_size)));
    cells.insert(cells.end(),
                 {std::isnan(row.samples_per_second) ? "-" : fixed(row.samples_per_second, 1),
                  std::isnan(row.memory_bytes) ? "-" : human_bytes(row.memory_bytes), row.note});
    rows.push_back(std::move(cells));
  }
  std::vector<Align> align(heading.size(), Align::kRight);
  align[0] = align[1] = align.back() = Align::kLeft;
  return text_table(heading, rows, align);
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
  const TuneState& found = result.found;
  const TunedSettings &given = result.run.given, &settings = found.settings;
  std::string text = str("found: ", text_of(settings), ", accumulate ",
                         result.run.batches.accumulate_of(settings.batch_size));
  if (settings == given) {
    text = "found: nothing better than what is given: " + text_of(given);
  } else if (found.given_rate && found.found_rate) {
    text += "\n       " + gain_text(result);
  } else if (!found.given_fits) {
    text += str("\n       what is given does not fit into memory: ", text_of(given));
  }
  const int64_t before = result.run.batches.global_batch, after = result.found_global_batch();
  if (after != before) {
    const double ratio = static_cast<double>(after) / static_cast<double>(before);
    const bool tested = found.range_test && found.range_test->suggestion;
    text += str("\n       global batch ", after, " in place of ", before,
                tested ? "; the learning rate was tested with it"
                       : str("; for it, linear scaling suggests --lr ",
                             result.run.config().optimizer.lr * ratio));
  }
  return text + "\n";
}

Json json_of(const TunedSettings& settings) {
  Json json;
  for (const TunedKey& key : tuned_keys()) {
    const std::string value = key.value(settings);  // a number, true, false, or a name
    json[key.path] = Json::accept(value) ? Json::parse(value) : Json(value);
  }
  return json;
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
  for (const TrialRow& row : result.found.rows) {
    Json one = {{"stage", name_of(row.stage)}};
    one.update(json_of(row.settings));
    one.update(Json{{"accumulate", result.run.batches.accumulate_of(row.settings.batch_size)},
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
  const TuneState& found = result.found;
  if (!found.found_rate) return "";
  const std::string rate = str(fixed(found.found_rate->median, 1), " samples/s");
  if (!found.given_rate || found.settings == result.run.given) return rate;
  const double gain = 100 * (found.found_rate->median / found.given_rate->median - 1);
  return str(rate, " in place of ", fixed(found.given_rate->median, 1), " (", gain < 0 ? "" : "+",
             fixed(gain, 1), " %)");
}

std::string catalog_row(const TuneResult& result) {
  const config::Config& config = result.run.config();
  const TuneState& found = result.found;
  const bool picture = catalog::row(config.task).sample == catalog::SampleKind::kPicture;
  const bool limit = found.largest.end == LargestBatch::End::kLimit && found.largest.batch > 0;
  if (found.card.empty() || !picture || !limit) return "";
  const TunedSettings& s = found.settings;
  const bool half = s.amp == config::AmpMode::kBf16 || s.amp == config::AmpMode::kFp16;
  return str("{.network = \"", name_of(config::network_of(config)),
             "\", .image_size = ", config.model.image_size, ", .half = ", half ? "true" : "false",
             ", .checkpointing = ", s.checkpointing ? "true" : "false",
             ", .batch_size = ", found.largest.batch, "}");
}

std::string text_of(const TuneResult& result, const std::string& patch) {
  const config::Config& config = result.run.config();
  const StepBatches& batches = result.run.batches;
  const TuneState& found = result.found;
  std::string text = str(config.model.name, ", ",
                         printable(std::filesystem::path(config.data.file).filename().string()),
                         "; ", batches.ranks, batches.ranks == 1 ? " rank" : " ranks", " on ",
                         result.run.device, ", global batch ", batches.global_batch,
                         "; samples/s of all ranks; *: taken in its stage\n", table_of(result),
                         memory_text(result));
  if (!found.start.empty()) text += "the search for it " + found.start + "\n";
  if (const std::string row = catalog_row(result); !row.empty() && !result.interrupted) {
    text += str("for `measured` of ", found.card, " in src/catalog/gpus.cpp: ", row, "\n");
  }
  for (const std::string& one : found.left_out) text += "not tried: " + one + "\n";
  if (found.range_test) text += range_text(*found.range_test);
  if (result.interrupted)
    return text + "interrupted: this is what was found so far, and no config was written\n";
  text += result_text(result);
  text += str("took ", human_duration(result.seconds));
  return text + (patch.empty() ? "\n" : str("; `dtrain ", printable(patch), "` trains with it\n"));
}

std::string json_of(const TuneResult& result, const std::string& patch) {
  const TunedRun& run = result.run;
  const TuneState& found = result.found;
  Json json = {{"command", "tune"},
               {"network", str(run.config().model.name)},
               {"data", run.config().data.file},
               {"device", run.device},
               {"ranks", run.batches.ranks},
               {"global_batch", run.batches.global_batch},
               {"samples", run.batches.samples},
               {"budget_bytes", static_cast<double>(run.budget.bytes)},
               {"largest_batch",
                {{"batch_size", found.largest.batch},
                 {"end", name_of_end(found.largest.end)},
                 {"trials", found.largest.trials.size()},
                 {"start", found.start},
                 {"catalog_row", catalog_row(result)}}},
               {"given", json_of(run.given)},
               {"given_fits", found.given_fits},
               {"given_samples_per_second", json_of(found.given_rate)},
               {"found", json_of(found.settings)},
               {"found_accumulate", run.batches.accumulate_of(found.settings.batch_size)},
               {"found_global_batch", result.found_global_batch()},
               {"found_samples_per_second", json_of(found.found_rate)},
               {"rows", rows_of(result)},
               {"left_out", found.left_out},
               {"interrupted", result.interrupted},
               {"seconds", result.seconds},
               {"patch", patch}};
  if (found.range_test) json["range_test"] = json_of(*found.range_test);
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::tune
