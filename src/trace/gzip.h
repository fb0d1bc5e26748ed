#pragma once

// Text as a gzip stream (RFC 1952), which trace viewers open as they open the text itself.
// Thread-safety: none.

#include <functional>
#include <memory>
#include <string_view>

namespace dtrain::trace {

class Gzip {
 public:
  explicit Gzip(std::function<void(std::string_view)> write);  // receives the compressed bytes
  ~Gzip();
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  void add(std::string_view text);
  void finish();  // once, after the last text

 private:
  struct Stream;
  void deflate(std::string_view text, bool last);

  std::function<void(std::string_view)> write_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace dtrain::trace
