#pragma once

// The JSON of a safetensors header, read without trust. A reader of its own, not a JSON library: the grammar is small
// (objects, texts, lists of natural numbers), a duplicate key must be an error, and memory must not grow beyond what
// the header itself takes. Errors: CheckpointError naming the file, the fault and the byte. Thread-safety: one thread.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::checkpoint {

class JsonReader {
 public:
  // Borrows both. Throws if `json` is not well-formed UTF-8.
  JsonReader(std::string_view json, const std::string& file);

  char peek();  // the next character that is no white space, '\0' at the end; does not go on
  // Calls member(key) behind each colon, which must read the value.
  template <typename Member>
  void object(const Member& member) {
    expect('{');
    if (peek() == '}') {
      ++at_;
      return;
    }
    do {
      if (peek() != '"') expect('"');
      const std::string key = string();
      expect(':');
      member(key);
    } while (more('}'));
  }

  std::string string();
  std::vector<uint64_t> naturals(const std::string& of);  // each below 2^63; `of` names them in messages
  void end();                                             // throws if anything follows

  [[noreturn]] void fail(const std::string& what) const;  // "FILE: the safetensors header WHAT (header byte N)"

 private:
  void expect(char wanted);
  bool more(char closing);  // "," or the closing character; true: another element follows
  unsigned hex4();
  void escape(std::string* out);
  uint64_t natural(const std::string& of);

  const std::string_view json_;
  const std::string& file_;
  size_t at_ = 0;
};

std::string json_string(std::string_view text);  // quoted and escaped

}  // namespace dtrain::checkpoint
