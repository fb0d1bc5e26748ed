// config_reference FILE: writes docs/configuration.md.

#include <cstdio>

#include "config/print.h"
#include "core/error.h"
#include "os/file_system.h"

int main(int count, char** arguments) try {
  if (count != 2) throw dtrain::UsageError("usage: config_reference FILE");
  dtrain::write_atomically(dtrain::real_file_system(), arguments[1],
                           dtrain::config::reference_markdown());
  return 0;
} catch (const dtrain::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
