#include "os/file_system.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "os/file_descriptor.h"
#include "os/net_address.h"
#include "text/number_text.h"

namespace dtrain {
namespace {

constexpr const char* kTemporary = ".tmp";  // and the number of the process, and this_host()
constexpr auto kOfAnotherHost = std::chrono::hours(1);  // whose processes cannot be seen here

// What numbers of processes are of: a machine since it was started, and there a container with
// processes of its own.
std::string this_host() {
  std::string boot, text;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code unknown;
  text = host_name() + boot + std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string();
  return "-" + hex(xxh64(text)).substr(8);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

// Calls `moved` as make_moving_files() says.
class RealFileSystem : public FileSystem {
 public:
  RealFileSystem(std::function<void()> moved, std::string when_full, size_t piece_bytes)
      : moved_(std::move(moved)), when_full_(std::move(when_full)), piece_bytes_(piece_bytes) {}

  void write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes) override {
    FileDescriptor file;
    const auto check = [&](const char* operation, int code) {
      if (code != 0) fail_to_write(operation, path, code, when_full_);
    };
    check("create", file.open(path, O_WRONLY | O_CREAT | O_TRUNC));
    while (!bytes.empty()) {
      const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), piece_bytes_));
      check("write", file.write_all(piece));
      bytes = bytes.subspan(piece.size());
      if (bytes.empty()) break;
      check("fsync", ::fdatasync(file.get()) == 0 ? 0 : errno);
      moved_();
    }
    check("fsync", file.sync());
    check("close", file.close());
    moved_();
  }

  void sync_folder(const std::filesystem::path& folder) override {
    FileDescriptor file;
    if (const int code = file.open(folder, O_RDONLY | O_DIRECTORY))
      fail_to_write("open folder", folder, code);
    if (const int code = file.sync()) fail_to_write("fsync folder", folder, code);
    moved_();
  }

  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail_to_write("rename to", to, errno);
    moved_();
  }

  void create_folders(const std::filesystem::path& folder) override {
    std::error_code code;
    std::filesystem::create_directories(folder, code);
    end("create folder", folder, code);
  }

  void create_folder(const std::filesystem::path& folder) override {
    std::error_code code;
    std::filesystem::create_directory(folder, code);
    end("create", folder, code);
  }

  void remove_all(const std::filesystem::path& path) override {
    std::error_code code;
    std::filesystem::remove_all(path, code);
    end("remove", path, code);
  }

  void note_read() override { moved_(); }

 private:
  void end(const char* operation, const std::filesystem::path& path, std::error_code code) const {
    if (code) fail_to_write(operation, path, code.value());
    moved_();
  }

  const std::function<void()> moved_;
  const std::string when_full_;
  const size_t piece_bytes_;
};

// Whether the process is gone that has given a file this temporary name: `rest` is what follows
// kTemporary. Times are compared with that of another file there, because the clock of a file
// server may differ from the one here.
bool is_abandoned(std::string_view rest, const std::filesystem::directory_entry& file,
                  std::filesystem::file_time_type now) {
  const size_t dash = rest.find('-');
  const std::optional<int> process = parse_number<int>(rest.substr(0, dash));
  if (!process || *process <= 0 || dash == rest.npos) return false;
  if (rest.substr(dash) == this_host()) return ::kill(*process, 0) != 0 && errno == ESRCH;
  return file.last_write_time() < now - kOfAnotherHost;
}

}  // namespace

FileSystem& real_file_system() {
  // Never destroyed: threads may write while the process exits
  static FileSystem& files =
      *new RealFileSystem([] {}, /*when_full=*/"", std::numeric_limits<size_t>::max());
  return files;
}

std::unique_ptr<FileSystem> make_moving_files(std::function<void()> moved, std::string when_full,
                                              int64_t piece_bytes) {
  DTRAIN_CHECK(moved && piece_bytes > 0);
  return std::make_unique<RealFileSystem>(std::move(moved), std::move(when_full),
                                          static_cast<size_t>(piece_bytes));
}

void write_atomically(FileSystem& files, const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path temporary = temporary_name(path);
  try {
    files.write_durably(temporary, std::as_bytes(std::span(text)));
    put_in_place(files, temporary, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  return path.string() + kTemporary + std::to_string(::getpid()) + this_host();
}

void put_in_place(FileSystem& files, const std::filesystem::path& temporary,
                  const std::filesystem::path& path) {
  files.rename(temporary, path);
  files.sync_folder(folder_of(path));
  remove_abandoned(path);
}

void remove_abandoned(const std::filesystem::path& path) noexcept {
  try {
    const std::string prefix = path.filename().string() + kTemporary;
    std::error_code missing;
    const std::filesystem::file_time_type written = std::filesystem::last_write_time(path, missing);
    const auto now = missing ? std::filesystem::file_time_type::min() + kOfAnotherHost : written;
    for (const std::filesystem::directory_entry& entry :
         std::filesystem::directory_iterator(folder_of(path))) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(prefix)) continue;
      if (is_abandoned(std::string_view(name).substr(prefix.size()), entry, now))
        std::filesystem::remove(entry.path());
    }
  } catch (const std::exception&) {
    // What cannot be listed or removed stays. It takes space, and does no other harm.
  }
}

void check_output(const std::filesystem::path& path, bool replace) {
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (!std::filesystem::status_known(status)) fail_to_write("use", path, code.value());
  if (std::filesystem::is_directory(status))
    throw OutputError(str(path.string(), " is a folder, not a file"));
  if (!replace && std::filesystem::is_regular_file(status)) {
    throw OutputError(str(path.string(), " exists: --force replaces it, another name keeps it"));
  }
}

void check_new_file(const std::filesystem::path& path, bool replace) {
  check_output(path, replace);
  std::error_code none;
  const std::filesystem::file_status status = std::filesystem::status(path, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw OutputError(
        str(path.string(),
            " is a device or a pipe: the output is written to a temporary file, which then ",
            "replaces the named one. Give the name of a file"));
  }
}

std::filesystem::path link_target(std::filesystem::path path) {
  std::error_code code;
  for (int links = 0; links < 40; ++links) {  // the limit of Linux
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(path, code))) break;
    // Or absolute
    std::filesystem::path target = path.parent_path() / std::filesystem::read_symlink(path, code);
    // A link of /proc to a pipe leads there, though its text is no path.
    if (!std::filesystem::exists(target, code) && std::filesystem::exists(path, code)) break;
    path = std::move(target);
  }
  return path;
}

bool is_there(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf() || in.peek() == EOF))
    throw Error(str("cannot read ", path.string()));
  return text.str();
}

}  // namespace dtrain
