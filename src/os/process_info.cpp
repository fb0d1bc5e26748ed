#include "os/process_info.h"

#include <pthread.h>

#include <fstream>
#include <sstream>
#include <system_error>

#include "text/strings.h"

namespace dtrain {

// /proc/PID/stat: pid (name) state parent ...; the name may contain anything, so it ends at the
// last bracket.
std::optional<ProcessInfo> process_info(int process) {
  std::ifstream file(str("/proc/", process, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const size_t begin = line.find('('), end = line.rfind(')');
  if (begin == std::string::npos || end == std::string::npos) return std::nullopt;
  ProcessInfo info{line.substr(begin + 1, end - begin - 1), 0};
  std::istringstream rest(line.substr(end + 1));
  char state = 0;
  rest >> state >> info.parent;
  return info;
}

std::filesystem::path program_of(int process) {
  std::error_code unknown;
  return std::filesystem::read_symlink(str("/proc/", process, "/exe"), unknown);
}

void name_this_thread(const char* name) { ::pthread_setname_np(::pthread_self(), name); }

}  // namespace dtrain
