#include "checkpoint/malformed_cases.h"

namespace perigee::test {
namespace {

using namespace std::string_literals;

MalformedCase file_name(const std::string& name, const std::string& json_text, const std::string& shown) {
  return {"file-" + name, R"({"weight_map":{"a":")" + json_text + R"("}})",
          ": tensor \"a\" is said to be in \"" + shown + "\", which is not a plain *.safetensors file name"};
}

MalformedCase total_size(const std::string& name, const std::string& text) {
  return {"total-" + name, R"({"metadata":{"total_size":)" + text + R"(},"weight_map":{}})",
          ": metadata.total_size is not an integer from 0 to 2^63"};
}

}  // namespace

std::vector<MalformedCase> malformed_indexes() {
  return {
      {"index-empty", "", " is not valid JSON: Empty: no JSON found"},
      {"index-array", "[]", " is not valid JSON: The JSON element does not have the requested type"},
      {"index-byte-order-mark", "\xEF\xBB\xBF{\"weight_map\":{}}", " is not valid JSON: "},
      {"index-truncated", R"({"weight_map":{"a":"m.safetensors")",
       " is not valid JSON: JSON document ended early"},
      {"index-outer-open", R"({"weight_map":{"a":"m.safetensors"})",
       " is not valid JSON at or after \"weight_map\": The JSON document has an improper structure"},
      {"index-text-after", R"({"weight_map":{}} {})", " has text after its closing brace"},
      {"index-invalid-utf8", "{\"weight_map\":{\"\xFE\":\"m.safetensors\"}}",
       " is not valid JSON: The input is not valid UTF-8"},
      {"index-without-map", R"({"metadata":{}})", " has no \"weight_map\""},
      {"index-map-list", R"({"weight_map":[]})", ": \"weight_map\" is not an object"},
      {"index-map-twice", R"({"weight_map":{},"weight_map":{}})", " has \"weight_map\" twice"},
      {"index-metadata-twice", R"({"metadata":{},"metadata":{},"weight_map":{}})", " has \"metadata\" twice"},
      {"index-metadata-list", R"({"metadata":[],"weight_map":{}})", ": \"metadata\" is not an object"},
      {"index-size-twice", R"({"metadata":{"total_size":1,"total_size":1},"weight_map":{}})",
       " has \"total_size\" twice"},
      {"index-name-twice", R"({"weight_map":{"a":"m.safetensors","a":"m.safetensors"}})",
       ": tensor \"a\" is listed twice"},
      {"index-name-twice-two-files", R"({"weight_map":{"a":"m.safetensors","a":"n.safetensors"}})",
       ": tensor \"a\" is listed twice"},
      {"index-name-twice-escaped", R"({"weight_map":{"a":"m.safetensors","\u0061":"m.safetensors"}})",
       ": tensor \"a\" is listed twice"},
      {"index-name-control", R"({"weight_map":{"a\u001b[2J":"m.safetensors"}})",
       ": the tensor name \"a\\u001b[2J\" has a control character"},
      {"index-file-number", R"({"weight_map":{"a":1}})", ": the file of tensor \"a\" is not a string"},
      {"index-file-object", R"({"weight_map":{"a":{}}})", ": the file of tensor \"a\" is not a string"},
      {"index-other-nested",
       "{\"x\":" + std::string(100, '[') + std::string(100, ']') + ",\"weight_map\":{}}",
       " is nested too deeply"},
      {"index-other-broken", R"({"x":[1,,2],"weight_map":{}})", " is not valid JSON"},
      {"index-other-word", R"({"x":nul,"weight_map":{}})", " is not valid JSON"},
      total_size("negative", "-1"),
      total_size("float", "1.5"),
      total_size("exponent", "1e12"),
      total_size("string", "\"1\""),
      total_size("null", "null"),
      total_size("2-64", "18446744073709551616"),
      file_name("parent", "../m.safetensors", "../m.safetensors"),
      file_name("inner-parent", "a/../../m.safetensors", "a/../../m.safetensors"),
      file_name("folder", "a/m.safetensors", "a/m.safetensors"),
      file_name("absolute", "/etc/m.safetensors", "/etc/m.safetensors"),
      file_name("backslash", "..\\\\m.safetensors", "..\\\\m.safetensors"),
      file_name("escaped-slash", "..\\u002fm.safetensors", "../m.safetensors"),
      file_name("drive", "C:m.safetensors", "C:m.safetensors"),
      file_name("nul", "m\\u0000.safetensors", "m\\u0000.safetensors"),
      file_name("hidden", ".safetensors", ".safetensors"),
      file_name("dots", "..", ".."),
      file_name("empty", "", ""),
      file_name("other-type", "pytorch_model.bin", "pytorch_model.bin"),
      file_name("too-long", std::string(250, 'm') + ".safetensors", std::string(200, 'm') + "..."),
  };
}

}  // namespace perigee::test
