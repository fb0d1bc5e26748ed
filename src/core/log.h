#pragma once

// What dtrain says to people. Rank 0 speaks, the other ranks only on warnings and errors; every line of another rank
// carries it. Lines go to stderr and, once a run folder exists, also to its log.txt (rank 0). Messages may quote names
// that others chose: see printable.h for what becomes of them. A facade without spdlog or fmt types: fmt's headers
// clash with the copy inside LibTorch. Thread-safety: all functions may be called from any thread after set_rank().

#include <string>
#include <string_view>

namespace dtrain::log {

void set_rank(int rank, int world_size);  // before it: rank 0 of 1
void open_file(const std::string& path);  // throws OutputError; appends
void close_file();

void info(std::string_view message);     // rank 0 only
void plain(std::string_view message);    // rank 0 only, without time and level (banner, step lines, tables); any lines
void to_file(std::string_view message);  // rank 0's log.txt only: what a progress bar shows on the terminal
void warning(std::string_view message);  // any rank
void error(std::string_view message);    // any rank

}  // namespace dtrain::log
