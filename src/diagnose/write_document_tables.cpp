// document_tables_program FILE...: writes the generated tables of documents again.

#include <cstdio>

#include "core/error.h"
#include "diagnose/causes.h"
#include "diagnose/document_tables.h"
#include "monitoring/series.h"
#include "os/file_system.h"

int main(int count, char** arguments) try {
  for (int i = 1; i < count; ++i) {
    const std::string text =
        dtrain::with_tables(dtrain::read_text(arguments[i]), [](std::string_view name) {
          return name == "causes" ? dtrain::diagnose::cause_table()
                                  : dtrain::monitoring::metric_table(name);
        });
    dtrain::write_atomically(dtrain::real_file_system(), arguments[i], text);
  }
  return 0;
} catch (const dtrain::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
