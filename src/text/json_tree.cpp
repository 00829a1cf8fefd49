#include "text/json_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "text/json_scan.h"
#include "text/json_string.h"
#include "text/utf8.h"

namespace perigee {
namespace {

// Lines and columns count from 1, columns in characters.
[[noreturn]] void fail_at(std::string_view source, std::size_t at, const std::string& where,
                          std::string_view problem) {
  const std::string_view before = source.substr(0, at);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::string_view line = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0
  const auto columns =
      std::count_if(line.begin(), line.end(), [](unsigned char byte) { return (byte & 0xC0) != 0x80; });
  fail(ErrorCode::kCorrupt, "{}: line {}, column {}: {}", where, lines + 1, columns + 1, problem);
}

void check_utf8(std::string_view source, const std::string& where) {
  if (is_valid_utf8(source)) return;
  std::size_t at = 0;
  for (CodePoint point = decode_utf8(source, at); point.valid; point = decode_utf8(source, at)) {
    at += point.bytes;
  }
  fail_at(source, at, where, "a byte that is not UTF-8; save the text as UTF-8");
}

// Reads all of `source` before anything is built, so that what is not JSON costs no memory. Returns the
// number of children of each container in the order of their opening.
std::vector<std::size_t> check_and_count(std::string_view source, const std::string& where) {
  std::vector<std::size_t> children;
  std::vector<std::size_t> open;  // indices of the containers around the current place
  std::size_t values = 0;
  JsonScanner scanner(source, kStrictJson);
  const auto refuse = [&](const std::string& problem) {
    fail_at(source, static_cast<std::size_t>(scanner.piece().data() - source.data()), where, problem);
  };
  for (JsonStep step = scanner.next(); step != JsonStep::kEnd; step = scanner.next()) {
    if (step == JsonStep::kBad) fail_at(source, scanner.position(), where, scanner.problem());
    if (step == JsonStep::kClose) open.pop_back();
    if (step != JsonStep::kScalar && step != JsonStep::kOpen) continue;
    if (!open.empty()) ++children[open.back()];
    if (++values > JsonTree::kMaxValues) {
      refuse(fmt::format("more than {} values; send less at once", JsonTree::kMaxValues));
    }
    if (step == JsonStep::kScalar) continue;
    if (scanner.depth() > JsonTree::kMaxDepth) {
      refuse(fmt::format("more than {} levels of nesting; flatten the value", JsonTree::kMaxDepth));
    }
    open.push_back(children.size());
    children.push_back(0);
  }
  const std::string_view rest = trim_json_space(source.substr(scanner.position()));
  if (!rest.empty()) {
    fail_at(source, static_cast<std::size_t>(rest.data() - source.data()), where,
            "text after the end of the value; remove it");
  }
  return children;
}

// Builds the nodes of valid JSON. Every container gets its final capacity at once: nothing is copied, no
// memory is spare, and pointers to open containers stay good.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::span<const std::size_t> children) : children_(children) {}

  JsonNode build(std::string_view source) {
    JsonScanner scanner(source, kStrictJson);
    for (JsonStep step = scanner.next(); step != JsonStep::kEnd; step = scanner.next()) {
      if (step == JsonStep::kKey) {
        key_ = decode_json_string(scanner.piece());
      } else if (step == JsonStep::kClose) {
        close(scanner.piece());
      } else {
        add(scanner.piece(), step == JsonStep::kOpen);
      }
    }
    return std::move(root_);
  }

 private:
  JsonNode& place() {
    if (open_.empty()) return root_;
    JsonNode& parent = *open_.back();
    if (parent.is(JsonKind::kArray)) return parent.items.emplace_back();
    parent.members.push_back({std::move(key_), JsonNode{}});
    return parent.members.back().value;
  }

  void add(std::string_view piece, bool container) {
    JsonNode& node = place();
    node.kind = json_kind(piece);
    node.literal = piece;
    if (node.is(JsonKind::kString)) node.text = decode_json_string(piece);
    if (!container) return;
    const std::size_t count = children_[next_++];
    node.is(JsonKind::kArray) ? node.items.reserve(count) : node.members.reserve(count);
    open_.push_back(&node);
  }

  void close(std::string_view bracket) {
    JsonNode& node = *open_.back();
    const char* begin = node.literal.data();
    node.literal = std::string_view(begin, static_cast<std::size_t>(bracket.data() + 1 - begin));
    open_.pop_back();
  }

  std::span<const std::size_t> children_;
  std::size_t next_ = 0;
  std::string key_;
  std::vector<JsonNode*> open_;
  JsonNode root_;
};

}  // namespace

const char* json_kind_name(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBoolean:
      return "boolean";
    case JsonKind::kNumber:
      return "number";
    case JsonKind::kString:
      return "string";
    case JsonKind::kArray:
      return "array";
    case JsonKind::kObject:
      return "object";
  }
  fail(ErrorCode::kInternal, "JSON kind {} has no name; please report this", static_cast<int>(kind));
}

JsonKind json_kind(std::string_view literal) {
  switch (literal.front()) {
    case '{':
      return JsonKind::kObject;
    case '[':
      return JsonKind::kArray;
    case '"':
      return JsonKind::kString;
    case 't':
    case 'f':
      return JsonKind::kBoolean;
    case 'n':
      return JsonKind::kNull;
    default:
      return JsonKind::kNumber;
  }
}

const JsonNode* JsonNode::find(std::string_view key) const {
  const auto found =
      std::find_if(members.rbegin(), members.rend(), [&](const Member& member) { return member.key == key; });
  return found == members.rend() ? nullptr : &found->value;
}

JsonTree JsonTree::parse(std::string source, const std::string& where) {
  JsonTree tree;
  tree.source_ = std::make_unique<const std::string>(std::move(source));
  const std::string_view text = *tree.source_;
  check_utf8(text, where);
  const std::vector<std::size_t> children = check_and_count(text, where);
  tree.root_ = TreeBuilder(children).build(text);
  return tree;
}

bool is_json_value(std::string_view text) {
  JsonScanner scanner(text, kStrictJson);
  JsonStep step = scanner.next();
  while (step != JsonStep::kEnd && step != JsonStep::kBad) step = scanner.next();
  if (step == JsonStep::kBad) return false;
  return trim_json_space(text.substr(scanner.position())).empty() && is_valid_utf8(text);
}

}  // namespace perigee
