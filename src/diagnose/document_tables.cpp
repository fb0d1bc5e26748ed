#include "diagnose/document_tables.h"

#include "core/error.h"
#include "text/strings.h"

namespace dtrain {

std::string with_tables(std::string_view document,
                        const std::function<std::string(std::string_view name)>& table_named) {
  constexpr std::string_view kBegin = "<!-- table: ", kBeginEnd = " -->\n",
                             kEnd = "<!-- end of table -->";
  std::string text;
  while (true) {
    const size_t begin = document.find(kBegin);
    if (begin == std::string_view::npos) return text + std::string(document);
    const size_t name = begin + kBegin.size(), body = document.find(kBeginEnd, name),
                 end = document.find(kEnd, name);
    if (body == std::string_view::npos || end == std::string_view::npos || end < body)
      throw DataError(str("a table has no end: ", document.substr(begin, 60)));
    text += str(document.substr(0, body + kBeginEnd.size()), "\n",
                table_named(document.substr(name, body - name)), "\n", kEnd);
    document.remove_prefix(end + kEnd.size());
  }
}

}  // namespace dtrain
