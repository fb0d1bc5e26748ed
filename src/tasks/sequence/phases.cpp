#include "tasks/sequence/phases.h"

#include <algorithm>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::tasks {

SequencePhase phase_of(const config::Sequence& sequence, int64_t epoch) {
  const int64_t cycle = sequence.encoder_epochs + sequence.classifier_epochs;
  const bool over = sequence.iterations > 0 && epoch >= sequence.iterations * cycle;
  return !over && epoch % cycle < sequence.encoder_epochs ? SequencePhase::kEncoder
                                                          : SequencePhase::kClassifier;
}

std::string check_epochs(const config::Sequence& s, int64_t epochs, bool by_max_steps) {
  const int64_t iterations = std::max<int64_t>(1, s.iterations);
  const int64_t needed = iterations * (s.encoder_epochs + s.classifier_epochs);
  const std::string sum = str(
      iterations == 1 ? "one iteration" : str(iterations, " iterations"), " of ", s.encoder_epochs,
      " + ", s.classifier_epochs, " epochs ", iterations == 1 ? "needs " : "need ", needed,
      " epochs; ",
      by_max_steps ? "train.max_steps ends the training in epoch " : "train.epochs is ", epochs);
  if (by_max_steps && epochs <= s.encoder_epochs) {
    return sum +
           ": the classifier is not trained at all. Use more --train.max_steps, or fewer "
           "--sequence.encoder_epochs";
  }
  if (epochs <= s.encoder_epochs) {
    throw ConfigError(
        str(sum,
            ": the classifier would never be trained. Use more --train.epochs, or fewer "
            "--sequence.encoder_epochs and --sequence.classifier_epochs"));
  }
  if (s.iterations == 0 || epochs >= needed) return "";
  return str(sum, ": training ends before the last iteration. Use more --train.",
             by_max_steps ? "max_steps" : "epochs", ", or fewer --sequence.iterations");
}

}  // namespace dtrain::tasks
