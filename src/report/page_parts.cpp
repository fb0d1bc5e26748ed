#include "report/page_parts.h"

#include <openssl/evp.h>

#include <algorithm>
#include <ctime>

#include "core/check.h"
#include "text/printable.h"
#include "text/strings.h"
#include "text/utf8.h"

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

std::string bullets(const std::vector<std::string>& texts, const char* attributes) {
  std::string html = str("<ul", attributes, ">\n");
  for (const std::string& text : texts) html += "<li>" + html_text(text) + "</li>\n";
  return html + "</ul>\n";
}

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
    const auto value = std::ranges::find_if(values, [&](const auto& v) { return v.first == key; });
    DTRAIN_CHECK(value != values.end(), "the page has no value for ", key);
    out += value->second;
    page.remove_prefix(end + 2);
  }
}

std::string cut_to(const std::string& name, size_t most, std::string_view ending) {
  if (count_characters(name) <= most) return name;
  std::string_view rest = name;
  for (size_t i = count_characters(ending); i < most; ++i)
    rest.remove_prefix(std::max<size_t>(1, utf8_character(rest)));
  return str(name.substr(0, name.size() - rest.size()), ending);
}

std::string script_json(std::string_view json) {
  std::string out;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    const std::string_view next = json.substr(i, 3);
    if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    } else if (next == "\u2028" || next == "\u2029") {
      out += next == "\u2028" ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

std::string data_uri(std::string_view media_type, std::span<const std::byte> bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int written = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                      reinterpret_cast<const unsigned char*>(bytes.data()),
                                      static_cast<int>(bytes.size()));
  DTRAIN_CHECK(written >= 0, "no base64 of ", bytes.size(), " bytes");
  text.resize(static_cast<size_t>(written));
  return str("data:", media_type, ";base64,", text);
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
