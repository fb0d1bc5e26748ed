#include "report/page_data.h"

#include <openssl/evp.h>

#include "core/check.h"
#include "text/strings.h"

namespace dtrain::report {

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

}  // namespace dtrain::report
