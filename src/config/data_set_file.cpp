#include "config/data_set_file.h"

#include "core/error.h"
#include "os/file_system.h"
#include "text/strings.h"

namespace dtrain::config {

std::string file_of_data_set(std::string_view name) { return str("data/", name, ".h5"); }

void require_data_set(const catalog::DataSetEntry& set, const std::filesystem::path& file) {
  if (is_there(file)) return;
  const bool one_file = set.folder.empty();
  throw DataError(str(file.string(), " does not exist: make it with `dtrain convert ", set.name,
                      one_file ? " FILE.npz`" : " DIR`"));
}

}  // namespace dtrain::config
