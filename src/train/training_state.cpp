#include "train/training_state.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "text/library_text.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::train {
namespace {

constexpr int kVersion = 3;

// Many readers of JSON take numbers as doubles, so 64-bit words are written as hexadecimal text.
uint64_t word(const nlohmann::ordered_json& json) {
  const auto text = json.get<std::string>();
  const std::optional<uint64_t> value = parse_hex(text);
  if (!value)
    throw CheckpointError(str("state.json has '", text, "' in the place of a hexadecimal number"));
  return *value;
}

// JSON has no NaN: null.
nlohmann::ordered_json number(double value) {
  return std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
}
double number(const nlohmann::ordered_json& json) {
  return json.is_null() ? kNoMetric : json.get<double>();
}

// A number of steps or samples. Those of a run stay far below the bound, and sums and doubles are
// exact up to it.
int64_t count(const nlohmann::ordered_json& json, const char* name, int64_t least) {
  constexpr int64_t kMost = int64_t{1} << 53;
  const nlohmann::ordered_json& value = json.at(name);
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(kMost)
                        : value.get<int64_t>() <= kMost;
  if (!fits || value.get<int64_t>() < least) {
    throw CheckpointError(str("state.json has ", name, " ", value.dump(),
                              ", which is not a whole number from ", least, " to ", kMost));
  }
  return value.get<int64_t>();
}

}  // namespace

std::string to_json(const TrainingState& s) {
  nlohmann::ordered_json json;
  json["version"] = kVersion;
  json["step"] = s.step;
  json["global_batch"] = s.global_batch;
  json["ledger"] = hex(s.ledger);
  json["metric"] = s.metric;
  json["best"] = number(s.watch.best);
  json["best_step"] = s.watch.best_step;
  for (const auto& [name, value] : s.evaluation) json["evaluation"][name] = number(value);
  json["evaluation_owed"] = s.evaluation_owed;
  json["early_stop"] = {{"bar", number(s.watch.bar)},
                        {"stale", s.watch.evaluations_without_improvement}};
  json["plateau"] = {{"best", number(s.plateau.best)},
                     {"bad", s.plateau.evaluations_without_improvement},
                     {"factor", s.plateau.factor}};
  json["scaler"] = {{"scale", s.scaler.scale},
                    {"growth_tracker", s.scaler.growth_tracker},
                    {"skipped", s.scaler.skipped}};
  json["data"] = {{"checksum", hex(s.data_checksum)}, {"splits", hex(s.splits_checksum)}};
  if (s.data_meaning) json["data"]["meaning"] = *s.data_meaning;
  if (s.data_modified_ns != 0) json["data"]["modified_ns"] = s.data_modified_ns;
  json["torch"] = s.torch_version;
  json["config"] = s.config_yaml;
  return json.dump(2) + "\n";
}

TrainingState from_json(const std::string& text) {
  try {
    const auto json = nlohmann::ordered_json::parse(text);
    if (json.at("version") != kVersion)
      throw CheckpointError(
          str("state.json has version ", json.at("version").dump(), ", not ", kVersion));
    TrainingState s;
    s.step = count(json, "step", 0);
    s.global_batch = count(json, "global_batch", 0);
    s.ledger = word(json.at("ledger"));
    s.metric = json.at("metric");
    s.evaluation_owed = json.at("evaluation_owed");
    if (const auto evaluation = json.find("evaluation"); evaluation != json.end()) {
      for (const auto& [name, value] : evaluation->items())
        s.evaluation.emplace_back(name, number(value));
    }
    s.watch = {number(json.at("best")), json.at("best_step"),
               number(json.at("early_stop").at("bar")), json.at("early_stop").at("stale")};
    const nlohmann::ordered_json& plateau = json.at("plateau");
    s.plateau = {number(plateau.at("best")), plateau.at("bad"), plateau.at("factor")};
    s.scaler = {json.at("scaler").at("scale"), json.at("scaler").at("growth_tracker"),
                json.at("scaler").at("skipped")};
    s.data_checksum = word(json.at("data").at("checksum"));
    s.splits_checksum = word(json.at("data").at("splits"));
    const nlohmann::json& data = json.at("data");
    if (data.contains("meaning"))
      s.data_meaning = data.at("meaning").get<std::map<std::string, std::string>>();
    s.data_modified_ns = data.value("modified_ns", int64_t{0});
    s.torch_version = json.at("torch");
    s.config_yaml = json.at("config");
    return s;
  } catch (const nlohmann::json::exception& e) {
    throw CheckpointError(str("state.json is damaged: ", json_defect(e.what())));
  }
}

}  // namespace dtrain::train
