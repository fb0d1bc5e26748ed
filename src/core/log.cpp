#include "core/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "text/printable.h"

namespace dtrain::log {
namespace {

struct State {
  std::mutex mutex;
  int rank = 0;
  std::string prefix;  // put before warnings and errors
  int quiet = 0;       // how many Quiet live
  bool details = false;
  std::shared_ptr<spdlog::sinks::stderr_sink_mt> console =
      std::make_shared<spdlog::sinks::stderr_sink_mt>();
  std::shared_ptr<spdlog::sinks::basic_file_sink_mt> file;
  std::function<void(std::string_view)> tap;
  std::string status;  // the line at the bottom of the terminal; "": none
};

State& state() {
  static State* instance = new State;  // never destroyed: threads may log while the process exits
  return *instance;
}

enum class To { kBoth, kConsole, kFile };

constexpr const char* kEraseLine = "\r\033[K";

// Returns what it wrote, without the time.
std::string write(spdlog::level::level_enum level, std::string_view message, bool decorated,
                  To to = To::kBoth) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if ((s.rank != 0 || s.quiet > 0) && level < spdlog::level::warn) return "";
  std::string text;
  if (decorated && level >= spdlog::level::warn) {
    text += s.prefix;
    text += level == spdlog::level::warn ? "warning: " : "error: ";
  }
  text += decorated ? printable_message(message) : printable(message, "\n\t");
  const std::string pattern =
      decorated && level < spdlog::level::warn ? "[%Y-%m-%d %H:%M:%S] %v" : "%v";
  if (s.tap && to != To::kConsole) s.tap(text);
  const spdlog::details::log_msg record("dtrain", level, text);
  for (const std::shared_ptr<spdlog::sinks::sink>& sink :
       {std::static_pointer_cast<spdlog::sinks::sink>(s.console),
        std::static_pointer_cast<spdlog::sinks::sink>(s.file)}) {
    const bool console = sink == s.console;
    if (!sink || to == (console ? To::kFile : To::kConsole)) continue;
    if (console && !s.status.empty()) std::fputs(kEraseLine, stderr);
    try {
      sink->set_pattern(pattern);
      sink->log(record);
      sink->flush();
    } catch (const spdlog::spdlog_ex&) {
      // A log line that cannot be written must not end training. A full disk is reported by metrics
      // and checkpoints.
    }
    if (console && !s.status.empty()) std::fputs(s.status.c_str(), stderr);
  }
  return text;
}

}  // namespace

void set_rank(int rank, int world_size, std::string_view host) {
  const std::lock_guard lock(state().mutex);
  state().rank = rank;
  state().prefix.clear();
  if (world_size > 1)
    state().prefix = "[rank " + std::to_string(rank) +
                     (host.empty() ? "" : " on " + printable_message(host)) + "] ";
}

void open_file(const std::string& path) {
  const std::lock_guard lock(state().mutex);
  try {
    state().file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, /*truncate=*/false);
  } catch (const spdlog::spdlog_ex& e) {
    throw OutputError(std::string("cannot write the log file ") + path + ": " + e.what());
  }
}

void close_file() {
  const std::lock_guard lock(state().mutex);
  state().file.reset();
}

Quiet::Quiet() {
  const std::lock_guard lock(state().mutex);
  ++state().quiet;
}

Quiet::~Quiet() {
  const std::lock_guard lock(state().mutex);
  --state().quiet;
}

LogTap::LogTap(std::function<void(std::string_view)> tap) {
  const std::lock_guard lock(state().mutex);
  state().tap = std::move(tap);
}

LogTap::~LogTap() {
  const std::lock_guard lock(state().mutex);
  state().tap = nullptr;
}

void info(std::string_view message) { write(spdlog::level::info, message, true); }
void plain(std::string_view message) { write(spdlog::level::info, message, false); }
void to_file(std::string_view message) { write(spdlog::level::info, message, false, To::kFile); }
void to_console(std::string_view message) {
  write(spdlog::level::info, message, false, To::kConsole);
}
void warning(std::string_view message) { write(spdlog::level::warn, message, true); }
std::string error(std::string_view message) { return write(spdlog::level::err, message, true); }
void for_program(std::string_view line) { write(spdlog::level::err, line, false, To::kConsole); }

void detail(std::string_view message) {
  {
    const std::lock_guard lock(state().mutex);
    if (!state().details) return;
  }
  write(spdlog::level::warn, message, false);
}

void show_details() {
  const std::lock_guard lock(state().mutex);
  state().details = true;
}

void status(std::string_view text) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.rank != 0 || (text.empty() && s.status.empty())) return;
  s.status = text;
  // Not erased first, which would flicker
  std::fputs(("\r" + s.status + "\033[K").c_str(), stderr);
  std::fflush(stderr);
}

void end_status() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.status.empty()) std::fputs("\n", stderr);
  s.status.clear();
}

}  // namespace dtrain::log
