#include "train/training_state.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::train {
namespace {

constexpr int kVersion = 3;

// JSON numbers are doubles to many readers: 64-bit words travel as hexadecimal text.
std::string hex(uint64_t word) {
  char text[19];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(word));
  return text;
}

// NaN, for which JSON has no number, is null.
nlohmann::ordered_json number(double value) {
  return std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
}
double number(const nlohmann::json& json) { return json.is_null() ? kNoMetric : json.get<double>(); }

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
  json["evaluation_owed"] = s.evaluation_owed;
  json["early_stop"] = {{"bar", number(s.watch.bar)}, {"stale", s.watch.stale}};
  json["plateau"] = {{"best", number(s.plateau.best)}, {"bad", s.plateau.bad}, {"factor", s.plateau.factor}};
  json["scaler"] = {
      {"scale", s.scaler.scale}, {"growth_tracker", s.scaler.growth_tracker}, {"skipped", s.scaler.skipped}};
  json["data"] = {{"checksum", hex(s.data_checksum)}, {"splits", hex(s.splits_checksum)}};
  json["torch"] = s.torch_version;
  json["config"] = s.config_yaml;
  return json.dump(2) + "\n";
}

TrainingState from_json(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("version") != kVersion)
      throw CheckpointError(str("state.json has version ", json.at("version").dump(), ", not ", kVersion));
    TrainingState s;
    s.step = json.at("step");
    s.global_batch = json.at("global_batch");
    s.ledger = std::stoull(json.at("ledger").get<std::string>(), nullptr, 16);
    s.metric = json.at("metric");
    s.evaluation_owed = json.at("evaluation_owed");
    s.watch = {number(json.at("best")), json.at("best_step"), number(json.at("early_stop").at("bar")),
               json.at("early_stop").at("stale")};
    const nlohmann::json& plateau = json.at("plateau");
    s.plateau = {number(plateau.at("best")), plateau.at("bad"), plateau.at("factor")};
    s.scaler = {json.at("scaler").at("scale"), json.at("scaler").at("growth_tracker"), json.at("scaler").at("skipped")};
    s.data_checksum = std::stoull(json.at("data").at("checksum").get<std::string>(), nullptr, 16);
    s.splits_checksum = std::stoull(json.at("data").at("splits").get<std::string>(), nullptr, 16);
    s.torch_version = json.at("torch");
    s.config_yaml = json.at("config");
    return s;
  } catch (const nlohmann::json::exception& e) {
    throw CheckpointError(str("state.json cannot be read: ", e.what()));
  } catch (const std::logic_error& e) {
    throw CheckpointError(str("state.json has a misshapen number: ", e.what()));
  }
}

}  // namespace dtrain::train
