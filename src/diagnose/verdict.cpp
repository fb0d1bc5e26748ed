#include "diagnose/verdict.h"

#include <algorithm>

#include "core/strings.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;

double of(const PhaseSeconds& seconds, Phase phase) { return seconds[static_cast<size_t>(phase)]; }

// Without checkpoints and evaluations, which the user asked for.
double training_seconds(const PhaseSeconds& s) {
  return of(s, Phase::kDataWait) + of(s, Phase::kH2d) + of(s, Phase::kForward) + of(s, Phase::kBackward) +
         of(s, Phase::kAllReduceWait) + of(s, Phase::kOptimizer);
}

std::string percent(double share) { return str(fixed(100 * share, 0), " %"); }

}  // namespace

Verdict verdict(std::span<const PhaseSeconds> ranks, int64_t steps, const Settings& settings) {
  Verdict result;
  if (ranks.empty() || steps < 1 || training_seconds(ranks[0]) <= 0) {
    result.text = "verdict: too few steps for a verdict";
    return result;
  }
  // The share of a phase is judged on the rank where it is largest; the others wait for that rank in the all-reduce.
  const auto worst = [&](Phase phase) {
    return std::max_element(ranks.begin(), ranks.end(), [&](const PhaseSeconds& a, const PhaseSeconds& b) {
      return of(a, phase) / training_seconds(a) < of(b, phase) / training_seconds(b);
    });
  };
  const auto judge = [&](Phase phase, Verdict::Kind kind, double threshold) {
    const auto rank = worst(phase);
    const double share = of(*rank, phase) / training_seconds(*rank);
    if (share < threshold || (result.kind != Verdict::Kind::kUnknown && share <= result.share)) return;
    result.kind = kind;
    result.share = share;
    result.worst_rank = static_cast<int>(rank - ranks.begin());
  };
  judge(Phase::kDataWait, Verdict::Kind::kData, 0.10);
  judge(Phase::kH2d, Verdict::Kind::kTransfer, 0.10);
  judge(Phase::kOptimizer, Verdict::Kind::kOptimizer, 0.25);
  // A rank also waits in the all-reduce for slower ranks. Only the shortest wait of all ranks is due to the network.
  const auto least = std::min_element(ranks.begin(), ranks.end(), [](const PhaseSeconds& a, const PhaseSeconds& b) {
    return of(a, Phase::kAllReduceWait) < of(b, Phase::kAllReduceWait);
  });
  const double network = of(*least, Phase::kAllReduceWait) / training_seconds(*least);
  if (ranks.size() > 1 && network >= 0.10 && network > result.share) {
    result.kind = Verdict::Kind::kCommunication;
    result.share = network;
    result.worst_rank = static_cast<int>(least - ranks.begin());
  }

  const PhaseSeconds& rank = ranks[static_cast<size_t>(result.worst_rank)];
  const double step_ms = 1e3 * training_seconds(rank) / static_cast<double>(steps);
  const auto evidence = [&](Phase phase, const char* doing) {
    return str(percent(result.share), " (", fixed(1e3 * of(rank, phase) / static_cast<double>(steps), 1), " of ",
               fixed(step_ms, 1), " ms ", doing, ranks.size() > 1 ? str(", worst rank ", result.worst_rank) : "", ")");
  };
  switch (result.kind) {
    case Verdict::Kind::kData:
      result.text =
          str("verdict: data-bound ", evidence(Phase::kDataWait, "waiting"), ": ",
              settings.workers < settings.cores
                  ? str("set --data.workers ", std::min(settings.cores, settings.workers * 2))
                  : str("the readers use all ", settings.cores, " cores; ",
                        !settings.images ? "use more cores, or a faster disk" : "convert to a smaller --size",
                        settings.images && settings.hue ? ", or set --augment.hue 0, the slowest augmentation" : ""));
      break;
    case Verdict::Kind::kTransfer:
      result.text = str("verdict: transfer-bound ", evidence(Phase::kH2d, "copying"), ": set --data.prefetch higher");
      break;
    case Verdict::Kind::kCommunication:
      result.text = str("verdict: communication-bound ", evidence(Phase::kAllReduceWait, "waiting for gradients"),
                        ": set --accumulate higher, or a larger --batch-size");
      break;
    case Verdict::Kind::kOptimizer:
      result.text =
          str("verdict: optimizer-bound ", evidence(Phase::kOptimizer, "updating"), ": set a larger --batch-size");
      break;
    default: {
      result.kind = Verdict::Kind::kCompute;
      const auto busy = std::max_element(ranks.begin(), ranks.end(), [](const PhaseSeconds& a, const PhaseSeconds& b) {
        return of(a, Phase::kForward) + of(a, Phase::kBackward) < of(b, Phase::kForward) + of(b, Phase::kBackward);
      });
      result.worst_rank = static_cast<int>(busy - ranks.begin());
      const double compute = of(*busy, Phase::kForward) + of(*busy, Phase::kBackward);
      result.share = compute / training_seconds(*busy);
      result.text = str(
          "verdict: compute-bound ", percent(result.share), " (", fixed(1e3 * compute / static_cast<double>(steps), 1),
          " of ", fixed(1e3 * training_seconds(*busy) / static_cast<double>(steps), 1), " ms in forward and backward",
          ranks.size() > 1 ? str(", slowest rank ", result.worst_rank) : "",
          "): ", settings.gpu ? "no phase waits; try --amp and --model.channels_last" : "a GPU would help most");
    }
  }
  return result;
}

}  // namespace dtrain::diagnose
