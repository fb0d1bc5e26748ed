#include "text/library_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain {
namespace {

// The text between the first `begin` and the next `end`; "" if there is none.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const size_t from = text.find(begin);
  if (from == std::string_view::npos) return {};
  const std::string_view rest = text.substr(from + begin.size());
  const size_t to = rest.find(end);
  return to == std::string_view::npos ? std::string_view() : rest.substr(0, to);
}

bool starts_script_failure(std::string_view what) {
  return what.starts_with("The following operation failed");
}

// Of torch's own modules, in an installation or in its source.
bool is_of_torch(std::string_view file) {
  constexpr std::array<std::string_view, 4> kFolders = {"-packages/torch/", "/torch/nn/",
                                                        "/torch/jit/", "/torch/functional.py"};
  return std::ranges::any_of(
      kFolders, [&](std::string_view folder) { return file.find(folder) != file.npos; });
}

// A function that was running: `line` of `file`, and the code there.
struct Frame {
  std::string_view file, line, code;
  std::string text() const { return str(file, ", line ", line, code.empty() ? "" : ": ", code); }
};

// Of a script: `  File "net.py", line 41, in forward`, and then lines of code of which the failing
// one is underlined.
std::optional<Frame> scripted_frame(const std::vector<std::string_view>& lines, size_t at) {
  constexpr std::string_view kFile = "  File \"", kLine = "\", line ";
  if (!lines[at].starts_with(kFile)) return std::nullopt;
  const std::string_view rest = lines[at].substr(kFile.size());
  const size_t end = rest.find(kLine);
  if (end == std::string_view::npos) return std::nullopt;
  Frame frame{.file = rest.substr(0, end), .line = rest.substr(end + kLine.size()), .code = {}};
  frame.line = frame.line.substr(0, frame.line.find(','));
  for (size_t i = at + 1; i + 1 < lines.size() && !lines[i].starts_with(kFile); ++i) {
    if (!trimmed(lines[i + 1]).starts_with("~")) continue;
    frame.code = trimmed(lines[i]);
    break;
  }
  return frame;
}

// Of a traced module: `/src/net.py(41): forward`.
std::optional<Frame> traced_frame(std::string_view line) {
  const size_t open = line.rfind('('), close = line.find("): ", open == line.npos ? 0 : open);
  if (open == line.npos || close == line.npos || line.starts_with(' ')) return std::nullopt;
  const std::string_view number = line.substr(open + 1, close - open - 1);
  if (number.empty() || number.find_first_not_of("0123456789") != number.npos) return std::nullopt;
  return Frame{.file = line.substr(0, open), .line = number, .code = {}};
}

constexpr std::string_view kRuntimeError = "RuntimeError: ";

// The innermost function of the user. Those of a script come from the outside to the inside, the
// others reversed. `lines` end with the reason, which may look like a frame.
std::optional<Frame> users_frame(const std::vector<std::string_view>& lines) {
  std::optional<Frame> scripted, traced;
  for (size_t i = 0; i + 1 < lines.size() && !lines[i].starts_with(kRuntimeError); ++i) {
    const std::optional<Frame> of_script = scripted_frame(lines, i),
                               of_trace = traced_frame(lines[i]);
    if (of_script && !is_of_torch(of_script->file)) scripted = of_script;
    if (of_trace && !is_of_torch(of_trace->file) && !traced) traced = of_trace;
  }
  return scripted ? scripted : traced;
}

// What operators say, in the words of a network whose inputs are rows of float32.
std::string_view in_plain_words(std::string_view reason) {
  struct Words {
    std::string_view begins, plain;
  };
  constexpr std::array<Words, 5> kWords = {{
      {"index out of range in self", "an index is outside of the table of an embedding"},
      {"Class values must be non-negative", "one_hot() got a negative number"},
      {"Class values must be smaller than num_classes",
       "one_hot() got a number that is not below num_classes"},
      {"Expected tensor for argument #1 'indices' to have one of the following scalar types",
       "an embedding takes int64 indices, and inputs are float32: call .long()"},
      {"one_hot is only applicable to index tensor",
       "one_hot() takes int64, and inputs are float32: call .long()"},
  }};
  const auto found =
      std::ranges::find_if(kWords, [&](const Words& w) { return reason.starts_with(w.begins); });
  return found == kWords.end() ? reason : found->plain;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// "RuntimeError: " and the operator's message, or what a `raise` of the script says, which is on
// the last line.
std::string_view reason_of(std::string_view what, const std::vector<std::string_view>& lines) {
  constexpr std::string_view kBuiltin = "builtins.";
  std::string_view reason;
  if (const size_t at = what.rfind(str('\n', kRuntimeError)); at != std::string_view::npos) {
    reason = what.substr(at + 1 + kRuntimeError.size());
    reason = reason.substr(0, reason.find('\n'));
  } else {
    bool raised = false;  // what follows is the rest of a message of several lines
    for (const std::string_view line : lines) {
      raised = raised || line.starts_with(kBuiltin);
      if (raised ? line.starts_with(kBuiltin)
                 : !trimmed(line).empty() && !line.starts_with(kScriptGot))
        reason = line;
    }
    if (raised) reason.remove_prefix(kBuiltin.size());
  }
  reason = trimmed(reason);
  if (reason.ends_with('.')) reason.remove_suffix(1);
  return in_plain_words(reason);
}

}  // namespace

// "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error while parsing
// ...", "[json.exception.out_of_range.403] key 'step' not found", "[json.exception.type_error.302]
// type must be ...".
std::string json_defect(std::string_view what) {
  if (const std::string_view key = between(what, "key '", "' not found"); !key.empty()) {
    return str("there is no '", key, "'");
  }
  if (what.find("type_error") != std::string_view::npos)
    return "a value has another type than it must have";
  const std::string_view place = between(what, "parse error at ", ":");
  return str("not valid JSON", place.empty() ? "" : " at ", place);
}

std::optional<std::string> script_failure(std::string_view what) {
  if (!starts_script_failure(what)) return std::nullopt;
  const std::vector<std::string_view> all = lines_of(what);
  const size_t original = what.rfind("Traceback of TorchScript, original code");
  const std::optional<Frame> frame =
      users_frame(original == what.npos ? all : lines_of(what.substr(original)));
  const auto got =
      std::ranges::find_if(all, [](std::string_view line) { return line.starts_with(kScriptGot); });
  return str(reason_of(what, all), frame ? ", in " + frame->text() : "",
             got == all.end() ? "" : "; ", got == all.end() ? "" : *got);
}

std::string torch_message(std::string_view what) {
  if (const std::optional<std::string> sentence = script_failure(what)) return *sentence;
  what = what.substr(0, what.find('\n'));
  if (const size_t end = what.find(". ");
      what.starts_with("[enforce fail at ") && end != std::string_view::npos) {
    what.remove_prefix(end + 2);
  }
  return std::string(trimmed(what));
}

std::optional<double> out_of_host_memory(std::string_view what) {
  if (what.find("DefaultCPUAllocator: ") == std::string_view::npos) return std::nullopt;
  const std::string_view bytes = between(what, "tried to allocate ", " bytes");
  return parse_number<double>(bytes).value_or(0);
}

bool says_out_of_memory(std::string_view what) {
  constexpr std::array<std::string_view, 4> kSigns = {
      "out of memory", "_ALLOC_FAILED", "_ALLOCATION_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED"};
  return std::ranges::any_of(kSigns,
                             [&](std::string_view sign) { return what.find(sign) != what.npos; });
}

// "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of ..."
double bytes_out_of_device_memory(std::string_view what) {
  const std::string_view size = between(what, "Tried to allocate ", "iB");
  if (size.size() < 3) return 0;
  const double number = parse_number<double>(trimmed(size.substr(0, size.size() - 1))).value_or(0);
  const size_t thousands = std::string_view("KMG").find(size.back());
  if (thousands == std::string_view::npos) return 0;
  return std::ldexp(number, 10 * (static_cast<int>(thousands) + 1));
}

}  // namespace dtrain
