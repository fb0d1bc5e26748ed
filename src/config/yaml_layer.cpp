#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <sstream>

#include "config/config_builder.h"
#include "config/differences.h"
#include "config/plain_text.h"
#include "config/synonyms.h"
#include "text/strings.h"

namespace dtrain::config {
namespace {

// yaml-cpp's conversions are not used: it takes the first of duplicate keys, reads 010 as 8 and yes
// as true, and does not tell which key has the wrong type. This walk visits every pair of its node
// tree and passes scalars on as text.
class Walk {
 public:
  Walk(ConfigBuilder& builder, const std::string& name)
      : builder_(builder), name_(name), options_(describe(scratch_)) {}

  void map(const YAML::Node& node, const std::string& prefix) {
    for (const auto& entry : node) {
      const std::string where = place(entry.first.Mark());
      if (!entry.first.IsScalar()) {
        builder_.add_problem(
            where, "a key is not a plain word; write `section:` and below it `  key: value`");
        continue;
      }
      const std::string path =
          prefix.empty() ? entry.first.Scalar() : prefix + "." + entry.first.Scalar();
      if (const auto [first, is_new] = seen_.emplace(path, line(entry.first.Mark())); !is_new) {
        builder_.add_problem(
            where, str("duplicate key ", in_quotes(path), " (first in line ", first->second, ")"));
      } else if (const Option* option = builder_.find(path)) {
        paths_.push_back(path);
        scalar(*option, entry.second, where);
      } else if (builder_.is_section(path)) {
        section(path, entry.second, where);
      } else if (prefix.empty() && entry.second.IsMap() && entry.second.size() > 0) {
        map(entry.second, path);  // a mistyped section: its keys give better suggestions
      } else {
        unknown(path, where);
      }
    }
  }

  std::string place(const YAML::Mark& mark) const {
    return mark.is_null() ? name_ : str(name_, ":", mark.line + 1, ":", mark.column + 1);
  }
  std::vector<std::string> paths() && { return std::move(paths_); }

 private:
  static int line(const YAML::Mark& mark) { return mark.line + 1; }

  void section(const std::string& path, const YAML::Node& value, const std::string& where) {
    if (value.IsMap()) {
      map(value, path);
    } else if (const Option* option = builder_.namesake(path);
               option != nullptr && value.IsScalar()) {
      paths_.push_back(option->path);
      scalar(*option, value, where);
    } else if (!value.IsNull()) {  // null: all keys of the section are commented out
      const Option* name = value.IsScalar() ? builder_.find(path + ".name") : nullptr;
      builder_.add_problem(where,
                           str(path, ": is a section; ",
                               name != nullptr ? "did you mean '" + name->path + "'?"
                                               : "write its keys indented on the lines below"));
    }
  }

  void scalar(const Option& option, const YAML::Node& value, const std::string& key_place) {
    if (value.IsNull()) {
      builder_.add_problem(key_place,
                           str(option.path, ": has no value; expected: ", value_kind(option)));
      return;
    }
    const std::string where = place(value.Mark());
    if (!value.IsScalar()) {
      builder_.add_problem(where, str(option.path, ": is a ", value.IsMap() ? "section" : "list",
                                      "; expected one value: ", value_kind(option)));
    } else if (value.Tag() != "?" && value.Tag() != "!" && !value.Tag().empty()) {
      builder_.add_problem(
          where, str(option.path, ": tags like ", in_quotes(value.Tag()), " are not supported"));
    } else if (value.Tag() == "!" && !is_text(option) && !is_interval(option) &&
               !is_warm_up(option)) {
      builder_.add_problem(where, str(option.path, ": ", in_quotes(value.Scalar()),
                                      " is in quotes; expected: ", value_kind(option)));
    } else {
      builder_.set(option, value.Scalar(), where);
    }
  }

  void unknown(const std::string& path, const std::string& where) {
    const std::string near = nearest_key(path, options_);
    const std::string_view advice = advice_about(path.substr(path.rfind('.') + 1));
    builder_.add_problem(where, str("unknown key ", in_quotes(path), "; ",
                                    !advice.empty() ? std::string(advice)
                                    : !near.empty() ? "did you mean '" + near + "'?"
                                                    : "`dtrain --help all` lists all keys"));
  }

  ConfigBuilder& builder_;
  const std::string& name_;
  Config scratch_;
  std::vector<Option> options_;
  std::map<std::string, int> seen_;
  std::vector<std::string> paths_;
};

// The place of the first character that is not text; "": there is none. yaml-cpp may hang or use up
// the memory on such bytes, so it never gets them.
std::string place_of_bad_character(std::string_view text, const std::string& name) {
  int line = 1, column = 1;
  if (text.starts_with("\uFEFF")) text.remove_prefix(3);
  while (!text.empty()) {
    const bool is_space = text[0] == '\n' || text[0] == '\r' || text[0] == '\t';
    const size_t length = is_space ? 1 : plain_character(text);
    if (length == 0) return str(name, ":", line, ":", column);
    column = text[0] == '\n' ? 1 : column + 1;
    line += text[0] == '\n';
    text.remove_prefix(length);
  }
  return "";
}

// A tab in the indentation is a common mistake, which yaml-cpp describes in other words.
std::string advice(std::string_view text, const YAML::Mark& mark) {
  if (mark.is_null() || static_cast<size_t>(mark.pos) > text.size()) return "";
  const size_t before = text.substr(0, static_cast<size_t>(mark.pos)).rfind('\n');
  const std::string_view line = text.substr(before == std::string_view::npos ? 0 : before + 1);
  const std::string_view indentation = line.substr(0, line.find_first_not_of(" \t"));
  return indentation.find('\t') == std::string_view::npos ? ""
                                                          : "; indent with spaces, not with tabs";
}

// Records where documents begin.
class Documents : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { marks.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  std::vector<YAML::Mark> marks;
};

// The one document of `text`; an undefined or null node if there is none. (YAML::LoadAll never
// returns for ",", where each call of the parser yields an empty document, and YAML::Load ignores
// what follows the first document.)
YAML::Node one_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Documents documents;
  if (parser.HandleNextDocument(documents) && parser.HandleNextDocument(documents)) {
    const YAML::Mark first = documents.marks.at(0), second = documents.marks.at(1);
    throw YAML::ParserException(second, first.pos == second.pos
                                            ? "unexpected character"
                                            : "a second document; a config is one document");
  }
  return YAML::Load(text);
}

}  // namespace

std::vector<std::string> apply_yaml(ConfigBuilder& builder, std::string_view text,
                                    const std::string& name) {
  Walk walk(builder, name);
  if (const std::string place = place_of_bad_character(text, name); !place.empty()) {
    builder.add_problem(place, "not YAML: a control character, or not UTF-8");
    return {};
  }
  try {
    const YAML::Node document = one_document(std::string(text));
    if (!document.IsDefined() || document.IsNull()) {
      builder.add_problem(name,
                          "is empty; `dtrain --print-config` prints a whole config to start from");
    } else if (!document.IsMap()) {
      builder.add_problem(walk.place(document.Mark()),
                          "not a config; expected lines of `key: value`");
    } else {
      walk.map(document, "");
    }
  } catch (const YAML::DeepRecursion& error) {
    builder.add_problem(walk.place(error.mark),
                        str("nested too deeply (", error.depth(), " levels); a config has two"));
  } catch (const YAML::Exception& error) {
    builder.add_problem(walk.place(error.mark),
                        str("not YAML: ", error.msg, advice(text, error.mark)));
  }
  return std::move(walk).paths();
}

std::vector<std::pair<std::string, std::string>> values_in(std::string_view text) {
  constexpr size_t kMost = 2000;  // aliases make a short text long
  std::vector<std::pair<std::string, std::string>> values;
  if (!place_of_bad_character(text, "").empty()) return values;
  try {
    const YAML::Node document = one_document(std::string(text));
    if (!document.IsDefined() || !document.IsMap()) return values;
    for (const auto& section : document) {
      if (!section.first.IsScalar() || !section.second.IsMap()) continue;
      for (const auto& entry : section.second) {
        if (values.size() == kMost) return values;
        if (!entry.first.IsScalar() || !entry.second.IsScalar()) continue;
        values.emplace_back(section.first.Scalar() + "." + entry.first.Scalar(),
                            entry.second.Scalar());
      }
    }
  } catch (const YAML::Exception&) {
    values.clear();
  }
  return values;
}

}  // namespace dtrain::config
