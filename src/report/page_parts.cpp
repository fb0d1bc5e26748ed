#include "report/page_parts.h"

#include <algorithm>
#include <ctime>

#include "core/check.h"
#include "report/page_data.h"
#include "text/html_text.h"
#include "text/strings.h"

namespace dtrain::report {

Rows::Rows(const std::vector<std::string>& titles, size_t left_columns, size_t wrapped)
    : left_columns_(left_columns), wrapped_(wrapped) {
  head_ = row(titles, "th");
}

void Rows::add(const std::vector<std::string>& cells) {
  body_ += row(cells, "td");
  ++rows_;
}

std::string Rows::row(const std::vector<std::string>& cells, const char* element) const {
  std::string html = "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool left = i > 0 && i < left_columns_, wraps = i + wrapped_ >= cells.size();
    html += str("<", element, left ? wraps ? " class=\"left wrap\">" : " class=\"left\">" : ">",
                cells[i], "</", element, ">");
  }
  return html + "</tr>\n";
}

std::string Rows::html() const {
  return "<div class=\"scroll\"><table><thead>" + head_ + "</thead><tbody>\n" + body_ +
         "</tbody></table></div>\n";
}

std::string Rows::html_without_head() const {
  return "<div class=\"scroll\"><table><tbody>\n" + body_ + "</tbody></table></div>\n";
}

std::string heading(const std::string& text) { return "<h2>" + html_text(text) + "</h2>\n"; }

std::string part_key(size_t part) {
  return str(
      "<svg class=\"key\" viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect width=\"1\" height=\"1\" "
      "class=\"p",
      part, "\"/></svg>");
}

std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string, std::string>>& values) {
  std::string out;
  while (true) {
    const size_t begin = page.find("{{"), end = page.find("}}", begin);
    out += page.substr(0, begin);
    if (begin == std::string_view::npos || end == std::string_view::npos) return out;
    const std::string_view key = page.substr(begin + 2, end - begin - 2);
    const auto value =
        std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == key; });
    DTRAIN_CHECK(value != values.end(), "the page has no value for ", key);
    out += value->second;
    page.remove_prefix(end + 2);
  }
}

std::string page_of(const std::string& title, const std::string& header, const std::string& body,
                    const std::string& json, double now) {
  const auto at = static_cast<std::time_t>(std::clamp(now, 0.0, 1e11));
  std::tm utc{};
  gmtime_r(&at, &utc);
  char date[32] = "";
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
  return filled(
      *embedded_page("report"),
      {{"title", html_text(title)},
       {"header", header},
       {"main", body},
       {"footer", str("Written by dtrain report, ", date,
                      ". The numbers are in this file as JSON, in the element dtrain-report.")},
       {"data", script_json(json)}});
}

}  // namespace dtrain::report
