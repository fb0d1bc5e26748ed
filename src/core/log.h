#pragma once

// The messages of dtrain to people. Rank 0 prints all of them, the other ranks only warnings and
// errors, each with the rank and, in a job on several hosts, the host. Lines go to stderr and, once
// a run folder exists, also to its log.txt (rank 0). Messages may quote names that others chose;
// printable.h escapes what is dangerous in them. No spdlog or fmt type appears here, because fmt's
// headers conflict with the copy inside LibTorch.
// Thread-safety: all functions may be called from any thread after set_rank().

#include <functional>
#include <string>
#include <string_view>

namespace dtrain::log {

// Until it is called: rank 0 of 1
void set_rank(int rank, int world_size, std::string_view host = {});
void open_file(const std::string& path);  // appends; throws OutputError
void close_file();

// While it lives, `tap` receives each line that this process logs, as log.txt has it but without
// the time, one after the other. `tap` may be called by any thread; it must return soon and must
// not log.
class LogTap {
 public:
  explicit LogTap(std::function<void(std::string_view line)> tap);
  ~LogTap();
  LogTap(const LogTap&) = delete;
  LogTap& operator=(const LogTap&) = delete;
};

void info(std::string_view message);  // rank 0 only
// Rank 0 only, without time and level: banner, step lines, tables
void plain(std::string_view message);
// Rank 0's log.txt only, for what the terminal shows as a progress bar
void to_file(std::string_view message);
// rank 0's terminal only, as plain(); for progress, which no file needs
void to_console(std::string_view message);
void warning(std::string_view message);       // any rank
std::string error(std::string_view message);  // any rank; returns what was printed
// Any rank, the terminal only: a line for the program that started this one, as it is.
void for_program(std::string_view line);

// All that a library said of an error whose message is one sentence. Printed as plain() does, but
// on every rank, if show_details() was called (--debug). Any thread may call them at any time.
void show_details();  // from now on
void detail(std::string_view message);

// While one lives, info() and plain() print nothing, on the terminal and in the file, from any
// thread: for work that is repeated and says the same each time.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

// Rank 0's line at the bottom of a terminal, such as a progress bar, which is rewritten in place:
// messages are printed above it. `text` must fit into the width of the terminal, and is shown as it
// is; "" removes the line.
void status(std::string_view text);
void end_status();  // leaves the line as it is; what comes next begins below it

}  // namespace dtrain::log
