#pragma once

// Which phase of the task `sequence` an epoch belongs to. Pure.

#include <cstdint>
#include <string>

#include "config/config.h"

namespace dtrain::tasks {

enum class SequencePhase { kEncoder, kClassifier };

// An iteration is encoder_epochs, then classifier_epochs. After the last of `iterations` (0: there
// is no last) all epochs are the classifier's.
SequencePhase phase_of(const config::Sequence&, int64_t epoch);

// Task::check_epochs() of this task.
std::string check_epochs(const config::Sequence&, int64_t epochs, bool by_max_steps);

}  // namespace dtrain::tasks
