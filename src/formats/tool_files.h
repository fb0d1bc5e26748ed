#pragma once

// Files and folders that desktops, network drives, archives and notebooks leave among data. They
// are no samples, even where they hold pictures (@eaDir has thumbnails), and no classes.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace dtrain::formats {

// Whether the last part of this path is the name of such a file or folder: Thumbs.db, desktop.ini,
// @eaDir, __MACOSX, lost+found and others, in any case, and every hidden one, such as .DS_Store.
bool left_by_tool(const std::filesystem::path&);

// Counts what a listing leaves out, for one line.
class ToolFiles {
 public:
  // Whether it is left out; counts it if so. A folder counts once, whatever it holds.
  bool takes(const std::filesystem::path&);
  // "3 files and folders of tools: 2 x .DS_Store, @eaDir". Empty if nothing was left out.
  std::string text() const;

 private:
  std::map<std::string, int64_t> count_by_name_;
};

void log_left_out(const ToolFiles&);  // one line, if there are any

}  // namespace dtrain::formats
