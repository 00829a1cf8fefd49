// A JSON reader that keeps what a prompt needs and other readers drop: the order of members, duplicate keys
// and the exact source text of every value (1e2 stays 1e2). Not for checkpoint headers
// (checkpoint/json_walk.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

enum class JsonKind : std::uint8_t { kNull, kBoolean, kNumber, kString, kArray, kObject };

// "null", "boolean", "number", "string", "array", "object": also the type words of tool arguments.
const char* json_kind_name(JsonKind kind);

// The kind of a value that begins like `literal`, which is not empty. NaN and Infinity are numbers, as in
// Python.
JsonKind json_kind(std::string_view literal);

struct JsonNode {
  struct Member;

  JsonKind kind = JsonKind::kNull;
  std::string_view literal;     // the value's source text without surrounding white space
  std::string text;             // kString: decoded; a lone surrogate is U+FFFD
  std::vector<JsonNode> items;  // kArray
  std::vector<Member> members;  // kObject: in source order, duplicates kept

  bool is(JsonKind wanted) const { return kind == wanted; }
  bool is_true() const { return kind == JsonKind::kBoolean && literal == "true"; }

  // The member's value, the last one of duplicates; nullptr if there is none or this is no object.
  const JsonNode* find(std::string_view key) const;
};

struct JsonNode::Member {
  std::string key;
  JsonNode value;
};

// Owns the source text that the nodes' literals point into.
class JsonTree {
 public:
  static constexpr unsigned kMaxDepth = 512;
  // A node is some hundred bytes where the text may be two; no context holds a document of that many values.
  static constexpr std::size_t kMaxValues = std::size_t{1} << 22;

  // RFC 8259, nothing before or after the value but white space, valid UTF-8, within kMaxDepth and
  // kMaxValues. Otherwise kCorrupt: "<where>: line 3, column 14: …".
  static JsonTree parse(std::string source, const std::string& where);

  const JsonNode& root() const { return root_; }

 private:
  std::unique_ptr<const std::string> source_;  // stays where it is when the tree is moved
  JsonNode root_;
};

// One pass, no recursion, no depth limit: is `text` one JSON value by RFC 8259 in valid UTF-8, white space
// around it allowed?
bool is_json_value(std::string_view text);

}  // namespace perigee
