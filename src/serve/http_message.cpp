#include "serve/http_message.h"

#include <algorithm>

namespace perigee {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

bool equal_without_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> HttpHeaders::find(std::string_view name) const {
  for (const auto& [known, value] : fields_) {
    if (equal_without_case(known, name)) return value;
  }
  return std::nullopt;
}

}  // namespace perigee
