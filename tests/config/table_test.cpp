// What follows from the table: every key is reachable, printable and documented.

#include "config/table.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <sstream>

#include "config/load.h"
#include "config/print.h"
#include "core/file_system.h"
#include "core/strings.h"

namespace dtrain::config {
namespace {

using ::testing::HasSubstr;

// A valid value of `option` other than its default. Keys that depend on each other get values that fit.
std::string other_value(const Option& option) {
  if (option.path == "dist.first_bucket_mb") return "0.5";
  if (option.path == "dist.bucket_mb") return "33.5";
  if (option.path == "optimizer.nesterov") return "false";
  if (option.path == "task.name") return "classify";
  if (option.path == "model.name") return "resnet50";
  if (is_bool(option)) return value_text(option) == "true" ? "false" : "true";
  if (is_text(option)) {
    const auto* choice = std::get_if<Choice>(&option.target);
    return choice == nullptr ? "some-text" : choice->names().back();
  }
  if (is_interval(option)) return "7s,0.25m";
  const bool whole = !std::holds_alternative<double*>(option.target);
  std::vector<std::string> candidates = {"7", "1234567", "33"};
  if (!whole) candidates = {"0.30000000000000004", "1.5", "1e-08", "1000.125"};
  for (const std::string& candidate : candidates) {
    Config config;
    for (const Option& other : describe(config)) {
      if (other.path == option.path && value_text(other) != candidate && assign(other, candidate).empty())
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

TEST(Table, EveryKeyIsReachableByFlagAndByYaml) {
  Config defaults;
  for (const Option& option : describe(defaults)) {
    const std::string value = other_value(option);
    std::vector<std::string> flags = {"--" + option.path};
    if (!option.alias.empty()) flags.push_back("--" + option.alias);
    const bool is_data = option.path == "data.file";
    const bool of_classes = option.path == "train.label_smoothing" || option.path == "train.class_weights";
    for (const std::string& flag : flags) {
      std::vector<std::string> given = {flag, is_data ? "./x.h5" : value};
      if (of_classes) given.insert(given.end(), {"--task", "classify"});
      const Loaded loaded = load(given, "/nonexistent");
      EXPECT_EQ(value_of(loaded.config, option.path), is_data ? "./x.h5" : value);
      EXPECT_THAT(loaded.given, ::testing::Contains(option.path));
      EXPECT_EQ(loaded.given.size(), of_classes ? 2u : 1u);
    }
    const std::string task = of_classes ? "task: classify\n" : "";
    const std::string nested = str(task, option.section(), ":\n  ", option.key(), ": ", value);
    EXPECT_EQ(value_of(from_yaml(nested, "nested"), option.path), value);
    EXPECT_EQ(value_of(from_yaml(str(task, option.path, ": ", value), "dotted"), option.path), value);
  }
}

TEST(Table, NamesAreUniqueAndSectionsKnown) {
  Config defaults;
  std::set<std::string> names, known;
  for (const Section& section : sections()) known.insert(section.name);
  for (const Option& option : describe(defaults)) {
    EXPECT_TRUE(names.insert(option.path).second) << option.path;
    EXPECT_TRUE(option.alias.empty() || names.insert(option.alias).second) << option.alias;
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
                                                       {"epochs", "train.epochs"},
                                                       {"batch-size", "train.batch_size"},
                                                       {"lr", "optimizer.lr"},
                                                       {"workers", "data.workers"},
                                                       {"amp", "train.amp"},
                                                       {"accumulate", "train.accumulate"},
                                                       {"init", "model.init"},
                                                       {"resume", "run.resume"},
                                                       {"task", "task.name"},
                                                       {"name", "run.name"}};
  EXPECT_EQ(aliases, expected);
}

TEST(Table, TheDefaultsAreValid) {
  Config config;
  for (const Option& option : describe(config)) EXPECT_EQ(assign(option, value_text(option)), "") << option.path;
}

TEST(Yaml, PrintingRestoresEveryBit) {
  Config config;
  for (const Option& option : describe(config)) ASSERT_EQ(assign(option, other_value(option)), "") << option.path;
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
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(value_text(before[i]), value_text(after[i])) << before[i].path;
  EXPECT_EQ(again.optimizer.lr, config.optimizer.lr);
  EXPECT_EQ(again.optimizer.eps, config.optimizer.eps);
  EXPECT_EQ(again.dist.timeout, config.dist.timeout);
  EXPECT_EQ(again.train.seed, config.train.seed);
  EXPECT_EQ(again.run.name, config.run.name);
  EXPECT_EQ(again.model.init, config.model.init);
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
    EXPECT_THAT(everyday, HasSubstr("--" + option.alias + " " + option.text));
  }
}

TEST(Reference, TheCommittedFileIsWhatTheTableSays) {
  EXPECT_EQ(read_text(DTRAIN_SOURCE "/docs/configuration.md"), reference_markdown())
      << "run: cmake --build build --target configuration_reference";
}

}  // namespace
}  // namespace dtrain::config
