#include "tasks/class_check.h"

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::tasks {

void check_class_names(const data::Store& store, const std::vector<std::string>& known) {
  const std::string names = store.attribute("class_names");
  if (names == join(known, "\n")) return;
  throw DataError(str(store.path().string(), " has the classes ", join(split(names, '\n'), ", "),
                      "; the network knows ", join(known, ", "), ": their names and order must be the same"));
}

}  // namespace dtrain::tasks
