#include "formats/tool_files.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "core/log.h"
#include "text/printable.h"
#include "text/strings.h"

namespace dtrain::formats {
namespace {

// Of Windows; of macOS and its archives; of file systems; of Synology's and QNAP's drives;
// of Python.
constexpr std::array kNames{
    "thumbs.db",  "ehthumbs.db", "desktop.ini", "$recycle.bin", "system volume information",
    "__macosx",   "_ds_store",   "icon\r",      "lost+found",   "@eadir",
    "@tmp",       "#recycle",    "#snapshot",   "@recycle",     "@recently-snapshot",
    "__pycache__"};
// Before NAME: what macOS knows of the file NAME and other file systems cannot store.
constexpr std::string_view kAppleDouble = "._";
constexpr size_t kMostNames = 4;  // limit for the names in the text; the rest are "others"

std::string name_of(const std::filesystem::path& path) { return path.filename().string(); }

}  // namespace

bool left_by_tool(const std::filesystem::path& path) {
  const std::string name = name_of(path);
  return name.starts_with('.') || std::ranges::find(kNames, lower_case(name)) != kNames.end();
}

bool ToolFiles::takes(const std::filesystem::path& path) {
  if (!left_by_tool(path)) return false;
  const std::string name = name_of(path);
  ++count_by_name_[name.starts_with(kAppleDouble) ? str(kAppleDouble, "*") : name];
  return true;
}

std::string ToolFiles::text() const {
  std::vector<std::pair<int64_t, std::string>> most;
  int64_t all = 0;
  for (const auto& [name, count] : count_by_name_) {
    most.emplace_back(-count, name);
    all += count;
  }
  if (all == 0) return "";
  std::sort(most.begin(), most.end());
  std::vector<std::string> parts;
  for (const auto& [negative, name] : most) {
    if (parts.size() == kMostNames) {
      parts.emplace_back("others");
      break;
    }
    parts.push_back(negative == -1 ? name : str(human_count(-negative), " x ", name));
  }
  return str(human_count(all), all == 1 ? " file or folder" : " files and folders",
             " of tools: ", join(parts, ", "));
}

void log_left_out(const ToolFiles& files) {
  const std::string text = files.text();
  if (!text.empty()) log::info(printable("left out " + text));
}

}  // namespace dtrain::formats
