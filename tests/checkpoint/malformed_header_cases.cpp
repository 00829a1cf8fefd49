#include <fmt/format.h>

#include "checkpoint/malformed_cases.h"

namespace perigee::test {
namespace {

using namespace std::string_literals;

std::string with_member(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"({{"a":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
}

MalformedCase number(const std::string& name, const std::string& text) {
  return {"number-" + name, with_member("\"U8\"", "[" + text + "]", "[0,1]"),
          ": tensor \"a\": shape is not an integer from 0 to 2^63", 1};
}

MalformedCase offset(const std::string& name, const std::string& text) {
  return {"offset-" + name, with_member("\"U8\"", "[1]", "[0," + text + "]"),
          ": tensor \"a\": data_offsets is not an integer from 0 to 2^63", 1};
}

std::vector<MalformedCase> json_cases() {
  return {
      {"empty-header", "", ": the header does not begin with '{'"},
      {"only-spaces", "        ", ": the header does not begin with '{'"},
      {"leading-space", " {}", ": the header does not begin with '{'"},
      {"leading-newline", "\n{}", ": the header does not begin with '{'"},
      {"byte-order-mark", "\xEF\xBB\xBF{}", ": the header does not begin with '{'"},
      {"array", "[]", ": the header does not begin with '{'"},
      {"string", "\"a\"", ": the header does not begin with '{'"},
      {"utf16", "{\0}\0"s, ": the header does not end with '}' and spaces"},
      {"padded-with-newline", "{}\n", ": the header does not end with '}' and spaces"},
      {"padded-with-nul", "{}\0\0"s, ": the header does not end with '}' and spaces"},
      {"text-after-the-end", "{} x", ": the header does not end with '}' and spaces"},
      {"second-object", "{}{}", ": the header has text after its closing brace"},
      {"closing-brace-too-many", "{}}", ": the header has text after its closing brace"},
      {"never-closed", "{", ": the header does not end with '}' and spaces"},
      {"inner-never-closed", "{\"a\":{}", ": tensor \"a\" has no \"dtype\""},
      {"outer-never-closed", fmt::format("{{{}", tensor("a", "U8", "", 0, 1)),
       ": the header is not valid JSON at or after \"a\": The JSON document has an improper "
       "structure: "
       "missing or superfluous commas, braces, missing keys, etc.",
       1},
      {"comma-at-the-end", object(tensor("a", "U8", "", 0, 1) + ","),
       ": the header is not valid JSON at or after \"a\": The JSON document has an improper structure", 1},
      {"comma-missing", object(tensor("a", "U8", "", 0, 1) + tensor("b", "U8", "", 1, 2)),
       ": the header is not valid JSON at or after \"a\": The JSON document has an improper structure", 2},
      {"key-without-quotes", "{a:{}}",
       ": the header is not valid JSON: The JSON document has an improper structure"},
      {"key-without-value", "{\"a\"}",
       ": the header is not valid JSON: The JSON document has an improper structure"},
      {"single-quotes", "{'a':{}}",
       ": the header is not valid JSON: The JSON document has an improper structure"},
      {"comment", "{/*a*/}", ": the header is not valid JSON: The JSON document has an improper structure"},
      {"string-never-closed", "{\"a}",
       ": the header is not valid JSON: A string is opened, but never closed"},
      {"invalid-utf8", "{\"\xFF\":{}}", ": the header is not valid JSON: The input is not valid UTF-8"},
      {"overlong-utf8", "{\"\xC0\xAF\":{}}", ": the header is not valid JSON: The input is not valid UTF-8"},
      {"utf8-surrogate", "{\"\xED\xA0\x80\":{}}",
       ": the header is not valid JSON: The input is not valid UTF-8"},
      {"raw-newline-in-name", "{\"a\nb\":{}}",
       ": the header is not valid JSON: Within strings, some characters must be escaped"},
      {"bad-escape", R"({"\x":{}})", ": the header is not valid JSON: Problem while parsing a string"},
      {"lone-surrogate", R"({"\ud800":{}})",
       ": the header is not valid JSON: Problem while parsing a string"},
      {"nul-in-name", R"({"a\u0000b":{}})", ": the tensor name \"a\\u0000b\" has a control character"},
      {"newline-in-name", R"({"a\nb":{}})", ": the tensor name \"a\\u000ab\" has a control character"},
  };
}

std::vector<MalformedCase> metadata_cases() {
  return {
      {"metadata-number", R"({"__metadata__":{"format":1}})",
       ": __metadata__ entry \"format\" is not a string"},
      {"metadata-null", R"({"__metadata__":{"format":null}})",
       ": __metadata__ entry \"format\" is not a string"},
      {"metadata-nested", R"({"__metadata__":{"a":{"b":"c"}}})",
       ": __metadata__ entry \"a\" is not a string"},
      {"metadata-string", R"({"__metadata__":"pt"})", ": \"__metadata__\" is not an object"},
      {"metadata-as-tensor", object(tensor("__metadata__", "U8", "", 0, 1)),
       ": __metadata__ entry \"shape\" is not a string", 1},
      {"metadata-twice", R"({"__metadata__":{},"__metadata__":{}})", ": \"__metadata__\" appears twice"},
      {"metadata-twice-escaped", R"({"__metadata__":{},"__\u006detadata__":{}})",
       ": \"__metadata__\" appears twice"},
      {"metadata-key-twice", R"({"__metadata__":{"a":"1","a":"1"}})",
       ": __metadata__ entry \"a\" appears twice"},
  };
}

std::vector<MalformedCase> member_cases() {
  const std::string nested = std::string(5000, '[') + std::string(5000, ']');
  const std::string zeros(300, '0');
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  return {
      {"tensor-number", R"({"a":1})", ": tensor \"a\" is not an object"},
      {"tensor-array", R"({"a":[]})", ": tensor \"a\" is not an object"},
      {"tensor-null", R"({"a":null})", ": tensor \"a\" is not an object"},
      {"deeply-nested", object("\"a\":" + nested), ": tensor \"a\" is not an object"},
      {"shape-deeply-nested", fmt::format(R"({{"a":{{"shape":{}}}}})", nested),
       ": tensor \"a\": shape is not an integer"},
      {"dtype-missing", R"({"a":{"shape":[],"data_offsets":[0,1]}})", ": tensor \"a\" has no \"dtype\"", 1},
      {"shape-missing", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", ": tensor \"a\" has no \"shape\"", 1},
      {"offsets-missing", R"({"a":{"dtype":"U8","shape":[]}})", ": tensor \"a\" has no \"data_offsets\""},
      {"dtype-twice", R"({"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}})",
       ": tensor \"a\" has \"dtype\" twice", 1},
      {"shape-twice", R"({"a":{"dtype":"U8","shape":[],"shape":[],"data_offsets":[0,1]}})",
       ": tensor \"a\" has \"shape\" twice", 1},
      {"offsets-twice", R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"data_offsets":[0,1]}})",
       ": tensor \"a\" has \"data_offsets\" twice", 1},
      {"unknown-key", R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"strides":[1]}})",
       ": tensor \"a\" has the unknown key \"strides\"", 1},
      {"dtype-unknown", with_member("\"F8\"", "[1]", "[0,1]"), ": tensor \"a\" has the unknown dtype \"F8\"",
       1},
      {"dtype-lower-case", with_member("\"u8\"", "[1]", "[0,1]"),
       ": tensor \"a\" has the unknown dtype \"u8\"", 1},
      {"dtype-number", with_member("8", "[1]", "[0,1]"), ": tensor \"a\": dtype is not a string", 1},
      {"shape-number", with_member("\"U8\"", "1", "[0,1]"), ": tensor \"a\": shape is not an array", 1},
      {"shape-too-long", with_member("\"U8\"", "[" + ones + "]", "[0,1]"),
       ": tensor \"a\": shape has more than 64 numbers", 1},
      {"offsets-object", with_member("\"U8\"", "[1]", "{}"), ": tensor \"a\": data_offsets is not an array",
       1},
      {"offsets-one", with_member("\"U8\"", "[0]", "[0]"),
       ": tensor \"a\": data_offsets has 1 numbers instead of 2"},
      {"offsets-three", with_member("\"U8\"", "[1]", "[0,1,1]"),
       ": tensor \"a\": data_offsets has more than 2 numbers", 1},
      number("float", "1.0"),
      number("exponent", "1e0"),
      number("negative", "-1"),
      number("minus-zero", "-0"),
      number("plus", "+1"),
      number("leading-zero", "01"),
      number("nan", "NaN"),
      number("string", "\"1\""),
      number("null", "null"),
      number("true", "true"),
      number("hexadecimal", "0x1"),
      number("just-over-2-63", "9223372036854775809"),
      number("2-64", "18446744073709551616"),
      number("300-digits", "1" + zeros),
      offset("float", "1.0"),
      offset("negative", "-1"),
      offset("just-over-2-63", "9223372036854775809"),
  };
}

}  // namespace

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   std::uint64_t begin, std::uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name, dtype, shape,
                     begin, end);
}

std::string object(const std::string& entries) {
  return fmt::format("{{{}}}", entries);
}

std::vector<MalformedCase> malformed_headers() {
  std::vector<MalformedCase> all;
  for (const auto& cases : {json_cases(), metadata_cases(), member_cases()})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

}  // namespace perigee::test
