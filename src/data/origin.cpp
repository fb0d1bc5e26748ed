#include "data/origin.h"

#include "text/strings.h"

namespace dtrain::data {

std::string Origin::name(int64_t id) const { return str(path().string(), "#", id); }

std::vector<std::string> class_names(const Origin& origin) {
  const std::string text = origin.attribute("class_names");
  return text.empty() ? std::vector<std::string>() : split(text, '\n');
}

std::map<std::string, std::string> meaning_of(const Origin& origin) {
  std::map<std::string, std::string> meaning;
  for (const char* name : {"class_names", "target_names", "target_unit"}) {
    const std::string text = origin.attribute(name);
    if (!text.empty()) meaning[name] = text;
  }
  return meaning;
}

}  // namespace dtrain::data
