#pragma once

// The pieces that pages are put together from, and data inside a page, which must not become a part
// of it. What is given as HTML must have been escaped (html_text() of text/printable.h). Pure.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain::report {

// A table in a box that scrolls sideways on a narrow screen. All cells are HTML. The first
// `left_columns` columns are aligned to the left; of them the last column of the table, or the last
// `wrapped` ones, break their text into lines.
class Rows {
 public:
  explicit Rows(const std::vector<std::string>& titles, size_t left_columns = 1,
                size_t wrapped = 1);
  void add(const std::vector<std::string>& cells);
  size_t size() const { return rows_; }
  std::string html() const;
  std::string html_without_head() const;

 private:
  std::string row(const std::vector<std::string>& cells, const char* element) const;

  size_t left_columns_, wrapped_, rows_ = 0;
  std::string head_, body_;
};

std::string heading(const std::string& text);  // plain text
// A list of plain texts.
std::string bullets(const std::vector<std::string>& texts, const char* attributes = "");
std::string part_key(size_t part);  // a square in the color of a part

// A whole page from the template; `header` and `body` are HTML, `title` is not. `now`: seconds
// since 1970.
std::string page_of(const std::string& title, const std::string& header, const std::string& body,
                    const std::string& json, double now);

// The text of src/report/NAME.html, built into the binary.
std::optional<std::string_view> embedded_page(std::string_view name);
// The template with each {{KEY}} replaced by its value, which is not searched for keys again.
std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string, std::string>>& values);

// A name of at most `most` characters: a longer one ends with `ending`.
std::string cut_to(const std::string& name, size_t most, std::string_view ending);

// JSON as it may stand inside a <script> element: without "<", ">" and "&", which could end the
// element or begin a comment, and without U+2028 and U+2029, which older JavaScript takes for the
// end of a line. All of them are only ever inside strings of JSON, where \u003c says the same.
std::string script_json(std::string_view json);

std::string data_uri(std::string_view media_type,
                     std::span<const std::byte> bytes);  // "data:image/jpeg;base64,..."

}  // namespace dtrain::report
