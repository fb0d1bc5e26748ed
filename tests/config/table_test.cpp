// What follows from the table: every key is reachable, printable and documented.

#include "config/keys.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "config/config_builder.h"
#include "config/load.h"
#include "config/print.h"
#include "config/rules.h"
#include "config/synonyms.h"
#include "os/file_system.h"
#include "text/strings.h"

namespace dtrain::config {
namespace {

using ::testing::HasSubstr;

// A valid value of `option` other than its default. Keys that depend on each other get values
// that fit.
std::string other_value(const Option& option) {
  if (option.path == "dist.first_bucket_mb") return "0.5";
  if (option.path == "dist.bucket_mb") return "33.5";
  if (option.path == "optimizer.nesterov") return "false";
  if (option.path == "task.name") return "classify";
  if (option.path == "model.name") return "resnet50";
  if (option.path == "device.preset") return "auto";
  if (is_bool(option)) return value_text(option) == "true" ? "false" : "true";
  if (is_text(option)) {
    const auto* choice = std::get_if<Choice>(&option.target);
    return choice == nullptr ? "some-text" : choice->names().back();
  }
  if (is_interval(option)) return "7steps,0.25min";
  if (is_warm_up(option)) return "7steps,0.25%";
  const bool whole = !std::holds_alternative<double*>(option.target);
  std::vector<std::string> candidates = {"7", "1234567", "33"};
  if (!whole) candidates = {"0.30000000000000004", "1.5", "1e-08", "1000.125"};
  for (const std::string& candidate : candidates) {
    Config config;
    for (const Option& other : describe(config)) {
      if (other.path == option.path && value_text(other) != candidate &&
          assign(other, candidate).empty())
        return candidate;
    }
  }
  ADD_FAILURE() << "no value for " << option.path;
  return "";
}

std::string value_of(Config config, const std::string& path) {
  for (const Option& option : describe(config)) {
    if (option.path == path) return value_text(option);
  }
  return "no such key";
}

// A task and a network for which the key does something, as flags: none where the defaults do.
std::vector<std::string> run_with(const Option& option) {
  if (option.scope.holds(Config{})) return {};
  for (const std::string& task : names_of(catalog::TaskId{})) {
    Config config;
    config.task = catalog::task_named(task);
    if (!option.scope.holds(config)) continue;
    std::vector<std::string> flags = {"--task", task};
    const bool needs_file =
        catalog::row(config.task).network_from_file() && option.path != "model.file";
    if (needs_file) flags.insert(flags.end(), {"--model.file", "m.pt"});
    return flags;
  }
  ADD_FAILURE() << "no run uses " << option.path;
  return {};
}

TEST(Table, AMistypedKeyWithoutItsSectionSuggestsTheKey) {
  Config defaults;
  const std::vector<Option> options = describe(defaults);
  for (const Option& option : options) {
    const std::string key = option.key();
    const bool shared =
        std::ranges::count_if(options, [&](const Option& o) { return o.key() == key; }) > 1;
    std::string dashed = key, shorter = key;
    std::ranges::replace(dashed, '_', '-');
    shorter.erase(key.size() / 2, 1);
    EXPECT_EQ(nearest_key(dashed, options), shared ? "" : option.path) << dashed;
    // Words of two or three letters are near too many keys.
    EXPECT_EQ(nearest_key(shorter, options), shared || shorter.size() < 4 ? "" : option.path)
        << shorter;
  }
}

TEST(Table, EveryKeyIsReachableByFlagAndByYaml) {
  Config defaults;
  for (const Option& option : describe(defaults)) {
    const std::string value = other_value(option);
    const std::vector<std::string> run = run_with(option);
    std::vector<std::string> flags;
    for (const std::string& name : option.names()) flags.push_back("--" + name);
    const bool is_data = option.path == "data.file";
    for (const std::string& flag : flags) {
      std::vector<std::string> given = {flag, is_data ? "./x.h5" : value};
      given.insert(given.end(), run.begin(), run.end());
      const Loaded loaded = load(given, "/nonexistent");
      EXPECT_EQ(value_of(loaded.config, option.path), is_data ? "./x.h5" : value);
      EXPECT_THAT(loaded.given, ::testing::Contains(option.path));
      EXPECT_EQ(loaded.given.size(), given.size() / 2);
    }
    std::string other_keys;
    for (size_t i = 0; i < run.size(); i += 2)
      other_keys += str(run[i].substr(2), ": ", run[i + 1], "\n");
    const std::string dotted = str(other_keys, option.path, ": ", value);
    EXPECT_EQ(value_of(from_yaml(dotted, "dotted"), option.path), value);
    if (!run.empty() && option.section() == "task")
      continue;  // `task: NAME` and a section `task` at once
    const std::string nested =
        str(other_keys, option.section(), ":\n  ", option.key(), ": ", value);
    EXPECT_EQ(value_of(from_yaml(nested, "nested"), option.path), value);
  }
}

// The keys that each run may have, beside those of all runs. This is the table that people rely on:
// a new key of a task belongs here.
TEST(Table, EachRunHasTheKeysThatDoSomethingForIt) {
  const std::string pictures =
      "model.image_size model.channels_last augment.crop_scale augment.crop_ratio "
      "augment.brightness augment.contrast "
      "augment.saturation augment.hue";
  const std::map<std::string, std::string> expected = {
      {"headpose headpose_cnn",
       pictures + " augment.hflip model.checkpointing model.dropout train.freeze_batch_norm "
                  "train.sync_batch_norm device.fused_norm"},
      {"headpose resnet18", pictures + " augment.hflip model.checkpointing train.freeze_batch_norm "
                                       "train.sync_batch_norm device.fused_norm"},
      {"classify simple_cnn",
       pictures + " augment.hflip model.checkpointing model.dropout train.label_smoothing "
                  "train.class_weights"},
      {"classify mobilenet_v2",
       pictures +
           " augment.hflip model.checkpointing model.dropout train.label_smoothing "
           "train.class_weights train.freeze_batch_norm train.sync_batch_norm device.fused_norm"},
      {"pointer pointer_network",
       "data.length_window data.length_classes model.hidden model.dropout pointer.teacher_forcing "
       "pointer.teacher_forcing_end"},
      {"sequence cnn_lstm",
       "data.length_window data.length_classes augment.noise augment.mask_share augment.mask_span "
       "model.hidden "
       "model.dropout train.label_smoothing train.freeze_batch_norm train.sync_batch_norm "
       "device.fused_norm "
       "sequence.encoder_epochs sequence.classifier_epochs sequence.iterations "
       "sequence.encoder_lr_ratio"},
      {"module torchscript image mse", pictures + " task.loss task.inputs model.file"},
      {"module torchscript image cross_entropy",
       pictures + " task.loss task.inputs model.file augment.hflip train.label_smoothing"},
      {"module torchscript image bce_with_logits",
       pictures + " task.loss task.inputs model.file augment.hflip"},
      {"module torchscript rows mse",
       "task.loss task.inputs model.file model.channels_last data.length_window "
       "data.length_classes"},
  };
  for (const auto& [run, keys] : expected) {
    const std::vector<std::string> words = split(run, ' ');
    Config config;
    config.task = catalog::task_named(words[0]);
    config.model.name = catalog::network_named(words[1]);
    if (words.size() > 2) config.module.inputs = *value_named<ModuleInputs>(words[2]);
    if (words.size() > 2) config.module.loss = *value_named<LossName>(words[3]);
    config.model.file = words[0] == "module" ? "m.pt" : "";
    const std::vector<std::string> own = split(keys, ' ');
    const std::string printed = to_yaml(config);
    Config scratch;
    for (const Option& option : describe(scratch)) {
      const bool used =
          std::string(option.scope.text).empty() || std::ranges::count(own, option.path) > 0;
      EXPECT_EQ(option.scope.holds(config), used) << run << ": " << option.path;
      EXPECT_EQ(broken_rules(config, {{option.path, "c.yaml:1:1"}}, {option.path}).empty(), used)
          << run << ": " << option.path;
      const std::string line = str("\n  ", option.key(), ": ");
      const size_t section = ("\n" + printed).find("\n" + option.section() + ":\n");
      const size_t next = section == std::string::npos ? section : printed.find("\n\n", section);
      const std::string keys_of_section =
          section == std::string::npos ? "" : printed.substr(section, next - section);
      EXPECT_EQ(("\n" + keys_of_section).find(line) != std::string::npos, used)
          << run << ": " << option.path;
    }
  }
}

TEST(Table, NamesAreUniqueAndSectionsKnown) {
  Config defaults;
  std::set<std::string> names, known;
  for (const Section& section : sections()) known.insert(section.name);
  for (const Option& option : describe(defaults)) {
    EXPECT_TRUE(names.insert(option.path).second) << option.path;
    EXPECT_TRUE(option.alias.empty() || names.insert(option.alias).second) << option.alias;
    EXPECT_TRUE(option.also.empty() || names.insert(option.also).second) << option.also;
    EXPECT_TRUE(known.contains(option.section())) << option.path;
    EXPECT_FALSE(option.text.empty()) << option.path;
  }
}

TEST(Table, TheShortNamesExist) {
  Config defaults;
  std::map<std::string, std::string> aliases;
  for (const Option& option : describe(defaults)) {
    if (!option.alias.empty()) aliases[option.alias] = option.path;
  }
  const std::map<std::string, std::string> expected = {{"dataset", "data.file"},
                                                       {"device", "device.type"},
                                                       {"threads", "device.threads"},
                                                       {"seed", "train.seed"},
                                                       {"module", "model.file"},
                                                       {"image-size", "model.image_size"},
                                                       {"inputs", "task.inputs"},
                                                       {"epochs", "train.epochs"},
                                                       {"batch-size", "train.batch_size"},
                                                       {"lr", "optimizer.lr"},
                                                       {"workers", "data.workers"},
                                                       {"amp", "train.amp"},
                                                       {"accumulate", "train.accumulate"},
                                                       {"init", "model.init"},
                                                       {"resume", "run.resume"},
                                                       {"diagnose", "run.diagnose"},
                                                       {"preset", "device.preset"},
                                                       {"progress", "run.progress"},
                                                       {"task", "task.name"},
                                                       {"name", "run.name"}};
  EXPECT_EQ(aliases, expected);
}

TEST(Table, NumbersRefuseWhatIsNone) {
  Config config;
  for (const Option& option : describe(config)) {
    if (is_text(option) || is_bool(option) || is_interval(option) || is_warm_up(option)) continue;
    for (const char* text : {"", " ", "1x", "nan", "inf", "-inf", "0xff", "010", "+1", " 1", "1 ",
                             "1_000", "8,9", "8,", ",8", "1e999", "-99999999999999999999999"}) {
      EXPECT_NE(assign(option, text), "") << option.path << " takes '" << text << "'";
    }
    if (std::holds_alternative<double*>(option.target)) continue;
    EXPECT_THAT(assign(option, "99999999999999999999999"), HasSubstr("does not fit into 64 bits"))
        << option.path;
  }
}

TEST(Table, TheDefaultsAreValid) {
  Config config;
  for (const Option& option : describe(config))
    EXPECT_EQ(assign(option, value_text(option)), "") << option.path;
}

TEST(Yaml, PrintingRestoresEveryBitThatTheRunUses) {
  for (const std::string& task : names_of(catalog::TaskId{})) {
    Config config;
    for (const Option& option : describe(config))
      ASSERT_EQ(assign(option, other_value(option)), "") << option.path;
    config.task = catalog::task_named(task);
    config.model.name = catalog::NetworkId::kAuto;
    config.run.name = "\"quo\\ted\" # ünï: {x} 'y'";
    config.run.folder = "null";
    config.run.resume = "- a";
    config.data.file = "~";
    config.model.init = " spaces ";
    config.optimizer.lr = 0.1 + 0.2;
    config.optimizer.eps = 4.9406564584124654e-324;
    config.dist.timeout = 123456.789012345678;
    config.train.seed = 18446744073709551615u;
    config.train.max_steps = 9223372036854775807;
    const Config again = from_yaml(to_yaml(config), "printed");
    Config a = config, b = again;
    const std::vector<Option> before = describe(a), after = describe(b);
    for (size_t i = 0; i < before.size(); ++i) {
      if (!before[i].scope.holds(config)) continue;
      EXPECT_EQ(value_text(before[i]), value_text(after[i])) << before[i].path;
    }
    EXPECT_EQ(again.optimizer.lr, config.optimizer.lr);
    EXPECT_EQ(again.optimizer.eps, config.optimizer.eps);
    EXPECT_EQ(again.dist.timeout, config.dist.timeout);
    EXPECT_EQ(again.train.seed, config.train.seed);
    EXPECT_EQ(again.run.name, config.run.name);
    EXPECT_EQ(again.model.init, config.model.init);
  }
}

// Without its line ends and columns.
std::string in_one_line(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string word; in >> word;) out += word + " ";
  return out;
}

TEST(Help, HasEveryKeyAndAlias) {
  Config defaults;
  const std::string help = in_one_line(help_text()), everyday = in_one_line(alias_help_text());
  for (const Option& option : describe(defaults)) {
    EXPECT_THAT(help, HasSubstr("--" + option.path));
    EXPECT_THAT(help, HasSubstr(option.text));
    if (option.alias.empty()) continue;
    EXPECT_THAT(help, HasSubstr(", --" + option.alias + " "));
    // Of some runs only: in the help of all keys.
    const bool is_of_all_runs = *option.scope.text == '\0';
    EXPECT_EQ(everyday.find("--" + option.alias + " " + option.text) != std::string::npos,
              is_of_all_runs);
  }
}

TEST(Help, ListsTheCommonShortNamesFirst) {
  const std::string everyday = alias_help_text();
  std::vector<size_t> places;
  for (const char* name :
       {"--dataset", "--task", "--epochs", "--batch-size", "--lr", "--amp", "--accumulate",
        "--workers", "--name", "--resume", "--init", "--progress"}) {
    places.push_back(("\n" + everyday).find(str("\n  ", name, " ")));
    EXPECT_NE(places.back(), std::string::npos) << name;
  }
  EXPECT_TRUE(std::ranges::is_sorted(places)) << everyday;
}

TEST(Synonyms, NameKeysThatExistAndWordsThatAreNoKeys) {
  Config defaults;
  std::set<std::string> keys;
  for (const Option& option : describe(defaults)) keys.insert(option.path);
  for (const char* word :
       {"learning_rate", "grad-clip", "early-stopping", "gradient_accumulation_steps", "pretrained",
        "optimizer", "batch", "num_workers", "precision", "checkpoint_path", "Max-Epochs",
        "sync-bn"}) {
    EXPECT_TRUE(keys.contains(std::string(key_called(word)))) << word << ": " << key_called(word);
  }
  EXPECT_EQ(key_called("grad-clip"), "optimizer.clip_norm");
  EXPECT_EQ(key_called("early-stopping"), "train.patience");
  EXPECT_EQ(key_called("pretrained"), "model.init");
  EXPECT_EQ(key_called("checkpoint_path"), "run.resume");
  EXPECT_EQ(key_called("precision"), "train.amp");
  EXPECT_EQ(key_called("gpus"), "");
  EXPECT_THAT(std::string(advice_about("GPUs")), HasSubstr("mpirun -np N"));
  for (const char* word : {"", " ", "lr", "learning", "rate", "a b", "blorg", "batch size"}) {
    EXPECT_EQ(key_called(word), "") << word;
    EXPECT_EQ(advice_about(word), "") << word;
  }
  for (const Option& option : describe(defaults))
    EXPECT_EQ(advice_about(option.key()), "") << option.path;
}

// A word of the table that names no key would be a suggestion that is wrong again.
TEST(Synonyms, EveryKeyOfTheirTableExists) {
  Config defaults;
  const std::vector<Option> table = describe(defaults);
  for (const std::string_view key : synonym_keys()) {
    EXPECT_TRUE(std::ranges::any_of(table, [&](const Option& o) { return o.path == key; })) << key;
  }
  EXPECT_GT(synonym_keys().size(), 40u);
}

TEST(Reference, TheCommittedFileIsWhatTheTableSays) {
  EXPECT_EQ(read_text(DTRAIN_SOURCE "/docs/configuration.md"), reference_markdown())
      << "run: cmake --build build --target configuration_reference";
}

}  // namespace
}  // namespace dtrain::config
