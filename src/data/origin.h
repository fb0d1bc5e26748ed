#pragma once

// Where the samples of a data set come from, and what its file says of them, apart from their
// bytes (store.h). Ids are those of the store.
//
// Errors: DataError that names file, dataset and sample.
// Thread-safety: all const methods may be called from any thread.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace dtrain::data {

class Origin {
 public:
  virtual ~Origin() = default;

  virtual const std::filesystem::path& path() const = 0;  // for raw files, the first one
  virtual std::string name(int64_t id) const;             // for messages: FILE#id
  // Path relative to the converted folder.
  virtual std::string source(int64_t id) const = 0;
  virtual int64_t group(int64_t id) const = 0;  // samples of one photo or person share a group
  // The ids of "train", "val" or "test"; empty if absent. Reads the file: they are not kept.
  virtual std::vector<int64_t> split(const std::string& name) const = 0;
  virtual std::string attribute(const std::string& name) const = 0;  // value as text; "" if absent
  virtual int64_t modified_ns() const { return 0; }  // last write, since 1970; 0: unknown
  // Throws DataError if the file was written to or cut since it was opened. A file that was renamed
  // to its path is another file, and no change of this one.
  virtual void check_unchanged() const {}
};

std::vector<std::string> class_names(const Origin&);  // empty if the file has none

// What the numbers of the targets mean: those of the attributes class_names, target_names and
// target_unit that the file has, by name.
std::map<std::string, std::string> meaning_of(const Origin&);

}  // namespace dtrain::data
