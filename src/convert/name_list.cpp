#include "convert/name_list.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "formats/read_file.h"
#include "text/number_text.h"
#include "text/strings.h"
#include "text/utf8.h"

namespace dtrain::convert {
namespace {

unsigned byte_at(std::span<const std::byte> bytes, size_t i) {
  return std::to_integer<unsigned>(bytes[i]);
}

// A file name has no zero byte, but each ASCII character of UTF-16 has one.
enum class Encoding { kUtf8, kLittleEndian, kBigEndian };
Encoding encoding_of(std::span<const std::byte> bytes) {
  if (bytes.size() < 2 || bytes.size() % 2 != 0) return Encoding::kUtf8;
  const unsigned first = byte_at(bytes, 0), second = byte_at(bytes, 1);
  if ((first == 0xff && second == 0xfe) || (first != 0 && second == 0))
    return Encoding::kLittleEndian;
  if ((first == 0xfe && second == 0xff) || (first == 0 && second != 0)) return Encoding::kBigEndian;
  return Encoding::kUtf8;
}

constexpr uint32_t kReplacement = 0xfffd;

std::string utf8_of_utf16(std::span<const std::byte> bytes, bool little_endian) {
  std::string text;
  uint32_t high = 0;  // the first half of a character of two units
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const unsigned first = byte_at(bytes, i), second = byte_at(bytes, i + 1);
    const uint32_t unit = little_endian ? second << 8 | first : first << 8 | second;
    const bool ends = unit >= 0xdc00 && unit < 0xe000 && high != 0;
    if (high != 0 && !ends) text += utf8_of(kReplacement);  // it was alone
    if (ends) {
      text += utf8_of(0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00));
      high = 0;
    } else {
      high = unit >= 0xd800 && unit < 0xdc00 ? unit : 0;
      if (high == 0) text += utf8_of(unit);
    }
  }
  if (high != 0) text += utf8_of(kReplacement);
  return text;
}

std::string_view without_comment(std::string_view text) {
  if (text.starts_with('#')) return "";
  const size_t end = std::min(text.find(" #"), text.find("\t#"));
  return trimmed(text.substr(0, end));
}

struct Labeled {
  std::string_view name;
  std::optional<int64_t> label;
};

// "a/0.png 3" as a name and a label; nullopt: there is no number at its end.
std::optional<Labeled> labeled(std::string_view text) {
  const size_t end = text.find_last_of(" \t,;");
  if (end == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> label = parse_number<int64_t>(text.substr(end + 1));
  const std::string_view name = trimmed(text.substr(0, end));
  if (!label || name.empty()) return std::nullopt;
  return Labeled{name, label};
}

// With '/' between folders, and without "." among them.
std::string plain_path(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '\\', '/');
  return std::filesystem::path(text).lexically_normal().generic_string();
}

std::vector<std::string> folders_of(const std::string& path) {
  std::vector<std::string> parts = split(path, '/');
  parts.pop_back();
  return parts;
}

// `path` without its first `count` folders; "": it has fewer.
std::string without_folders(const std::string& path, size_t count) {
  size_t begin = 0;
  for (; count > 0; --count) {
    const size_t end = path.find('/', begin);
    if (end == std::string::npos) return "";
    begin = end + 1;
  }
  return path.substr(begin);
}

struct Found {
  size_t sample = kNoSample;
  std::optional<int64_t> label;
};

// A name as it is, which may hold any of the characters that mean something else too, and then as
// other things.
Found find_line(std::string_view line, size_t leading_folders, const FindSample& find) {
  const std::string_view bare = without_comment(line);
  const auto found = [&](std::string_view name) {
    const size_t as_it_is = leading_folders == 0 ? find(std::string(name)) : kNoSample;
    return as_it_is != kNoSample ? as_it_is
                                 : find(without_folders(plain_path(name), leading_folders));
  };
  for (const std::string_view text : {line, bare}) {
    if (text.empty()) continue;
    if (const size_t sample = found(text); sample != kNoSample) return {sample, std::nullopt};
    const std::optional<Labeled> both = labeled(text);
    if (!both) continue;
    if (const size_t sample = found(both->name); sample != kNoSample) return {sample, both->label};
  }
  return {};
}

void for_each_line(std::string_view text,
                   const std::function<void(std::string_view line, int64_t number)>& use) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty()) use(line, number);
  }
}

// The folders before all names, however many that are.
std::vector<std::string> common_folders(std::string_view text) {
  std::optional<std::vector<std::string>> common;
  for_each_line(text, [&](std::string_view line, int64_t) {
    const std::string_view bare = without_comment(line);
    if (bare.empty()) return;
    const std::vector<std::string> folders = folders_of(plain_path(bare));
    if (!common) common = folders;
    common->erase(std::ranges::mismatch(*common, folders).in1, common->end());
  });
  return common.value_or(std::vector<std::string>());
}

// How many of those folders to leave out so that most names are those of samples.
size_t folders_to_leave_out(std::string_view text, const FindSample& find) {
  const auto count_unknown = [&](size_t folders) {
    int64_t unknown = 0;
    for_each_line(text, [&](std::string_view line, int64_t) {
      if (!without_comment(line).empty() && find_line(line, folders, find).sample == kNoSample)
        ++unknown;
    });
    return unknown;
  };
  size_t best = 0;
  int64_t fewest = count_unknown(0);
  if (fewest == 0) return 0;
  const size_t most = common_folders(text).size();
  for (size_t folders = 1; folders <= most && fewest > 0; ++folders) {
    const int64_t unknown = count_unknown(folders);
    if (unknown >= fewest) continue;
    best = folders;
    fewest = unknown;
  }
  return best;
}

}  // namespace

std::string utf8_of_list(std::span<const std::byte> bytes) {
  const Encoding encoding = encoding_of(bytes);
  std::string text = encoding == Encoding::kUtf8
                         ? std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())
                         : utf8_of_utf16(bytes, encoding == Encoding::kLittleEndian);
  if (text.starts_with("\uFEFF")) text.erase(0, 3);
  if (text.find('\n') == std::string::npos)
    std::ranges::replace(text, '\r', '\n');  // the line ends of old systems
  return text;
}

void read_name_list(const std::filesystem::path& file, const FindSample& find,
                    const std::function<void(const ListedSample&)>& use) {
  std::string text;
  try {
    text = utf8_of_list(formats::read_file(file));
  } catch (const DataError& e) {
    throw DataError(str("cannot read the list ", file.string(), ": ", e.what()));
  }
  const size_t folders = folders_to_leave_out(text, find);
  for_each_line(text, [&](std::string_view line, int64_t number) {
    const auto [sample, label] = find_line(line, folders, find);
    const std::string place = str(file.string(), ":", number);
    if (sample == kNoSample && without_comment(line).empty()) return;
    if (sample == kNoSample) throw DataError(str(place, ": no sample is called ", line));
    if (sample == kTwoSamples)
      throw DataError(str(place, ": two samples are called ", line, "; add the extension"));
    use({.sample = sample, .name = std::string(line), .place = place, .label = label});
  });
}

void ListedLabels::check(const ListedSample& listed, int64_t label) {
  if (!listed.label) return;
  if (label < 0) {
    throw DataError(str(listed.place, ": '", listed.name,
                        "' has a number after the name, as of a class, and the ",
                        "samples of this data set have no classes: list the names alone"));
  }
  const Pair pair{*listed.label, label, listed.name, listed.place};
  const Pair& of_number = by_number_.emplace(pair.number, pair).first->second;
  const Pair& of_label = by_label_.emplace(pair.label, pair).first->second;
  if (of_number.label == label && of_label.number == pair.number) return;
  const bool same_class = of_label.number != pair.number;
  const Pair& other = same_class ? of_label : of_number;
  throw DataError(str(listed.place, ": '", listed.name, "' contradicts '", other.name, "' (",
                      other.place, "): they are of ", same_class ? "one class" : "two classes",
                      " by their folders, and of ", same_class ? "two" : "one",
                      " by the numbers after their names. Classes come from the folders: list the "
                      "names alone, or put the files into folders by these numbers"));
}

}  // namespace dtrain::convert
