#include "data/hdf5/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "core/check.h"
#include "core/hash.h"
#include "core/parallel.h"
#include "data/hdf5/layout.h"
#include "os/file_descriptor.h"

namespace dtrain::data {
namespace {

class FileStore final : public Store, public Origin {
 public:
  explicit FileStore(const Layout& layout) : layout_(layout) {
    data::check(layout);
    // O_NONBLOCK: if a pipe has taken the file's place, opening it does not wait for a writer.
    if (const int code = file_.open(layout.file, O_RDONLY | O_NONBLOCK)) {
      throw DataError(str(layout.file.string(), " cannot be opened: ", std::strerror(code)));
    }
    if (identity() != layout.identity)
      throw DataError(str(layout.file.string(), " changed while it was being opened"));
    if (schema().input.variable()) {
      input_offsets_ =
          row_offsets(layout_.inputs, layout_.input_offsets, schema().input, "/inputs");
    }
    if (schema().target.variable()) {
      target_offsets_ =
          row_offsets(layout_.targets, layout_.target_offsets, schema().target, "/targets");
    }
    check_splits();
  }

  const Schema& schema() const override { return layout_.schema; }
  const Origin& origin() const override { return *this; }
  const std::filesystem::path& path() const override { return layout_.file; }

  int64_t input_rows(int64_t id) const override {
    return rows_of(input_offsets_, check_id(id)).count;
  }
  int64_t target_rows(int64_t id) const override {
    return rows_of(target_offsets_, check_id(id)).count;
  }

  void read_input(int64_t id, std::span<std::byte> out) const override {
    read_rows(layout_.inputs, schema().input, rows_of(input_offsets_, check_id(id)), out, "/inputs",
              id);
  }

  void read_target(int64_t id, std::span<std::byte> out) const override {
    read_rows(layout_.targets, schema().target, rows_of(target_offsets_, check_id(id)), out,
              "/targets", id);
  }

  uint64_t checksum(int64_t id) const override {
    return element<uint64_t>(layout_.checksums, id, "/checksums");
  }
  int64_t group(int64_t id) const override { return element<int64_t>(layout_.group, id, "/group"); }

  std::vector<int64_t> split(const std::string& name) const override {
    const auto found = layout_.splits.find(name);
    return found == layout_.splits.end() ? std::vector<int64_t>()
                                         : read_all<int64_t>(found->second, "/splits/" + name);
  }

  std::string source(int64_t id) const override {
    int64_t ends[2] = {0, 0};
    read(layout_.source_offsets, check_id(id) * 8, std::as_writable_bytes(std::span(ends)),
         "/source/offsets", id);
    if (ends[0] < 0 || ends[1] < ends[0] || ends[1] > layout_.source_bytes.bytes) {
      throw DataError(str(where("/source/offsets", id), " is damaged: it puts the name at bytes ",
                          ends[0], " to ", ends[1]));
    }
    std::string text(static_cast<size_t>(ends[1] - ends[0]), '\0');
    read(layout_.source_bytes, ends[0], std::as_writable_bytes(std::span(text)), "/source/bytes",
         id);
    return text;
  }

  std::string attribute(const std::string& name) const override {
    const auto found = layout_.attributes.find(name);
    return found == layout_.attributes.end() ? "" : text_of(found->second);
  }

  int64_t modified_ns() const override { return layout_.identity.modified_ns; }

  void check_unchanged() const override {
    const FileIdentity now = identity();
    if (now == layout_.identity) return;
    const std::string how =
        now.bytes == layout_.identity.bytes
            ? "was written to"
            : str("had ", layout_.identity.bytes, " bytes and now has ", now.bytes);
    throw DataError(str(path().string(), " ", how,
                        " since it was opened: samples of both contents may have been read. ",
                        "Write another file and rename it instead, and start again"));
  }

  void verify(const ReportProgress& report) const override {
    const std::vector<uint64_t> expected = read_all<uint64_t>(layout_.checksums, "/checksums");
    if (xxh64(std::as_bytes(std::span(expected))) != schema().checksum) {
      throw DataError(
          str(path().string(),
              ": /checksums does not match the root attribute `checksum`: the file is damaged"));
    }
    const uint64_t index = index_checksum();
    if (index != layout_.index_checksum) {
      throw DataError(str(
          path().string(),
          ": /source, /group, /splits or the offsets of /inputs or /targets do not match the root "
          "attribute `index_checksum`: the file is damaged"));
    }
    const std::vector<int64_t> bad = damaged(expected, report);
    if (!bad.empty()) {
      throw DataError(str(where("sample", bad[0]), " (", source(bad[0]),
                          ") does not match its checksum; ", bad.size(), " of ", schema().samples,
                          " samples are damaged. Convert the raw data again"));
    }
  }

 private:
  FileIdentity identity() const {
    struct stat info {};
    if (::fstat(file_.get(), &info) != 0) {
      throw DataError(str(path().string(), " cannot be examined: ", std::strerror(errno)));
    }
    return identity_of(info);
  }

  std::string where(const std::string& dataset, int64_t id) const {
    return str(path().string(), "#", id, ": ", dataset);
  }

  int64_t check_id(int64_t id) const {
    DTRAIN_CHECK(id >= 0 && id < schema().samples, "sample ", id, " of ", path().string());
    return id;
  }

  struct Rows {
    int64_t first = 0, count = 1;
  };
  // Without offsets, each sample is one row.
  static Rows rows_of(const std::vector<int64_t>& offsets, int64_t id) {
    if (offsets.empty()) return {id, 1};
    const auto at = static_cast<size_t>(id);
    return {offsets[at], offsets[at + 1] - offsets[at]};
  }

  void read_rows(const Extent& values, const Field& field, Rows rows, std::span<std::byte> out,
                 const std::string& dataset, int64_t id) const {
    DTRAIN_CHECK(static_cast<int64_t>(out.size()) == rows.count * field.row_bytes());
    read(values, rows.first * field.row_bytes(), out, dataset, id);
  }

  // Checks the offsets once, so that rows_of() can rely on them.
  std::vector<int64_t> row_offsets(const Extent& values, const Extent& extent, const Field& field,
                                   const std::string& group) const {
    std::vector<int64_t> offsets = read_all<int64_t>(extent, group + "/offsets");
    const int64_t rows = values.bytes / field.row_bytes();
    const auto refuse = [&](const std::string& what) {
      throw DataError(str(path().string(), ": ", group, "/offsets ", what,
                          ": the file is damaged. Make it again with `dtrain convert`"));
    };
    if (offsets.front() != 0) refuse(str("begins with ", offsets.front(), ", must begin with 0"));
    for (size_t i = 1; i < offsets.size(); ++i) {
      if (offsets[i] < offsets[i - 1]) {
        refuse(str("goes down from ", offsets[i - 1], " to ", offsets[i], " at sample ", i - 1));
      }
    }
    if (offsets.back() != rows)
      refuse(str("ends with ", offsets.back(), ", but ", group, "/values has ", rows, " rows"));
    return offsets;
  }

  void read(const Extent& extent, int64_t position, std::span<std::byte> out,
            const std::string& dataset, int64_t id) const {
    DTRAIN_CHECK(position >= 0 && position + static_cast<int64_t>(out.size()) <= extent.bytes);
    const int code = file_.read_all_at(out, extent.offset + position);
    if (code == 0) return;
    throw DataError(str(where(dataset, id), " cannot be read: ",
                        code == FileDescriptor::kEndOfFile ? "the file became shorter while in use"
                                                           : std::strerror(code)));
  }

  template <typename T>
  T element(const Extent& extent, int64_t id, const char* dataset) const {
    T value{};
    read(extent, check_id(id) * static_cast<int64_t>(sizeof(T)),
         std::as_writable_bytes(std::span(&value, 1)), dataset, id);
    return value;
  }

  template <typename T>
  std::vector<T> read_all(const Extent& extent, const std::string& dataset) const {
    std::vector<T> values(static_cast<size_t>(extent.bytes) / sizeof(T));
    read(extent, 0, std::as_writable_bytes(std::span(values)), dataset, 0);
    return values;
  }

  // As Layout::index_checksum says.
  uint64_t index_checksum() const {
    uint64_t hash = hash_of(layout_.source_bytes, "/source/bytes", 0);
    hash = hash_of(layout_.source_offsets, "/source/offsets", hash);
    hash = hash_of(layout_.group, "/group", hash);
    for (const auto& [name, extent] : layout_.splits) {
      hash = hash_of(extent, "/splits/" + name, xxh64(name, hash));
    }
    for (const auto* offsets : {&input_offsets_, &target_offsets_}) {
      if (!offsets->empty()) hash = xxh64(std::as_bytes(std::span(*offsets)), hash);
    }
    return hash;
  }

  uint64_t hash_of(const Extent& extent, const std::string& dataset, uint64_t seed) const {
    constexpr int64_t kPiece = 1 << 20;
    RunningHash hash(seed);
    std::vector<std::byte> piece;
    for (int64_t at = 0; at < extent.bytes; at += kPiece) {
      piece.resize(static_cast<size_t>(std::min(kPiece, extent.bytes - at)));
      read(extent, at, piece, dataset, 0);
      hash.add(piece);
    }
    return hash.value();
  }

  void check_splits() const {
    std::vector<bool> seen(static_cast<size_t>(schema().samples));
    for (const auto& [name, extent] : layout_.splits) {
      for (const int64_t id : read_all<int64_t>(extent, "/splits/" + name)) {
        const bool outside = id < 0 || id >= schema().samples;
        if (outside || seen[static_cast<size_t>(id)]) {
          throw DataError(str(path().string(), ": /splits/", name, " names sample ", id,
                              outside ? str(", but there are only ", schema().samples)
                                      : ", which is already in another split"));
        }
        seen[static_cast<size_t>(id)] = true;
      }
    }
  }

  // Ids of the samples that do not match their checksums, sorted.
  std::vector<int64_t> damaged(const std::vector<uint64_t>& expected,
                               const ReportProgress& report) const {
    constexpr int64_t kRun = 16;  // samples that reuse one pair of buffers
    const int64_t samples = schema().samples;
    std::mutex mutex;
    std::vector<int64_t> bad;  // guarded by mutex
    const auto verify_run = [&](int64_t run) {
      std::vector<std::byte> input, target;
      for (int64_t id = run * kRun; id < std::min(samples, (run + 1) * kRun); ++id) {
        input.resize(static_cast<size_t>(input_bytes(id)));
        target.resize(static_cast<size_t>(target_bytes(id)));
        read_input(id, input);
        read_target(id, target);
        if (sample_checksum(input, target) == expected[static_cast<size_t>(id)]) continue;
        const std::lock_guard lock(mutex);
        bad.push_back(id);
      }
    };
    const auto report_samples = [&](const Progress& runs) {
      if (report) report({"verifying", std::min(samples, runs.done * kRun), samples});
    };
    parallel_for((samples - 1) / kRun + 1, /*threads=*/0, verify_run, report_samples);
    std::sort(bad.begin(), bad.end());
    return bad;
  }

  const Layout layout_;
  FileDescriptor file_;
  // In rows, one more entry than samples; empty: fixed size
  std::vector<int64_t> input_offsets_, target_offsets_;
};

}  // namespace

std::unique_ptr<Store> open_file(const std::filesystem::path& file) {
  return open_file(probe(file));
}
std::unique_ptr<Store> open_file(const Layout& layout) {
  return std::make_unique<FileStore>(layout);
}

}  // namespace dtrain::data
