#pragma once

// What the tasks that tell classes apart ask of a data file alike. DataError, with file and sample, otherwise.

#include <string>
#include <vector>

#include "data/store.h"

namespace dtrain::tasks {

// The file's class_names are `known`, in that order.
void check_class_names(const data::Store&, const std::vector<std::string>& known);

}  // namespace dtrain::tasks
