#include "text/strings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dtrain {
namespace {

std::string print(const char* format, int digits, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, digits, value);
  return buffer;
}

// The edit distance in which swapped neighbors count as one edit (Damerau's optimal string
// alignment), so that each of the usual typos costs 1.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

// printf would print the sign of a NaN, which has no meaning.
std::string fixed(double value, int digits) {
  return std::isnan(value) ? "nan" : print("%.*f", digits, value);
}
std::string scientific(double value, int digits) { return print("%.*e", digits, value); }

std::string human_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  while (std::abs(bytes) >= 1024 && unit < 5) {
    bytes /= 1024;
    ++unit;
  }
  return fixed(bytes, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 60) return fixed(seconds, 1) + "s";
  const auto total = static_cast<int64_t>(std::llround(seconds));
  char buffer[64];
  if (total < 3600) {
    std::snprintf(buffer, sizeof buffer, "%dm%02ds", static_cast<int>(total / 60),
                  static_cast<int>(total % 60));
  } else if (total < 86400) {
    std::snprintf(buffer, sizeof buffer, "%dh%02dm", static_cast<int>(total / 3600),
                  static_cast<int>(total % 3600 / 60));
  } else {
    std::snprintf(buffer, sizeof buffer, "%dd%02dh", static_cast<int>(total / 86400),
                  static_cast<int>(total % 86400 / 3600));
  }
  return buffer;
}

std::string human_count(int64_t count) {
  std::string digits = std::to_string(count);
  for (auto i = static_cast<int64_t>(digits.size()) - 3; i > (count < 0 ? 1 : 0); i -= 3) {
    digits.insert(static_cast<size_t>(i), 1, ' ');
  }
  return digits;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

std::string join_first(std::span<const std::string> parts, size_t most) {
  if (parts.size() <= most) return join(parts, ", ");
  return str(join(parts.first(most), ", "), " and ", parts.size() - most, " more");
}

std::vector<std::string> words(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  std::vector<std::string> words;
  for (size_t begin = text.find_first_not_of(kSpaces); begin != text.npos;
       begin = text.find_first_not_of(kSpaces)) {
    text.remove_prefix(begin);
    const size_t end = std::min(text.find_first_of(kSpaces), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best ? *best : "";
}

}  // namespace dtrain
