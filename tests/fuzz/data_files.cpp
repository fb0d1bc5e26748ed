// Opens and reads damaged data files as dtrain's commands do, and expects of each that it is
// refused with a DataError or read. The HDF5 library may crash or loop, but only in the process
// that ProbeProcess keeps for it.
//
// usage: fuzz_data_files [--seed S] [--mutants N] [--flips N] [--minutes M] [--cases FILE]
// [--failures FOLDER]
//   --mutants N, --flips N   this many of each kind, over all example files; with --minutes: in
//                            each round
//   --minutes M              rounds with the next seeds until the time is over
//   --cases FILE             first these: one a line, "FILE.h5 KIND SEED NUMBER", as a failure
//                            prints them
//   --failures FOLDER        where the file that failed is kept
// Exit code: 0, or 1 after a death, a hang or an error of another type.

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "core/error.h"
#include "data/hdf5/file_store.h"
#include "data/hdf5/probe_process.h"
#include "fuzz/example_files.h"
#include "fuzz/mutate.h"
#include "os/file_system.h"
#include "support/temp_dir.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr data::ProbeLimits kLimits{
    .processor = std::chrono::seconds(4), .wall = std::chrono::seconds(20), .bytes = 512 << 20};
constexpr int kHangMilliseconds = 60'000;

struct Options {
  uint64_t seed = 1;
  int64_t mutants = 400, flips = 800, minutes = 0;
  fs::path cases, failures = ".";
};

struct Case {
  std::string file, kind;  // kind: flip, mutant or whole
  uint64_t seed = 0, number = 0;
};

std::string text_of(const Case& c) { return str(c.file, " ", c.kind, " ", c.seed, " ", c.number); }

std::string bytes_of_case(const Case& c, const fs::path& examples) {
  const std::string whole = read_text(examples / c.file);
  return c.kind == "flip"     ? flip_bit(whole, c.seed, c.number)
         : c.kind == "mutant" ? mutate_hdf5(whole, c.seed, c.number)
                              : whole;
}

struct Counts {
  int64_t read = 0, refused = 0, died = 0;
};

// As inspect --verify, and a loader, read a file.
void read_all(const data::Layout& layout) {
  data::inspect_data(layout, /*verify=*/false);
  const auto store = data::open_file(layout);
  std::vector<std::byte> bytes;
  for (int64_t id = 0; id < store->schema().samples; ++id) {
    bytes.resize(static_cast<size_t>(store->input_bytes(id)));
    store->read_input(id, bytes);
    bytes.resize(static_cast<size_t>(store->target_bytes(id)));
    store->read_target(id, bytes);
    store->origin().source(id);
  }
  store->origin().check_unchanged();
  store->verify();
}

void run_case(const Case& c, const fs::path& examples, data::ProbeProcess& prober, Counts& counts) {
  const fs::path file = examples / "case.h5";
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes_of_case(c, examples);
  try {
    read_all(prober.probe(file));
    ++counts.read;
  } catch (const DataError& e) {
    const std::string_view message = e.what();
    if (message.find(file.string()) == std::string_view::npos)
      throw Error(str("no file is named: ", message));
    ++(message.find("the process in which the HDF5 library") == std::string_view::npos
           ? counts.refused
           : counts.died);
  }
}

// Runs cases in this process. Writes a line before each, so that whoever reads them knows where
// this process ended.
class Runner {
 public:
  Runner(const Options& options, fs::path examples, std::vector<fs::path> files, int out)
      : options_(options),
        examples_(std::move(examples)),
        files_(std::move(files)),
        out_(out),
        prober_(kLimits) {}

  void run() {
    for (const fs::path& file : files_) {
      run({file.filename().string(), "whole", 0, 0});
      if (counts_.read == 0 || counts_.refused + counts_.died > 0)
        throw Error(str(file.string(), " must be read"));
    }
    for (const Case& c : listed()) run(c);
    const auto end = Clock::now() + std::chrono::minutes(options_.minutes);
    uint64_t seed = options_.seed;
    do {
      round(seed++);
    } while (Clock::now() < end);
    std::printf(
        "%lld read, %lld refused, %lld refused after the HDF5 library died of them; no death, no "
        "hang\n",
        static_cast<long long>(counts_.read), static_cast<long long>(counts_.refused),
        static_cast<long long>(counts_.died));
  }

 private:
  void run(const Case& c) {
    const std::string line = text_of(c) + "\n";
    if (::write(out_, line.data(), line.size()) < 0) throw Error("no one reads");
    run_case(c, examples_, prober_, counts_);
  }

  void round(uint64_t seed) {
    for (const auto& [kind, count] :
         {std::pair("mutant", options_.mutants), std::pair("flip", options_.flips)}) {
      for (int64_t i = 0; i < count; ++i) {
        const fs::path& file = files_[static_cast<size_t>(i) % files_.size()];
        run({file.filename().string(), kind, seed, static_cast<uint64_t>(i)});
      }
    }
  }

  std::vector<Case> listed() const {
    std::vector<Case> cases;
    std::ifstream in(options_.cases);
    if (!options_.cases.empty() && !in) throw Error(str("cannot read ", options_.cases.string()));
    for (std::string line; std::getline(in, line);) {
      Case c;
      if (line.starts_with('#')) continue;
      if (!(std::istringstream(line) >> c.file >> c.kind >> c.seed >> c.number))
        throw Error("no case: " + line);
      cases.push_back(c);
    }
    return cases;
  }

  const Options& options_;
  const fs::path examples_;
  const std::vector<fs::path> files_;
  const int out_;
  data::ProbeProcess prober_;
  Counts counts_;
};

// The last line that the runner wrote before it ended; sets `hangs` if it writes none for a
// long time.
std::string last_line(int in, bool* hangs) {
  std::string text, last;
  char piece[4096];
  while (true) {
    pollfd ready{.fd = in, .events = POLLIN, .revents = 0};
    *hangs = ::poll(&ready, 1, kHangMilliseconds) == 0;
    const ssize_t got = *hangs ? 0 : ::read(in, piece, sizeof piece);
    if (got <= 0) return last;
    text.append(piece, static_cast<size_t>(got));
    const size_t end = text.rfind('\n');
    if (end == std::string::npos) continue;
    const size_t begin = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
    last = text.substr(begin == std::string::npos ? 0 : begin + 1,
                       end - (begin == std::string::npos ? 0 : begin + 1));
    text.erase(0, end + 1);
  }
}

int watch(const Options& options) {
  const TempDir examples;
  const std::vector<fs::path> files = write_example_files(examples.path());
  int ends[2];
  if (::pipe(ends) != 0) throw Error("no pipe");
  const pid_t runner = ::fork();
  if (runner == 0) {
    ::close(ends[0]);
    int code = 0;
    try {
      Runner(options, examples.path(), files, ends[1]).run();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      code = 1;
    }
    std::fflush(stdout);
    ::_exit(code);
  }
  ::close(ends[1]);
  bool hangs = false;
  const std::string last = last_line(ends[0], &hangs);
  if (hangs) ::kill(runner, SIGKILL);
  int status = 0;
  ::waitpid(runner, &status, 0);
  if (!hangs && WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  Case c;
  std::istringstream(last) >> c.file >> c.kind >> c.seed >> c.number;
  const fs::path kept = options.failures / str(c.kind, "-", c.seed, "-", c.number, "-", c.file);
  fs::create_directories(options.failures);
  std::ofstream(kept, std::ios::binary) << bytes_of_case(c, examples.path());
  std::printf("FAILED (%s) at case: %s\nthe file is kept as %s\n",
              hangs                 ? "hang"
              : WIFSIGNALED(status) ? ::strsignal(WTERMSIG(status))
                                    : "error",
              last.c_str(), kept.c_str());
  return 1;
}

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string flag = arguments[i], value = arguments[i + 1];
    const auto number = [&] {
      const auto found = parse_number<int64_t>(value);
      if (!found) throw Error(str(flag, " takes a number, not ", value));
      return *found;
    };
    if (flag == "--seed") {
      options.seed = static_cast<uint64_t>(number());
    } else if (flag == "--mutants") {
      options.mutants = number();
    } else if (flag == "--flips") {
      options.flips = number();
    } else if (flag == "--minutes") {
      options.minutes = number();
    } else if (flag == "--cases") {
      options.cases = value;
    } else if (flag == "--failures") {
      options.failures = value;
    } else {
      throw Error("unknown option " + flag);
    }
  }
  if (count % 2 == 0) throw Error(str(arguments[count - 1], " needs a value"));
  return options;
}

}  // namespace
}  // namespace dtrain::testing

int main(int count, char** arguments) {
  try {
    return dtrain::testing::watch(dtrain::testing::parse(count, arguments));
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 64;
  }
}
