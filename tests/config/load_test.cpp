#include "config/load.h"
#include "config/differences.h"
#include "config/print.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "config/table.h"
#include "core/error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class LoadTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  Loaded load_here(const std::vector<std::string>& arguments) {
    return load(arguments, folder_.path());
  }

  dtrain::testing::TempDir folder_;
};

TEST_F(LoadTest, WithoutArgumentsItIsTheEmbeddedQuickStart) {
  const Loaded loaded = load_here({});
  EXPECT_EQ(loaded.source, "the embedded quickstart");
  EXPECT_EQ(loaded.config_file, "");
  EXPECT_EQ(to_yaml(loaded.config),
            to_yaml(from_yaml(embedded("quickstart").value(), "quickstart")));
  EXPECT_EQ(loaded.config.data.file, "");
  EXPECT_LT(loaded.config.model.image_size, Config{}.model.image_size);
  EXPECT_THAT(loaded.given, IsEmpty());
}

TEST_F(LoadTest, TheConfigOfALaunchTakesThePlaceOfAnyFile) {
  const auto with = [&](const std::string& variable, const std::vector<std::string>& arguments) {
    ::setenv(kLaunchConfig, variable.c_str(), 1);
    Loaded loaded = load_here(arguments);
    ::unsetenv(kLaunchConfig);
    return loaded;
  };
  write("my.yaml", "optimizer:\n  lr: 0.5\n");
  const Loaded mine = load_here({"my.yaml"});
  EXPECT_EQ(mine.config_text, "optimizer:\n  lr: 0.5\n");
  write("my.yaml", "optimizer:\n  lr: 0.7\n");
  const Loaded kept = with("my.yaml\n" + mine.config_text, {"my.yaml", "--epochs", "3"});
  EXPECT_EQ(kept.config.optimizer.lr, 0.5);
  EXPECT_EQ(kept.config.train.epochs, 3);
  EXPECT_EQ(kept.source, mine.source);
  std::filesystem::remove(folder_ / "my.yaml");
  EXPECT_EQ(with("my.yaml\n" + mine.config_text, {"my.yaml"}).config.optimizer.lr, 0.5);
  // One that began without a file does not take up one that came later.
  write("dtrain.yaml", "optimizer:\n  lr: 0.7\n");
  EXPECT_EQ(with("\n", {"--dataset", "./d.h5"}).config_file, "");
  EXPECT_EQ(load_here({"--dataset", "./d.h5"}).config.optimizer.lr, 0.7);
}

TEST_F(LoadTest, ATaskAloneIsItsEmbeddedQuickStart) {
  for (const std::string task : {"classify", "pointer", "sequence"}) {
    const Loaded loaded = load_here({"--task", task});
    EXPECT_EQ(loaded.source, "the embedded quickstart_" + task);
    EXPECT_EQ(name_of(loaded.config.task), task);
    EXPECT_EQ(loaded.config.data.file, "");
  }
  EXPECT_EQ(load_here({"--task", "headpose"}).source, "the embedded quickstart");
  EXPECT_EQ(load_here({"--task", "pointer", "--dataset", "./sets.h5"}).source, "the defaults");
}

TEST_F(LoadTest, EveryConvertedSetHasAConfigOfItsOwn) {
  const std::map<std::string, std::string> tasks = {{"300wlp", "headpose"},
                                                    {"biwi", "headpose"},
                                                    {"images", "classify"},
                                                    {"pointer", "pointer"},
                                                    {"sequence", "sequence"}};
  for (const auto& [name, task] : tasks) {
    write("data/" + name + ".h5", "");
    const Loaded loaded = load_here({"--dataset", name});
    EXPECT_EQ(name_of(loaded.config.task), task);
    EXPECT_EQ(loaded.config.data.file, (folder_.path() / "data" / (name + ".h5")).string());
  }
}

TEST_F(LoadTest, FlagsWinOverTheFileAndTheFileOverTheDefaults) {
  write("dtrain.yaml", "train:\n  epochs: 7\n  batch_size: 5\n");
  const Loaded loaded = load_here({"--batch-size", "9", "--optimizer.lr=0.5"});
  EXPECT_EQ(loaded.source, "dtrain.yaml");
  EXPECT_EQ(loaded.config.train.epochs, 7);
  EXPECT_EQ(loaded.config.train.batch_size, 9);
  EXPECT_EQ(loaded.config.optimizer.lr, 0.5);
  EXPECT_EQ(loaded.config.model.image_size, Config{}.model.image_size);
  EXPECT_THAT(loaded.given, ElementsAre("train.epochs", "train.batch_size", "optimizer.lr"));
}

TEST_F(LoadTest, ANamedFileTakesThePlaceOfDtrainYaml) {
  write("dtrain.yaml", "train: {epochs: 7}\n");
  write("other.yaml", "train: {batch_size: 5}\n");
  const Loaded loaded = load_here({"--lr", "0.5", "other.yaml"});
  EXPECT_EQ(loaded.source, "other.yaml");
  EXPECT_EQ(loaded.config_file, "other.yaml");
  EXPECT_EQ(loaded.config.train.epochs, Config{}.train.epochs);
  EXPECT_EQ(loaded.config.train.batch_size, 5);
}

TEST_F(LoadTest, TheFileAndTheFlagsOverrideTheConfigOfANamedDataSet) {
  write("data/300wlp.h5", "");
  write("dtrain.yaml", "train: {epochs: 3}\ndata: {file: mine.h5}\n");
  const Config below = from_yaml(embedded("headpose_300wlp").value(), "300wlp");
  const Loaded loaded = load_here({"--dataset", "300wlp", "--lr", "0.25"});
  EXPECT_EQ(loaded.source, "dtrain.yaml over the embedded headpose_300wlp");
  EXPECT_EQ(loaded.config_file, "dtrain.yaml");
  EXPECT_EQ(loaded.config.data.file, (folder_ / "data/300wlp.h5").string());
  EXPECT_EQ(loaded.config.train.epochs, 3);
  EXPECT_EQ(loaded.config.train.batch_size, below.train.batch_size);
  EXPECT_EQ(loaded.config.optimizer.lr, 0.25);
}

TEST_F(LoadTest, EachNamedDataSetReadsItsOwnFile) {
  EXPECT_EQ(from_yaml(embedded("headpose_300wlp").value(), "").data.file, "data/300wlp.h5");
  EXPECT_EQ(from_yaml(embedded("headpose_biwi").value(), "").data.file, "data/biwi.h5");
  EXPECT_FALSE(embedded("headpose_nothing").has_value());
}

TEST_F(LoadTest, ADataSetThatIsNotConvertedYetNamesTheCommand) {
  try {
    load_here({"--dataset", "biwi"});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(), (folder_ / "data/biwi.h5").string() +
                                " does not exist: make it with `dtrain convert biwi DIR`");
  }
  EXPECT_NO_THROW(load({"--dataset", "biwi"}, folder_.path(), {.check_dataset = false}));
}

TEST_F(LoadTest, ADataSetByPathIsOnlyThePath) {
  const Loaded loaded = load_here({"--dataset", "elsewhere/faces.h5"});
  EXPECT_EQ(loaded.source, "the defaults");
  EXPECT_EQ(loaded.config.data.file, "elsewhere/faces.h5");
  EXPECT_EQ(loaded.config.model.image_size, Config{}.model.image_size);
}

TEST_F(LoadTest, SwitchesNeedNoValue) {
  EXPECT_TRUE(load_here({"--train.deterministic"}).config.train.deterministic);
  EXPECT_TRUE(load_here({"--train.deterministic", "true"}).config.train.deterministic);
  EXPECT_FALSE(load_here({"--train.deterministic", "false"}).config.train.deterministic);
  EXPECT_FALSE(load_here({"--train.deterministic=false", "--lr", "1"}).config.train.deterministic);
  EXPECT_TRUE(load_here({"--train.deterministic", "--lr", "1"}).config.train.deterministic);
  EXPECT_EQ(load_here({}).config.data.verify, VerifyMode::kFirstEpoch);
  EXPECT_EQ(load_here({"--data.verify", "--lr", "1"}).config.data.verify, VerifyMode::kTrue);
  EXPECT_EQ(load_here({"--data.verify", "false"}).config.data.verify, VerifyMode::kFalse);
  EXPECT_TRUE(
      load_here({"--optimizer.name", "sgd", "--optimizer.nesterov"}).config.optimizer.nesterov);
  write("a.yaml", "train: {epochs: 3}\n");
  const Loaded loaded = load_here({"--train.deterministic", "a.yaml"});
  EXPECT_TRUE(loaded.config.train.deterministic);
  EXPECT_EQ(loaded.config.train.epochs, 3);
}

TEST_F(LoadTest, AmpOffMeansFp32) {
  EXPECT_EQ(load_here({"--amp", "off"}).config.train.amp, AmpMode::kFp32);
  EXPECT_EQ(from_yaml("train: {amp: off}", "").train.amp, AmpMode::kFp32);
}

TEST_F(LoadTest, TextThatLooksLikeSomethingElseStaysText) {
  EXPECT_EQ(load_here({"--name", "42"}).config.run.name, "42");
  EXPECT_EQ(load_here({"--name=--x"}).config.run.name, "--x");
  EXPECT_EQ(from_yaml("run: {name: 010}", "").run.name, "010");
  EXPECT_EQ(from_yaml("run: {name: yes}", "").run.name, "yes");
  EXPECT_EQ(from_yaml("run: {name: \"~\"}", "").run.name, "~");
}

TEST_F(LoadTest, ATaskIsANameOrASection) {
  EXPECT_EQ(from_yaml("task: classify", "").task, catalog::task_named("classify"));
  EXPECT_EQ(from_yaml("task: {name: classify}", "").task, catalog::task_named("classify"));
  const Config all =
      from_yaml("task: {name: module, loss: l1, inputs: rows+lengths}\nmodel: {file: m.pt}", "");
  EXPECT_EQ(str(all.task, " ", all.module.loss, " ", all.module.inputs), "module l1 rows+lengths");
  EXPECT_EQ(load_here({"--task", "classify"}).config.task, catalog::task_named("classify"));
  EXPECT_EQ(load_here({"--task.name", "module", "--task.loss", "nll", "--model.file", "m.pt"})
                .config.module.loss,
            LossName::kNll);
  write("a.yaml", "task: classify\n");
  EXPECT_THAT(load_here({"a.yaml"}).given, ElementsAre("task.name"));
  try {
    from_yaml("task: headpos", "c.yaml");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("c.yaml:1:7: task.name: 'headpos' is not one of headpose, "));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'headpose'?"));
  }
}

TEST_F(LoadTest, TwoConfigFilesAreAUsageError) {
  write("a.yaml", "task: headpose\n");
  EXPECT_THROW(load_here({"a.yaml", "b.yaml"}), UsageError);
  try {
    load_here({"a.yaml", "surplus"});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'surplus' after the config file a.yaml"));
  }
}

TEST_F(LoadTest, EveryConfigOfTheTreeLoads) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DTRAIN_SOURCE "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    const Loaded loaded = load({entry.path().string()}, folder_.path());
    EXPECT_EQ(to_yaml(loaded.config),
              to_yaml(from_yaml(embedded(entry.path().stem().string()).value(), "")));
    ++count;
  }
  EXPECT_GE(count, 3);
}

// Loaded as `dtrain --dataset 300wlp ...` in a folder with the converted file.
class BatchTest : public LoadTest {
 protected:
  BatchTest() { write("data/300wlp.h5", ""); }
  Loaded with(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--dataset", "300wlp"});
    return load_here(arguments);
  }
};

TEST_F(BatchTest, AnEmbeddedGlobalBatchCountsWhereNoBatchIsGiven) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, {"--epochs", "2"}, {"--accumulate", "0"}}) {
    const Loaded loaded = with(flags);
    EXPECT_EQ(loaded.config.train.global_batch, 128);
    EXPECT_EQ(loaded.overruled.global_batch, 0);
    EXPECT_EQ(loaded.of_rate.global_batch, 128);
    EXPECT_EQ(loaded.of_rate.source, "the embedded headpose_300wlp");
  }
}

TEST_F(BatchTest, AGivenBatchSizeOrAccumulateTakesItsPlace) {
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--batch-size", "128"},
                                                {"--accumulate", "2"},
                                                {"--batch-size", "8", "--lr", "1"}}) {
    const Loaded loaded = with(flags);
    EXPECT_EQ(loaded.config.train.global_batch, 0) << flags[0];
    EXPECT_EQ(loaded.overruled.global_batch, 128);
    EXPECT_EQ(loaded.overruled.source, "the embedded headpose_300wlp");
    EXPECT_EQ(loaded.of_rate.global_batch, loaded.gives("optimizer.lr") ? 0 : 128);
  }
  write("dtrain.yaml", "train: {batch_size: 16}\n");
  EXPECT_EQ(with({}).config.train.global_batch, 0);
  EXPECT_EQ(with({}).overruled.global_batch, 128);
}

TEST_F(BatchTest, AGlobalBatchOfTheUserStaysPrimary) {
  const Loaded flag = with({"--train.global_batch", "512", "--batch-size", "32"});
  EXPECT_EQ(flag.config.train.global_batch, 512);
  EXPECT_EQ(flag.overruled.global_batch, 0);
  EXPECT_EQ(flag.of_rate.global_batch, 128);
  write("dtrain.yaml", "train: {global_batch: 256}\noptimizer: {lr: 0.002}\n");
  const Loaded file = with({"--batch-size", "32"});
  EXPECT_EQ(file.config.train.global_batch, 256);
  EXPECT_EQ(file.of_rate.global_batch, 256);
  EXPECT_EQ(file.of_rate.source, "dtrain.yaml");
  write("dtrain.yaml", "train: {global_batch: 256}\n");
  EXPECT_EQ(with({}).of_rate.global_batch, 128) << "the rate is still that of the embedded config";
  write("dtrain.yaml", "train: {batch_size: 64}\noptimizer: {lr: 0.002}\n");
  EXPECT_EQ(with({}).of_rate.global_batch, 0)
      << "the file names a rate for a batch that depends on the ranks";
}

TEST_F(BatchTest, ThePrintedConfigIsWhatRuns) {
  EXPECT_THAT(to_yaml(with({"--batch-size", "128"}).config), HasSubstr("  global_batch: 0 "));
  EXPECT_THAT(to_yaml(with({}).config), HasSubstr("  global_batch: 128 "));
}

TEST_F(LoadTest, AFolderAsDataNamesTheCommandThatConvertsIt) {
  std::filesystem::create_directories(folder_ / "photos");
  for (const char* flag : {"--dataset", "--data.file"}) {
    try {
      load_here({flag, (folder_ / "photos").string()});
      FAIL();
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), StartsWith(str(flag, ": ")));
      EXPECT_THAT(error.what(), HasSubstr("data.file: '"));
      EXPECT_THAT(error.what(), HasSubstr(" is a folder, and training reads one HDF5 file"));
      EXPECT_THAT(error.what(),
                  HasSubstr("`dtrain convert NAME " + (folder_ / "photos").string() + "` makes"));
      EXPECT_THAT(error.what(), HasSubstr("images (a subfolder of pictures per class)"));
    }
  }
}

TEST_F(LoadTest, WithoutTaskDataAndFileItIsTheDemo) {
  EXPECT_TRUE(load_here({"--name", "x", "--epochs", "2"}).is_demo);
  EXPECT_FALSE(load_here({"--task", "headpose"}).is_demo);
  EXPECT_FALSE(load_here({"--dataset", "./d.h5"}).is_demo);
  write("dtrain.yaml", "train: {epochs: 1}\n");
  EXPECT_FALSE(load_here({"--name", "x"}).is_demo);
}

TEST_F(LoadTest, TheRulesOfAResumedRunWaitForItsConfiguration) {
  const Loaded loaded = load_here(
      {"--name", "x", "--resume", "auto", "--augment.noise", "0.2", "--optimizer.nesterov"});
  EXPECT_THAT(loaded.given,
              ElementsAre("run.name", "run.resume", "augment.noise", "optimizer.nesterov"));
  EXPECT_EQ(broken_rules(loaded.config, loaded.places, loaded.given).size(), 2u);
  Config resumed = loaded.config;
  resumed.task = catalog::task_named("sequence");
  resumed.model = {};
  resumed.optimizer.name = OptimizerName::kSgd;
  EXPECT_THAT(broken_rules(resumed, loaded.places, loaded.given), IsEmpty());
  EXPECT_THROW(load_here({"--resume", "auto"}), ConfigError) << "the rules of names apply at once";
}

// As an earlier version saved it: every key, whatever the task, and intervals with letters.
TEST(SavedConfigs, OfEarlierVersionsLoad) {
  const std::string text =
      "task:\n  name: pointer\n  loss: mse\n  inputs: image\n\nrun:\n  name: r\n  log_every: "
      "10s\n\n"
      "augment:\n  hflip: true\n  noise: 0.1\n\nmodel:\n  name: pointer_network\n  image_size: "
      "224\n  hidden: 64\n\n"
      "train:\n  class_weights: none\n  sync_batch_norm: false\n  eval_every: 1e\n\n"
      "checkpoint:\n  every: 500s,10m\n";
  const SavedConfig saved = saved_config(text, "the checkpoint's config");
  EXPECT_EQ(saved.config.run.log_every, (Interval{.steps = 10}));
  EXPECT_EQ(saved.config.train.eval_every, (Interval{.epochs = 1}));
  EXPECT_EQ(saved.config.checkpoint.every, (Interval{.steps = 500, .minutes = 10}));
  EXPECT_EQ(saved.config.model.hidden, 64);
  EXPECT_EQ(saved.notice,
            "the checkpoint's config has former units of intervals: run.log_every 10s is 10steps, "
            "train.eval_every 1e is "
            "1epoch, checkpoint.every 500s,10m is 500steps,10min");
  try {
    from_yaml(text, "c.yaml");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("10 problems"));
    EXPECT_THAT(error.what(),
                HasSubstr("c.yaml:8:14: run.log_every: '10s' can be read as steps or as seconds"));
    EXPECT_THAT(error.what(), HasSubstr("augment.hflip: does nothing for task pointer"));
  }
  // What it is saved as from now on has neither, and is strict input.
  EXPECT_EQ(to_yaml(from_yaml(to_yaml(saved.config), "printed")), to_yaml(saved.config));
  EXPECT_EQ(saved_config(to_yaml(saved.config), "").notice, "");
  EXPECT_THAT(to_yaml(saved.config), ::testing::Not(HasSubstr("image_size")));
  EXPECT_THROW(saved_config("train: {epochs: none}", ""), ConfigError);
  EXPECT_THROW(saved_config("checkpoint: {every: 5x}", ""), ConfigError);
}

TEST(Differences, FixedKeysAndOthersAreSeparated) {
  Config saved, now;
  saved.train.global_batch = 64;
  now.train.global_batch = 128;
  now.model.name = catalog::network_named("resnet18");
  now.train.epochs = 4;
  now.run.name = "x";
  now.run.resume = "auto";
  EXPECT_THAT(fixed_differences(saved, now), ElementsAre("model.name", "train.global_batch"));
  EXPECT_THAT(differences(saved, now), ElementsAre("run.name: '' -> x", "train.epochs: 30 -> 4"));
  EXPECT_THAT(fixed_differences(saved, saved), IsEmpty());
}

TEST(Differences, AGlobalBatchLeftOpenIsTheSavedOne) {
  Config saved, now;
  saved.train.global_batch = 64;
  EXPECT_THAT(fixed_differences(saved, now), IsEmpty());
  EXPECT_THAT(fixed_differences(now, saved), ElementsAre("train.global_batch"));
}

TEST(Values, OfAnyConfigAreReadByName) {
  using Pair = std::pair<std::string, std::string>;
  EXPECT_THAT(
      values_in(
          "train:\n  epochs: 4   # passes\n  later_key: [1, 2]\nnew: {a: \"x # y\", b: }\n7: 8\n"),
      ElementsAre(Pair("train.epochs", "4"), Pair("new.a", "x # y")));
  const std::vector<Pair> all = values_in(to_yaml(Config{}));
  EXPECT_THAT(all, ::testing::Contains(Pair("train.epochs", "30")));
  for (const char* text :
       {"", "a", "- a", "a: b", "a: [", "\x01", "\xff", "a: {b: 1}\n---\nc: {d: 1}"}) {
    EXPECT_THAT(values_in(text), IsEmpty()) << text;
  }
  std::string many = "a: &a {";
  for (int i = 0; i < 1000; ++i) many += str("k", i, ": 1, ");
  many += "}\n";
  for (int i = 0; i < 1000; ++i) many += str("b", i, ": *a\n");
  EXPECT_EQ(values_in(many).size(), 2000U) << "aliases make a short text long";
}

TEST(CopyKeys, CopiesOnlyThose) {
  Config from, to;
  from.train.epochs = 4;
  from.optimizer.lr = 0.1 + 0.2;
  from.train.seed = 9;
  copy_keys(from, to, {"train.epochs", "optimizer.lr"});
  EXPECT_EQ(to.train.epochs, 4);
  EXPECT_EQ(to.optimizer.lr, 0.1 + 0.2);
  EXPECT_EQ(to.train.seed, Config{}.train.seed);
}

TEST(FromSavedYaml, AKeyThatIsMissingStandsForWhatWasDoneBeforeThereWasOne) {
  EXPECT_FALSE(from_yaml("optimizer: {lr: 0.1}", "").optimizer.decay_norms_and_biases);
  EXPECT_TRUE(saved_config("optimizer: {lr: 0.1}", "").config.optimizer.decay_norms_and_biases);
  EXPECT_FALSE(saved_config("optimizer: {decay_norms_and_biases: false}", "")
                   .config.optimizer.decay_norms_and_biases);
  EXPECT_THROW(saved_config("optimizer: {lr: none}", "config.yaml"), ConfigError);
}

TEST(ConfigHash, IsEqualForTheSameTrainingUnderAnotherName) {
  Config config, renamed, other;
  renamed.run.name = "b";
  renamed.run.folder = "elsewhere";
  other.optimizer.lr *= 2;
  EXPECT_EQ(hash(config).size(), 16u);
  EXPECT_EQ(hash(config), hash(renamed));
  EXPECT_NE(hash(config), hash(other));
}

}  // namespace
}  // namespace dtrain::config
