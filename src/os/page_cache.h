#pragma once

// The copy of a file that Linux keeps in memory: whether a read comes from the disk or from there
// decides how fast it is. Thread-safety: any thread. Errors: none; what cannot be found out
// is std::nullopt.

#include <filesystem>
#include <optional>

namespace dtrain {

// The share of a file that is in the page cache, 0 to 1. The kernel tells it of files that this
// process owns or may write, and says of all others that they are in memory. nullopt: the file
// cannot be examined, or is empty.
std::optional<double> cached_share(const std::filesystem::path& file);

// Asks the kernel to drop its copy of the file, and returns what is left of it, as cached_share().
// Pages that another process has mapped or locked stay, and so does all of a file on tmpfs, which
// is nowhere else.
std::optional<double> drop_from_page_cache(const std::filesystem::path& file);

}  // namespace dtrain
