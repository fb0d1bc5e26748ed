#include "config/synonyms.h"

#include <algorithm>
#include <string>

namespace dtrain::config {
namespace {

struct Synonyms {
  std::string_view meaning;  // a key, or advice
  std::string_view words;    // lower case with '-'; a space before and after each
};

constexpr Synonyms kKeys[] = {
    {"data.file",
     " data-dir data-path data-root dataset-path dataset-dir train-data train-dir train-path "
     "root "},
    {"data.prefetch", " prefetch-factor "},
    {"data.val_share",
     " val-split val-ratio val-fraction valid-size validation-split validation-ratio "},
    {"data.workers",
     " num-workers nworkers n-workers dataloader-num-workers loader-threads num-threads "},
    {"augment.brightness", " color-jitter colour-jitter jitter "},
    {"augment.crop_scale", " random-crop random-resized-crop crop "},
    {"augment.hflip", " flip horizontal-flip random-flip mirror "},
    {"checkpoint.every",
     " save-every save-freq save-interval save-steps save-period checkpoint-every "
     "checkpoint-interval checkpoint-freq "},
    {"checkpoint.keep_last", " save-total-limit save-top-k keep-checkpoints max-to-keep "},
    {"device.type", " accelerator cuda use-cuda gpu use-gpu "},
    {"model.checkpointing", " gradient-checkpointing activation-checkpointing grad-checkpointing "},
    {"model.dropout", " dropout-rate drop-rate drop dropout-p "},
    {"model.freeze", " freeze-layers freeze-backbone frozen "},
    {"model.image_size",
     " img-size imgsz image-sz input-size resolution crop-size train-crop-size img "},
    {"model.init",
     " pretrained pretrained-weights weights init-from init-checkpoint load-weights "
     "from-pretrained finetune fine-tune "},
    {"model.name", " model arch architecture network net backbone model-name encoder "},
    {"optimizer.beta1", " adam-beta1 betas "},
    {"optimizer.beta2", " adam-beta2 "},
    {"optimizer.clip_norm",
     " grad-clip gradient-clip gradient-clip-val clip-grad clip-grad-norm grad-norm max-grad-norm "
     "gradient-clipping gradient-clip-norm grad-clip-norm clip clipping "},
    {"optimizer.eps", " epsilon adam-epsilon opt-eps "},
    {"optimizer.lr",
     " learning-rate learningrate base-lr initial-lr init-lr max-lr lr0 step-size "},
    {"optimizer.name", " optimizer optim opt optimiser "},
    {"optimizer.weight_decay", " wd l2 l2-reg l2-regularization "},
    {"run.folder",
     " output-dir out-dir outdir output save-dir save-path log-dir logdir work-dir workdir "
     "default-root-dir checkpoint-dir ckpt-dir results-dir "},
    {"run.log_every",
     " log-interval log-freq log-every-n-steps logging-steps print-freq print-every print-interval "
     "report-every "},
    {"run.name", " run-name exp-name experiment experiment-name job-name project tag "},
    {"run.progress", " progress-bar progressbar enable-progress-bar quiet verbose "},
    {"run.resume",
     " checkpoint checkpoint-path ckpt ckpt-path load load-checkpoint load-from restore "
     "resume-from resume-path resume-from-checkpoint continue "},
    {"schedule.final_lr_ratio", " min-lr final-lr eta-min lrf "},
    {"schedule.gamma", " lr-gamma lr-decay decay-rate "},
    {"schedule.name", " scheduler schedule lr-scheduler lr-schedule lr-policy lr-scheduler-type "},
    {"schedule.step_epochs", " lr-step-size lr-drop lr-decay-epochs decay-epochs "},
    {"schedule.warmup_steps",
     " warmup warmup-epochs warmup-iters warmup-ratio num-warmup-steps lr-warmup-epochs "},
    {"train.accumulate",
     " gradient-accumulation gradient-accumulation-steps grad-accum grad-accum-steps "
     "grad-accumulation accum accum-iter accum-steps accumulation accumulation-steps "
     "accumulate-grad-batches update-freq "},
    {"train.amp", " precision mixed-precision use-amp fp16 bf16 half dtype float16 bfloat16 "},
    {"train.batch_size",
     " batch bs batchsize train-batch-size train-batch mini-batch minibatch mini-batch-size "
     "micro-batch "
     "micro-batch-size per-device-train-batch-size per-gpu-batch-size samples-per-gpu "},
    {"train.cuda_graph", " cuda-graphs cudagraph cudagraphs use-cuda-graph graph reduce-overhead "},
    {"train.ema", " ema-decay model-ema model-ema-decay use-ema weight-averaging "},
    {"train.epochs", " num-epochs n-epochs nepochs max-epochs num-train-epochs total-epochs "},
    {"train.eval_every",
     " eval-every eval-interval eval-freq eval-steps val-every val-interval val-freq "
     "val-check-interval check-val-every-n-epoch validate-every validation-interval "},
    {"train.freeze_batch_norm", " freeze-bn frozen-bn "},
    {"train.global_batch", " total-batch-size effective-batch-size global-batch-size "},
    {"train.label_smoothing", " smoothing label-smooth label-smoothing-factor "},
    {"train.max_steps",
     " steps num-steps n-steps total-steps train-steps max-train-steps max-iter max-iters "
     "max-iterations num-iterations niter iters "},
    {"train.metric", " monitor metric-for-best-model "},
    {"train.overfit_batches", " overfit fast-dev-run limit-train-batches "},
    {"train.patience", " early-stopping early-stop earlystopping early-stopping-patience "},
    {"train.seed", " random-seed random-state manual-seed "},
    {"train.sync_batch_norm", " sync-bn syncbn sync-batchnorm "},
};

constexpr std::string_view kRanks =
    "mpirun decides it: `mpirun -np N dtrain ...` trains on N ranks, one per GPU";

constexpr Synonyms kAdvice[] = {
    {kRanks,
     " gpus gpu-ids num-gpus ngpus n-gpu n-gpus devices device-ids nproc nproc-per-node nnodes "
     "num-nodes node-rank rank local-rank world-size master-addr master-port dist-url "
     "num-processes distributed ddp strategy "},
    {"every run writes metrics.jsonl and TensorBoard events into its folder",
     " wandb tensorboard report-to logger "},
    {"a config file is given without a flag: `dtrain CONFIG.yaml`",
     " config cfg config-file conf "},
    {"`dtrain eval RUN` evaluates a run",
     " evaluate eval eval-only test test-only validate val-only "},
    {"`dtrain predict RUN INPUT...` predicts", " predict inference infer "},
    {"use --device cpu", " cpu no-cuda no-gpu "},
};

template <size_t kRows>
std::string_view meaning_of(const Synonyms (&table)[kRows], std::string_view word) {
  constexpr size_t kLongest = 64;
  if (word.empty() || word.size() > kLongest || word.find(' ') != std::string_view::npos) return "";
  std::string spelled = " " + std::string(word) + " ";
  std::ranges::transform(spelled, spelled.begin(), [](char c) {
    if (c == '_') return '-';
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const Synonyms& row : table) {
    if (row.words.find(spelled) != std::string_view::npos) return row.meaning;
  }
  return "";
}

}  // namespace

std::string_view key_called(std::string_view word) { return meaning_of(kKeys, word); }
std::string_view advice_about(std::string_view word) { return meaning_of(kAdvice, word); }

std::vector<std::string_view> synonym_keys() {
  std::vector<std::string_view> keys;
  for (const Synonyms& row : kKeys) keys.push_back(row.meaning);
  return keys;
}

}  // namespace dtrain::config
