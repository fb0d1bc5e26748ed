#pragma once

// What the tasks that tell classes apart ask of a data file alike. DataError, with file and sample, otherwise.

#include <string>
#include <vector>

#include "data/store.h"

namespace dtrain::tasks {

// The file's class_names are `known`, in that order.
void check_class_names(const data::Store&, const std::vector<std::string>& known);

// Every sample has a class. Those of a class that does not exist are the loader's to leave out and to name.
void check_classes_are_known(const data::Store&);

}  // namespace dtrain::tasks
