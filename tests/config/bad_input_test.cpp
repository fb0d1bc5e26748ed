// Mistakes in configurations and flags, and the exact messages.

#include <gmock/gmock.h>

#include <fstream>

#include "config/load.h"
#include "core/error.h"
#include "support/temp_dir.h"

namespace dtrain::config {
namespace {

struct Case {
  std::string input, message;
};

std::string yaml_error(const std::string& text) {
  try {
    from_yaml(text, "c.yaml");
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.exit_code(), 78);
    return error.what();
  }
  return "no error";
}

TEST(BadYaml, TooDeepANestingSaysSo) {
  for (const std::string& text : {std::string(3000, '['), "a: " + std::string(3000, '{')}) {
    const std::string error = yaml_error(text);
    EXPECT_THAT(error, ::testing::StartsWith("c.yaml:1:"));
    EXPECT_THAT(error,
                ::testing::ContainsRegex("nested too deeply .[0-9]+ levels.; a config has two"));
  }
}

TEST(BadYaml, AtMostFiftyProblemsAreListed) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "key_" + std::to_string(i) + ": 1\n";
  const std::string error = yaml_error(text);
  EXPECT_THAT(error, ::testing::StartsWith(
                         "1000 problems in the configuration:\n  c.yaml:1:1: unknown key 'key_0'"));
  EXPECT_THAT(error, ::testing::HasSubstr("'key_49'"));
  EXPECT_THAT(error, ::testing::Not(::testing::HasSubstr("'key_50'")));
  EXPECT_THAT(error, ::testing::EndsWith("\n  and 950 more"));
}

TEST(BadYaml, EachMistakeHasItsLine) {
  const std::vector<Case> cases = {
      {"optimiser: {lr: 1}",
       "c.yaml:1:13: unknown key 'optimiser.lr'; did you mean 'optimizer.lr'?"},
      {"optimiser:\n  lr: 1\n",
       "c.yaml:2:3: unknown key 'optimiser.lr'; did you mean 'optimizer.lr'?"},
      {"train:\n  epoch: 1\n",
       "c.yaml:2:3: unknown key 'train.epoch'; did you mean 'train.epochs'?"},
      {"taks: headpose", "c.yaml:1:1: unknown key 'taks'; did you mean 'task'?"},
      {"task: [headpose]",
       "c.yaml:1:1: task: is a section; write its keys indented on the lines below"},
      {"task: {names: headpose}",
       "c.yaml:1:8: unknown key 'task.names'; did you mean 'task.name'?"},
      {"train: {lr: 1}", "c.yaml:1:9: unknown key 'train.lr'; did you mean 'optimizer.lr'?"},
      {"lr: 1", "c.yaml:1:1: unknown key 'lr'; did you mean 'optimizer.lr'?"},
      {"label_smothing: 0.1",
       "c.yaml:1:1: unknown key 'label_smothing'; did you mean 'train.label_smoothing'?"},
      {"batch-size: 1", "c.yaml:1:1: unknown key 'batch-size'; did you mean 'train.batch_size'?"},
      {"blorg: 1", "c.yaml:1:1: unknown key 'blorg'; `dtrain --help all` lists all keys"},
      {"blorg: {}", "c.yaml:1:1: unknown key 'blorg'; `dtrain --help all` lists all keys"},
      {"blorg: {a: {b: {c: 1}}}",
       "c.yaml:1:9: unknown key 'blorg.a'; `dtrain --help all` lists all keys"},
      {"<<: {a: 1}", "c.yaml:1:6: unknown key '<<.a'; `dtrain --help all` lists all keys"},
      {"\"a\\nb\": 1", "c.yaml:1:1: unknown key 'a\\nb'; `dtrain --help all` lists all keys"},
      {"train:\n  epochs: 1\n  epochs: 1\n",
       "c.yaml:3:3: duplicate key 'train.epochs' (first in line 2)"},
      {"train: {seed: 1}\nmodel: {}\ntrain: {epochs: 1}",
       "c.yaml:3:1: duplicate key 'train' (first in line 1)"},
      {"train:\n  epochs: 1\ntrain.epochs: 1\n",
       "c.yaml:3:1: duplicate key 'train.epochs' (first in line 2)"},
      {"train: {epochs: ten}", "c.yaml:1:17: train.epochs: 'ten' is not a whole number"},
      {"train: {epochs: 1.5}", "c.yaml:1:17: train.epochs: '1.5' is not a whole number"},
      {"train: {epochs: 1e3}", "c.yaml:1:17: train.epochs: '1e3' is not a whole number"},
      {"train: {epochs: 010}",
       "c.yaml:1:17: train.epochs: '010' has leading zeros: numbers are decimal"},
      {"train: {epochs: 0x10}", "c.yaml:1:17: train.epochs: '0x10' is not a whole number"},
      {"train: {epochs: 1_000}", "c.yaml:1:17: train.epochs: '1_000' is not a whole number"},
      {"train: {epochs: +1}", "c.yaml:1:17: train.epochs: '+1' is not a whole number"},
      {"train: {epochs: '3'}",
       "c.yaml:1:17: train.epochs: '3' is in quotes; expected: whole number"},
      {"train: {epochs: !!int 3}",
       "c.yaml:1:17: train.epochs: tags like 'tag:yaml.org,2002:int' are not supported"},
      {"train: {epochs: 0}", "c.yaml:1:17: train.epochs: 0 is out of range: 1 to 1000000"},
      {"train: {epochs: -1}", "c.yaml:1:17: train.epochs: -1 is out of range: 1 to 1000000"},
      {"train: {epochs: 9223372036854775808}",
       "c.yaml:1:17: train.epochs: 9223372036854775808 does not fit into 64 bits"},
      {"train: {epochs: -9223372036854775809}",
       "c.yaml:1:17: train.epochs: -9223372036854775809 is out of range: 1 to 1000000"},
      {"train: {seed: -1}", "c.yaml:1:15: train.seed: -1 is out of range: 0 or more"},
      {"train: {seed: 18446744073709551616}",
       "c.yaml:1:15: train.seed: 18446744073709551616 does not fit into 64 bits"},
      {"train: {epochs: [1]}",
       "c.yaml:1:17: train.epochs: is a list; expected one value: whole number"},
      {"train: {epochs: {a: 1}}",
       "c.yaml:1:17: train.epochs: is a section; expected one value: whole number"},
      {"train:\n  epochs:\n", "c.yaml:2:3: train.epochs: has no value; expected: whole number"},
      {"run: {name: ~}", "c.yaml:1:7: run.name: has no value; expected: text"},
      {"train: {deterministic: yes}",
       "c.yaml:1:24: train.deterministic: 'yes' is not true or false"},
      {"train: {deterministic: True}",
       "c.yaml:1:24: train.deterministic: 'True' is not true or false"},
      {"train: {deterministic: 1}", "c.yaml:1:24: train.deterministic: '1' is not true or false"},
      {"optimizer: {lr: fast}", "c.yaml:1:17: optimizer.lr: 'fast' is not a number"},
      {"optimizer: {lr: .inf}", "c.yaml:1:17: optimizer.lr: '.inf' is not a number"},
      {"optimizer: {lr: nan}", "c.yaml:1:17: optimizer.lr: 'nan' is not a number"},
      {"optimizer: {lr: 1e400}", "c.yaml:1:17: optimizer.lr: 1e400 does not fit into 64 bits"},
      {"optimizer: {lr: -1e400}", "c.yaml:1:17: optimizer.lr: -1e400 is out of range: above 0"},
      {"optimizer: {lr: 1e-400}",
       "c.yaml:1:17: optimizer.lr: 1e-400 is too close to 0 for a number of 64 bits"},
      {"optimizer: {lr: -1e-400}", "c.yaml:1:17: optimizer.lr: -1e-400 is out of range: above 0"},
      {"optimizer: {lr: 0}", "c.yaml:1:17: optimizer.lr: 0 is out of range: above 0"},
      {"optimizer: {lr: -1e-3}", "c.yaml:1:17: optimizer.lr: -1e-3 is out of range: above 0"},
      {"optimizer: {momentum: 1}",
       "c.yaml:1:23: optimizer.momentum: 1 is out of range: 0 or more, below 1"},
      {"optimizer: {name: adamv}",
       "c.yaml:1:19: optimizer.name: 'adamv' is not one of adamw, adam, sgd; did you mean "
       "'adamw'?"},
      {"optimizer: {name: AdamW}",
       "c.yaml:1:19: optimizer.name: 'AdamW' is not one of adamw, adam, sgd; did you mean "
       "'adamw'?"},
      {"schedule: {name: sawtooth}",
       "c.yaml:1:18: schedule.name: 'sawtooth' is not one of constant, step, cosine, one_cycle, "
       "plateau"},
      {"dist: {backend: gloo}",
       "c.yaml:1:17: dist.backend: 'gloo' is not one of auto, nccl, staged, mpi, shared_memory, "
       "hierarchical"},
      {"train: {amp: fp8}",
       "c.yaml:1:14: train.amp: 'fp8' is not one of auto, fp16, bf16, tf32, fp32, fp64; did you "
       "mean 'fp16'?"},
      {"task: {loss: hinge}",
       "c.yaml:1:14: task.loss: 'hinge' is not one of mse, smooth_l1, l1, cross_entropy, "
       "bce_with_logits, nll"},
      {"model: {name: vgg16}",
       "c.yaml:1:15: model.name: 'vgg16' is not one of auto, headpose_cnn, simple_cnn, "
       "mobilenet_v2, resnet18, "
       "resnet50, pointer_network, cnn_lstm, torchscript"},
      {"model: {name: cnn_lstm}",
       "c.yaml:1:15: model.name: task headpose trains headpose_cnn, mobilenet_v2, resnet18, "
       "resnet50, not cnn_lstm"},
      {"task: module",
       "c.yaml:1:7: model.file: task module needs the TorchScript file of the network"},
      {"model: {dropout: -0.5}",
       "c.yaml:1:18: model.dropout: -0.5 is neither a fraction in [0, 1) nor -1, the network's "
       "default"},
      {"augment: {hue: 0.6}", "c.yaml:1:16: augment.hue: 0.6 is out of range: 0 to 0.5"},
      {"augment: {crop_scale: 0}",
       "c.yaml:1:23: augment.crop_scale: 0 is out of range: above 0, up to 1"},
      {"amp: {backoff: 1}", "c.yaml:1:16: amp.backoff: 1 is out of range: above 0, below 1"},
      {"amp: {growth: 1}", "c.yaml:1:15: amp.growth: 1 is out of range: above 1"},
      {"checkpoint: {keep_last: -1}",
       "c.yaml:1:25: checkpoint.keep_last: -1 is out of range: 1 or more"},
      {"checkpoint: {every: 5x}",
       "c.yaml:1:21: checkpoint.every: '5x' is not an interval; expected: 500steps, 2epochs, "
       "10min, 30sec, several "
       "separated by commas, or never"},
      {"run: {log_every: 10s}",
       "c.yaml:1:18: run.log_every: '10s' can be read as steps or as seconds: write 10steps or "
       "10sec"},
      {"optimizer: adam", "c.yaml:1:1: optimizer: is a section; did you mean 'optimizer.name'?"},
      {"learning_rate: 1", "c.yaml:1:1: unknown key 'learning_rate'; did you mean 'optimizer.lr'?"},
      {"training: {gradient_accumulation_steps: 2}",
       "c.yaml:1:12: unknown key 'training.gradient_accumulation_steps'; did you mean "
       "'train.accumulate'?"},
      {"trainer: {gpus: 2}",
       "c.yaml:1:11: unknown key 'trainer.gpus'; mpirun decides it: `mpirun -np N dtrain ...` "
       "trains on N ranks, one "
       "per GPU"},
      {"checkpoint: {keep_last: 0}",
       "c.yaml:1:25: checkpoint.keep_last: 0 is out of range: 1 or more"},
      {"metrics: {port: 65536}", "c.yaml:1:17: metrics.port: 65536 is out of range: 0 to 65535"},
      {"amp: {init_scale: 1e9}", "c.yaml:1:19: amp.init_scale: 1e9 is out of range: 1 to 16777216"},
      {"run: {name: \"a\\tb\"}",
       "c.yaml:1:13: run.name: 'a\\tb' has control characters or is not UTF-8"},
      {"train: 3", "c.yaml:1:1: train: is a section; write its keys indented on the lines below"},
      {"train: [epochs]",
       "c.yaml:1:1: train: is a section; write its keys indented on the lines below"},
      {"[a]: 1",
       "c.yaml:1:1: a key is not a plain word; write `section:` and below it `  key: value`"},
      {"- a", "c.yaml:1:1: not a config; expected lines of `key: value`"},
      {"just words", "c.yaml:1:1: not a config; expected lines of `key: value`"},
      {"", "c.yaml: is empty; `dtrain --print-config` prints a whole config to start from"},
      {"# nothing\n",
       "c.yaml: is empty; `dtrain --print-config` prints a whole config to start from"},
      {"task: headpose\n---\ntask: headpose\n",
       "c.yaml:2:1: not YAML: a second document; a config is one document"},
      {"train: {epochs: 1", "c.yaml:1:1: not YAML: end of map flow not found"},
      {"a: b: c", "c.yaml:1:5: not YAML: illegal map value"},
      {"train:\n\tepochs: 1\n",
       "c.yaml:2:8: not YAML: illegal map value; indent with spaces, not with tabs"},
      {"task: headpose\nrun: {name: \xff}",
       "c.yaml:2:13: not YAML: a control character, or not UTF-8"},
      {"task: \x01", "c.yaml:1:7: not YAML: a control character, or not UTF-8"},
      {",", "c.yaml:1:1: not YAML: unexpected character"},
      {"task: *nobody", "c.yaml:1:7: not YAML: the referenced anchor is not defined"},
      {"task: sequence\nmodel: {checkpointing: true}",
       "c.yaml:2:24: model.checkpointing: does nothing for task sequence with network cnn_lstm; it "
       "is for dtrain's own "
       "networks of pictures: leave it out"},
      {"task: sequence\ntrain: {class_weights: balanced}",
       "c.yaml:2:24: train.class_weights: does nothing for task sequence with network cnn_lstm; it "
       "is for task "
       "classify: leave it out"},
      {"task: pointer\ntrain: {label_smoothing: 0.1}",
       "c.yaml:2:26: train.label_smoothing: does nothing for task pointer with network "
       "pointer_network; it is for "
       "losses over classes: leave it out"},
      {"task: {loss: nll}",
       "c.yaml:1:14: task.loss: does nothing for task headpose with network headpose_cnn; it is "
       "for task module: leave "
       "it out"},
      {"model: {name: resnet18, dropout: 0.5}",
       "c.yaml:1:34: model.dropout: does nothing for task headpose with network resnet18; it is "
       "for networks with "
       "dropout: leave it out"},
      {"optimizer: {nesterov: true}",
       "c.yaml:1:23: optimizer.nesterov: needs optimizer.name sgd and optimizer.momentum above 0, "
       "not adamw and 0.9"},
      {"optimizer: {name: sgd, nesterov: true, momentum: 0}",
       "c.yaml:1:34: optimizer.nesterov: needs optimizer.name sgd and optimizer.momentum above 0, "
       "not sgd and 0"},
      {"dist: {bucket_mb: 0.5}",
       "c.yaml:1:19: dist.first_bucket_mb: 1 is more than dist.bucket_mb 0.5"},
      {"dist: {backend: nccl}\ndevice: {type: cpu}",
       "c.yaml:1:17: dist.backend: nccl needs GPUs, but device.type is cpu"},
      {"dist: {backend: mpi}\ndevice: {type: cuda}",
       "c.yaml:1:17: dist.backend: mpi reduces CPU tensors, but device.type is cuda; staged goes "
       "through the host"},
      {"dist: {backend: hierarchical}\ndevice: {type: cuda}",
       "c.yaml:1:17: dist.backend: hierarchical reduces CPU tensors, but device.type is cuda; "
       "staged goes through the "
       "host"},
      {"dist: {backend: shared_memory}\ndevice: {type: cuda}",
       "c.yaml:1:17: dist.backend: shared_memory reduces CPU tensors, but device.type is cuda; "
       "staged goes through the "
       "host"},
      {"train: {amp: tf32}\ndevice: {type: cpu}",
       "c.yaml:1:14: train.amp: tf32 needs a GPU, but device.type is cpu"},
      {"train: {global_batch: 4, accumulate: 5}",
       "c.yaml:1:38: train.accumulate: 5 micro-steps are more than the 4 samples of "
       "train.global_batch"},
      {"run: {resume: auto}",
       "c.yaml:1:15: run.resume: auto continues the run with a given name; set run.name (--name) "
       "too"},
      {"run: {name: a/b}",
       "c.yaml:1:13: run.name: 'a/b' is not a folder name: no '/', no leading '.', at most 200 "
       "bytes"},
      {"run: {name: ..}",
       "c.yaml:1:13: run.name: '..' is not a folder name: no '/', no leading '.', at most 200 "
       "bytes"},
      {"run: {folder: ''}", "c.yaml:1:15: run.folder: is empty; '.' is the current folder"},
      {"metrics: {bind: ''}", "c.yaml:1:17: metrics.bind: is empty; 127.0.0.1 is this host only"},
  };
  for (const auto& [input, message] : cases)
    EXPECT_EQ(yaml_error(input), message) << "for: " << input;
}

std::string flags_error(const std::vector<std::string>& arguments,
                        const std::filesystem::path& folder) {
  try {
    load(arguments, folder, {.other_flags = {"--dry-run", "--print-config"}});
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(BadFlags, EachMistakeHasItsLine) {
  const dtrain::testing::TempDir folder;
  std::ofstream(folder / "ok.yaml") << "train: {epochs: 1}\n";
  struct FlagCase {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<FlagCase> cases = {
      {{"--optimiser.lr", "1"}, "--optimiser.lr: unknown flag; did you mean '--optimizer.lr'?"},
      {{"--optimiser.lr=1"}, "--optimiser.lr: unknown flag; did you mean '--optimizer.lr'?"},
      {{"--epoch", "1"}, "--epoch: unknown flag; did you mean '--epochs'?"},
      {{"--batch_size", "1", "ok.yaml"},
       "--batch_size: unknown flag; did you mean '--batch-size'?"},
      {{"--momentum", "0.5"}, "--momentum: unknown flag; did you mean '--optimizer.momentum'?"},
      {{"--ema", "0.9"}, "--ema: unknown flag; did you mean '--train.ema'?"},
      {{"--patience", "3"},
       "--patience: unknown flag; did you mean '--train.patience' or '--schedule.patience'?"},
      {{"--weight-decay", "0.1"},
       "--weight-decay: unknown flag; did you mean '--optimizer.weight_decay'?"},
      {{"--max-step", "10"}, "--max-step: unknown flag; did you mean '--train.max_steps'?"},
      {{"--dryrun"}, "--dryrun: unknown flag; did you mean '--dry-run'?"},
      {{"--gpus", "1"},
       "--gpus: unknown flag; mpirun decides it: `mpirun -np N dtrain ...` trains on N ranks, one "
       "per GPU"},
      {{"--optimizer", "adam"}, "--optimizer: unknown flag; did you mean '--optimizer.name'?"},
      {{"--learning_rate", "1"}, "--learning_rate: unknown flag; did you mean '--lr'?"},
      {{"--checkpoint.every", "10s"},
       "--checkpoint.every: '10s' can be read as steps or as seconds: write 10steps or 10sec"},
      {{"--task", "pointer", "--augment.hue", "0.1"},
       "--augment.hue: does nothing for task pointer with network pointer_network; it is for tasks "
       "with pictures: leave it out"},
      {{"--task", "pointer", "--model.name", "resnet18"},
       "--model.name: task pointer trains pointer_network, not resnet18"},
      {{"--blorg", "ok.yaml"}, "--blorg: unknown flag; `dtrain --help all` lists all flags"},
      {{"-e", "ok.yaml"},
       "-e: unknown flag; flags begin with two dashes, `dtrain --help all` lists them"},
      {{"--epochs"}, "--epochs: a value is missing; expected: whole number"},
      {{"--epochs", "--lr", "1"}, "--epochs: a value is missing; expected: whole number"},
      {{"--amp"},
       "--amp: a value is missing; expected: auto | fp16 | bf16 | tf32 | fp32 | fp64 | off"},
      {{"--epochs", "1", "--epochs", "2"}, "--epochs: given twice"},
      {{"--epochs", "1", "--train.epochs", "2"}, "--train.epochs: given twice, first as --epochs"},
      {{"--epochs", "-1"}, "--epochs: train.epochs: -1 is out of range: 1 to 1000000"},
      {{"--train.epochs", "-1"}, "--train.epochs: -1 is out of range: 1 to 1000000"},
      {{"--epochs="}, "--epochs: train.epochs: '' is not a whole number"},
      {{"--run.diagnose", "yes"}, "--run.diagnose: 'yes' is not true or false"},
      {{"--data.verify", "yes"}, "--data.verify: 'yes' is not one of first_epoch, true, false"},
      {{"--amp", "half"},
       "--amp: train.amp: 'half' is not one of auto, fp16, bf16, tf32, fp32, fp64"},
      {{"--name", "caf\xe9"},
       "--name: run.name: 'caf\\xe9' has control characters or is not UTF-8"},
      {{"--dataset", "300wpl"},
       "--dataset: '300wpl' is neither a known data set (300wlp, biwi, images, pointer, sequence) "
       "nor a file; did you "
       "mean '300wlp'?"},
      {{"--resume", "auto"},
       "--resume: run.resume: auto continues the run with a given name; set run.name (--name) too"},
      {{"none.yaml"},
       "none.yaml: no such config file; `dtrain --print-config` prints one to start from"},
      {{"."}, ".: is not a file; expected a config in YAML"},
  };
  for (const auto& [arguments, message] : cases)
    EXPECT_EQ(flags_error(arguments, folder.path()), message);
}

TEST(BadInput, ReportsAllProblemsOfAllLayersAtOnce) {
  const dtrain::testing::TempDir folder;
  std::ofstream(folder / "dtrain.yaml")
      << "optimiser:\n  lr: 1\ntrain:\n  epochs: none\n  epochs: 0\n";
  EXPECT_EQ(flags_error({"--lr", "0", "--bach-size", "3", "--optimizer.nesterov"}, folder.path()),
            "6 problems in the configuration:\n"
            "  dtrain.yaml:2:3: unknown key 'optimiser.lr'; did you mean 'optimizer.lr'?\n"
            "  dtrain.yaml:4:11: train.epochs: 'none' is not a whole number\n"
            "  dtrain.yaml:5:3: duplicate key 'train.epochs' (first in line 4)\n"
            "  --lr: optimizer.lr: 0 is out of range: above 0\n"
            "  --bach-size: unknown flag; did you mean '--batch-size'?\n"
            "  --optimizer.nesterov: needs optimizer.name sgd and optimizer.momentum above 0, "
            "not adamw and 0.9");
}

TEST(BadInput, AFileThatIsFarTooLargeIsNotRead) {
  const dtrain::testing::TempDir folder;
  std::ofstream(folder / "big.yaml") << std::string(2 << 20, '#');
  EXPECT_EQ(flags_error({"big.yaml"}, folder.path()),
            "big.yaml: is larger than 1 MiB; expected a config in YAML");
}

}  // namespace
}  // namespace dtrain::config
