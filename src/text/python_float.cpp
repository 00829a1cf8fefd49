#include "text/python_float.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace perigee {
namespace {

// A finite value other than 0 as digits d1 d2 … dn and the exponent e of d1: d1.d2…dn × 10^e.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

Decimal shortest_decimal(double magnitude) {
  std::array<char, 32> text;  // 17 digits, point, e-308
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), magnitude, std::chars_format::scientific);
  const std::string_view all(text.data(), static_cast<std::size_t>(written.ptr - text.data()));
  const std::size_t e = all.find('e');
  Decimal decimal{std::string(all.substr(0, e)), 0};
  std::erase(decimal.digits, '.');
  const std::string_view exponent = all.substr(all[e + 1] == '+' ? e + 2 : e + 1);
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), decimal.exponent);
  return decimal;
}

std::string with_exponent(const Decimal& decimal) {
  std::string text = decimal.digits.substr(0, 1);
  if (decimal.digits.size() > 1) text += '.' + decimal.digits.substr(1);
  return text + fmt::format("e{}{:02}", decimal.exponent < 0 ? '-' : '+', std::abs(decimal.exponent));
}

std::string without_exponent(const Decimal& decimal) {
  if (decimal.exponent < 0) {
    return "0." + std::string(static_cast<std::size_t>(-decimal.exponent - 1), '0') + decimal.digits;
  }
  const auto whole = static_cast<std::size_t>(decimal.exponent) + 1;
  std::string digits = decimal.digits;
  if (digits.size() <= whole) return digits.append(whole - digits.size(), '0') + ".0";
  return digits.insert(whole, ".");
}

// Is the magnitude of a number that no double can hold too large, rather than too small? The place of its
// first digit that is not zero tells.
bool is_large(std::string_view literal) {
  const std::size_t e = std::min(literal.find_first_of("eE"), literal.size());
  const std::string_view mantissa = literal.substr(0, e);
  const auto point = static_cast<long long>(std::min(mantissa.find('.'), mantissa.size()));
  const auto first = static_cast<long long>(mantissa.find_first_of("123456789"));
  std::string_view exponent = literal.substr(std::min(e + 1, literal.size()));
  const bool negative = exponent.starts_with('-');
  if (negative || exponent.starts_with('+')) exponent.remove_prefix(1);
  long long power = 0;
  if (!exponent.empty()) {
    const auto read = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
    if (read.ec == std::errc::result_out_of_range) return !negative;  // outweighs any number of digits
  }
  return (negative ? -power : power) + (point - first) > 0;
}

double read_double(std::string_view literal) {
  double value = 0;
  const auto read = std::from_chars(literal.data(), literal.data() + literal.size(), value);
  if (read.ec == std::errc::result_out_of_range) {
    const double limit = is_large(literal) ? std::numeric_limits<double>::infinity() : 0.0;
    return literal.starts_with('-') ? -limit : limit;
  }
  return value;
}

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "NaN";
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return sign + "Infinity";
  if (value == 0) return sign + "0.0";
  const Decimal decimal = shortest_decimal(std::abs(value));
  const bool plain = decimal.exponent >= -4 && decimal.exponent < 16;
  return sign + (plain ? without_exponent(decimal) : with_exponent(decimal));
}

std::string python_number(std::string_view literal) {
  if (literal == "-0") return "0";
  if (literal.find_first_of(".eE") == std::string_view::npos) return std::string(literal);
  return python_float(read_double(literal));
}

}  // namespace perigee
