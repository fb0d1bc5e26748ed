#include "formats/npz.h"

#include <zip.h>

#include <algorithm>
#include <set>

#include "formats/read_file.h"

namespace dtrain::formats {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr size_t kPiece = size_t{1} << 20;  // bytes to decompress at a time

std::string text_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

struct MemberCloser {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};

}  // namespace

struct NpzFile::Archive {
  zip_t* zip = nullptr;
  ~Archive() {
    if (zip) zip_discard(zip);
  }
};

NpzFile::NpzFile(const std::filesystem::path& file) : archive_(std::make_unique<Archive>()) {
  if (read_beginning(file, 4).bytes.empty()) throw DataError("the file is empty");
  int code = 0;
  archive_->zip = zip_open(file.c_str(), ZIP_RDONLY, &code);
  if (!archive_->zip)
    throw DataError(str("not a .npz file (a zip archive of arrays): ", text_of(code)));
  const zip_int64_t entries = zip_get_num_entries(archive_->zip, 0);
  std::set<std::string> seen;
  for (zip_int64_t i = 0; i < entries; ++i) {
    const char* name = zip_get_name(archive_->zip, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    if (!name) throw DataError(str("damaged archive: ", zip_strerror(archive_->zip)));
    const std::string_view text(name);
    if (!text.ends_with(kSuffix)) continue;
    const std::string array(text.substr(0, text.size() - kSuffix.size()));
    if (!seen.insert(array).second) {
      throw DataError(
          str("damaged archive: the array ", array,
              " is in it twice. NumPy reads the last one, libzip the first one. Write the "
              "file again with each array once"));
    }
    names_.push_back(array);
  }
}

NpzFile::~NpzFile() = default;

std::string NpzFile::contents() const {
  return names_.empty() ? "it has no arrays at all" : "its arrays are " + join(names_, ", ");
}

bool NpzFile::has(const std::string& name) const { return std::ranges::count(names_, name) > 0; }

std::optional<NpyArray> NpzFile::read(const std::string& name) const {
  if (!has(name)) return std::nullopt;
  return naming_array(name, [&] { return parse_npy(bytes_of(name, NpyElements::kNumbers)); });
}

std::optional<std::vector<std::string>> NpzFile::read_text(const std::string& name) const {
  if (!has(name)) return std::nullopt;
  return naming_array(name, [&] { return parse_npy_text(bytes_of(name, NpyElements::kText)); });
}

struct NpzFile::Member::Open {
  std::unique_ptr<zip_file_t, MemberCloser> file;
  bool is_stored = false;  // without compression
};

NpzFile::Member::Member(const NpzFile& archive, const std::string& name)
    : open_(std::make_unique<Open>()) {
  const std::string entry = name + std::string(kSuffix);
  open_->file.reset(zip_fopen(archive.archive_->zip, entry.c_str(), ZIP_FL_ENC_RAW));
  if (!open_->file) throw DataError(str("cannot be read: ", zip_strerror(archive.archive_->zip)));
  zip_stat_t info;
  open_->is_stored = zip_stat(archive.archive_->zip, entry.c_str(), ZIP_FL_ENC_RAW, &info) == 0 &&
                     (info.valid & ZIP_STAT_COMP_METHOD) != 0 && info.comp_method == ZIP_CM_STORE;
}

NpzFile::Member::~Member() = default;

size_t NpzFile::Member::read(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const zip_int64_t got = zip_fread(open_->file.get(), out.data() + done, out.size() - done);
    if (got < 0)
      throw DataError(str("damaged: ", zip_error_strerror(zip_file_get_error(open_->file.get()))));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

bool NpzFile::Member::seek(uint64_t position) {
  return open_->is_stored &&
         zip_fseek(open_->file.get(), static_cast<zip_int64_t>(position), SEEK_SET) == 0;
}

std::vector<std::byte> NpzFile::bytes_of(const std::string& name, NpyElements wanted) const {
  Member member(*this, name);
  std::vector<std::byte> bytes;
  const auto decompress = [&](uint64_t until) {  // false at the end of the member
    while (bytes.size() < until) {
      const size_t had = bytes.size(), piece = std::min<uint64_t>(until - had, kPiece);
      bytes.resize(had + piece);
      const size_t got = member.read(std::span(bytes).subspan(had));
      bytes.resize(had + got);
      if (got < piece) return false;
    }
    return true;
  };
  decompress(kNpyHeaderBytes);
  const NpyHeader header = parse_npy_header(bytes, wanted);
  const uint64_t declared = header.file_bytes();
  if (bytes.size() > declared || decompress(declared + 1)) {
    throw DataError(str("damaged: the header declares ", header.type(), " ", header.shape_text(),
                        " (", declared - header.data_offset, " bytes), but more follow"));
  }
  return bytes;
}

void write_npz(const std::filesystem::path& file,
               const std::map<std::string, std::vector<std::byte>>& arrays) {
  int code = 0;
  zip_t* zip = zip_open(file.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (!zip) throw OutputError(str("cannot create ", file.string(), ": ", text_of(code)));
  const auto fail = [&] {
    const std::string reason = zip_strerror(zip);
    zip_discard(zip);
    throw OutputError(str("cannot write ", file.string(), ": ", reason));
  };
  for (const auto& [name, bytes] : arrays) {
    zip_source_t* source = zip_source_buffer(zip, bytes.data(), bytes.size(), 0);
    if (!source) fail();
    const zip_int64_t entry =
        zip_file_add(zip, (name + std::string(kSuffix)).c_str(), source, ZIP_FL_ENC_UTF_8);
    if (entry < 0) {
      zip_source_free(source);
      fail();
    }
    const auto index = static_cast<zip_uint64_t>(entry);
    constexpr zip_uint16_t kTime = 0, kDate = (1 << 5) | 1;  // January 1, 1980, as NumPy writes it
    if (zip_set_file_compression(zip, index, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(zip, index, kTime, kDate, 0) != 0) {
      fail();
    }
  }
  if (zip_close(zip) != 0) fail();
}

}  // namespace dtrain::formats
