#include "formats/npz_array.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "core/parallel.h"
#include "formats/npz.h"
#include "text/strings.h"

namespace dtrain::formats {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 18;

// What tells a file from itself before a change.
using Identity = std::tuple<ino_t, off_t, int64_t, int64_t>;

Identity identity_of(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return {status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

}  // namespace

// Blocks of an equal number of elements, of which the last ones that were used are kept.
class NpzArray::Reader {
 public:
  Reader(const std::filesystem::path& path, const std::string& name)
      : path_(path),
        name_(name),
        identity_(identity_of(path)),
        file_(std::make_unique<NpzFile>(path)) {}

  // Compares the array's size with its header, and libzip its checksum.
  void read_once() {
    std::vector<std::byte> beginning(kNpyHeaderBytes);
    restart();
    beginning.resize(member_->read(beginning));
    header_ = parse_npy_header(beginning);
    const uint64_t declared = header_.file_bytes();
    const bool whole = declared <= static_cast<uint64_t>(kMostBytes) ||
                       (header_.fortran && header_.shape.size() > 1);
    std::vector<std::byte> all, piece = beginning;
    RunningHash hash;
    uint64_t bytes = 0;
    while (!piece.empty() && bytes <= declared) {
      hash.add(piece);
      bytes += piece.size();
      if (whole) all.insert(all.end(), piece.begin(), piece.end());
      piece.resize(kBlockBytes);
      piece.resize(member_->read(piece));
    }
    if (bytes > declared) {
      throw DataError(str("damaged: the header declares ", header_.type(), " ",
                          header_.shape_text(), " (", declared - header_.data_offset,
                          " bytes), but more follow"));
    }
    static_cast<void>(parse_npy_header(beginning, bytes));
    // Each thread uses the blocks of a sample; those of the others must not be gone before it has
    // read them all.
    const int64_t samples = header_.shape.empty() ? 1 : std::max<int64_t>(header_.shape[0], 1);
    const size_t in_sample =
        static_cast<size_t>(header_.elements() / samples * header_.item_bytes) / kBlockBytes + 2;
    most_blocks_ = std::max(static_cast<size_t>(kMostBytes) / kBlockBytes,
                            2 * static_cast<size_t>(usable_cores()) * in_sample);
    checksum_ = hash.value();
    if (whole) whole_.emplace(parse_npy(std::move(all)));
    member_.reset();
  }

  const NpyHeader& header() const { return header_; }
  uint64_t checksum() const { return checksum_; }

  template <typename Convert>
  auto elements(int64_t first, int64_t count, const Convert& convert) {
    if (whole_) return convert(*whole_, first, count);
    DTRAIN_CHECK(first >= 0 && count >= 0 && count <= header_.elements() - first, first, " + ",
                 count);
    decltype(convert(*whole_, first, count)) result;
    const int64_t in_block = block_elements(), end = first + count;
    for (int64_t at = first; at < end;) {
      const int64_t index = at / in_block, next = std::min(end, (index + 1) * in_block);
      auto part = convert(*block(index), at - index * in_block, next - at);
      if (next - at == count) return part;  // mostly
      if (at == first) result.reserve(static_cast<size_t>(count));
      result.insert(result.end(), part.begin(), part.end());
      at = next;
    }
    return result;
  }
  int64_t blocks_read() {
    const std::lock_guard guard(lock_);
    return blocks_read_;
  }

 private:
  int64_t block_elements() const { return static_cast<int64_t>(kBlockBytes) / header_.item_bytes; }

  std::shared_ptr<const NpyArray> block(int64_t index) {
    const std::lock_guard guard(lock_);
    const auto found = blocks_.find(index);
    if (found != blocks_.end()) {
      found->second.used = ++uses_;
      return found->second.elements;
    }
    try {
      return read(index);
    } catch (const DataError& error) {
      fail(error.what());
    }
  }

  std::shared_ptr<const NpyArray> read(int64_t index) {
    // What lies before it in a compressed array is read on the way: other threads are there, or
    // soon will be.
    for (int64_t next = move_to(index); next < index; ++next) keep_next(next);
    std::shared_ptr<const NpyArray> block = keep_next(index);
    if (identity_of(path_) != identity_) fail("it was changed");
    return block;
  }

  std::shared_ptr<const NpyArray> keep_next(int64_t index) {
    const int64_t first = index * block_elements();
    NpyArray block{.header = header_, .file = {}};
    block.header.data_offset = 0;
    block.header.shape = {std::min(block_elements(), header_.elements() - first)};
    block.file.resize(static_cast<size_t>(block.header.elements() * header_.item_bytes));
    read_fully(block.file);
    ++blocks_read_;
    if (blocks_.size() >= most_blocks_ && !blocks_.contains(index)) {
      blocks_.erase(
          std::ranges::min_element(blocks_, {}, [](const auto& one) { return one.second.used; }));
    }
    Block& kept = blocks_[index] = {std::make_shared<const NpyArray>(std::move(block)), ++uses_};
    return kept.elements;
  }

  void restart() {
    member_.emplace(*file_, name_);
    position_ = 0;
  }

  // Moves to the begin of this block, or if the array is compressed, of one that is not behind it.
  // Returns the block.
  int64_t move_to(int64_t index) {
    const auto bytes_of_block = static_cast<uint64_t>(block_elements() * header_.item_bytes);
    const uint64_t begin = header_.data_offset + static_cast<uint64_t>(index) * bytes_of_block;
    if (!member_) restart();
    if (position_ == begin) return index;
    if (member_->seek(begin)) {
      position_ = begin;
      return index;
    }
    if (begin < position_) restart();
    if (position_ < header_.data_offset) {
      std::vector<std::byte> passed(header_.data_offset - position_);
      read_fully(passed);
    }
    return static_cast<int64_t>((position_ - header_.data_offset) / bytes_of_block);
  }

  void read_fully(std::span<std::byte> out) {
    const size_t got = member_->read(out);
    position_ += got;
    if (got < out.size()) throw DataError("it ends early");
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(str(path_.string(), " cannot be read again: its array ", name_, ": ", why,
                    ". Leave the file as it is until it is converted"),
                DataError("").exit_code());
  }

  struct Block {
    std::shared_ptr<const NpyArray> elements;
    uint64_t used = 0;  // when: counts the uses of all blocks
  };

  const std::filesystem::path path_;
  const std::string name_;
  const Identity identity_;
  NpyHeader header_;
  uint64_t checksum_ = 0;
  size_t most_blocks_ = 1;
  std::optional<NpyArray> whole_;

  std::mutex lock_;  // guards what follows
  std::unique_ptr<NpzFile> file_;
  std::optional<NpzFile::Member> member_;
  uint64_t position_ = 0;  // next byte to read in the member
  std::map<int64_t, Block> blocks_;
  uint64_t uses_ = 0;
  int64_t blocks_read_ = 0;
};

NpzArray::NpzArray(std::unique_ptr<Reader> reader) : reader_(std::move(reader)) {}
NpzArray::~NpzArray() = default;

std::unique_ptr<NpzArray> NpzArray::open(const std::filesystem::path& file,
                                         const std::string& name) {
  if (!NpzFile(file).has(name)) return nullptr;
  auto reader = std::make_unique<Reader>(file, name);
  naming_array(name, [&] { reader->read_once(); });
  return std::unique_ptr<NpzArray>(new NpzArray(std::move(reader)));
}

const NpyHeader& NpzArray::header() const { return reader_->header(); }
uint64_t NpzArray::checksum() const { return reader_->checksum(); }
int64_t NpzArray::blocks_read() const { return reader_->blocks_read(); }

std::vector<float> NpzArray::to_float32(int64_t first, int64_t count) const {
  return reader_->elements(first, count, [](const NpyArray& array, int64_t at, int64_t n) {
    return array.to_float32(at, n);
  });
}

std::vector<int64_t> NpzArray::to_int64(int64_t first, int64_t count) const {
  return reader_->elements(first, count, [](const NpyArray& array, int64_t at, int64_t n) {
    return array.to_int64(at, n);
  });
}

std::vector<uint8_t> NpzArray::to_uint8(int64_t first, int64_t count) const {
  return reader_->elements(first, count, [](const NpyArray& array, int64_t at, int64_t n) {
    return array.to_uint8(at, n);
  });
}

}  // namespace dtrain::formats
