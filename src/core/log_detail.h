#pragma once

// All that a library said of an error, where the message of it is one sentence. Printed with
// `--debug` only. Thread-safety: any thread may call these functions.

#include <string_view>

namespace dtrain::log {

void show_details();  // from now on

// Prints as plain() of core/log.h does, on every rank, if show_details() was called.
void detail(std::string_view message);

}  // namespace dtrain::log
