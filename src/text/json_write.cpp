#include "text/json_write.h"

#include <algorithm>

#include "text/json_string.h"
#include "text/python_float.h"

namespace perigee {
namespace {

struct Style {
  std::string_view comma;
  std::string_view colon;
  bool sorted;
};

constexpr Style kSortedCompact{",", ":", true};
constexpr Style kPythonDefault{", ", ": ", false};

void write(std::string& out, const JsonNode& node, const Style& style);

void write_array(std::string& out, const JsonNode& array, const Style& style) {
  out += '[';
  for (std::size_t i = 0; i < array.items.size(); ++i) {
    if (i > 0) out += style.comma;
    write(out, array.items[i], style);
  }
  out += ']';
}

void write_object(std::string& out, const JsonNode& object, const Style& style) {
  const std::vector<DictMember> members = style.sorted ? sorted_members(object) : dict_members(object);
  out += '{';
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i > 0) out += style.comma;
    append_python_string(out, members[i].key);
    out += style.colon;
    write(out, *members[i].value, style);
  }
  out += '}';
}

// Recursion ends at JsonTree::kMaxDepth.
void write(std::string& out, const JsonNode& node, const Style& style) {
  switch (node.kind) {
    case JsonKind::kNull:
    case JsonKind::kBoolean:
      out += node.literal;
      break;
    case JsonKind::kNumber:
      out += python_number(node.literal);
      break;
    case JsonKind::kString:
      append_python_string(out, node.text);
      break;
    case JsonKind::kArray:
      write_array(out, node, style);
      break;
    case JsonKind::kObject:
      write_object(out, node, style);
      break;
  }
}

}  // namespace

std::vector<DictMember> sorted_members(const JsonNode& object) {
  std::vector<DictMember> members;
  members.reserve(object.members.size());
  for (const auto& [key, value] : object.members) members.push_back({key, &value, members.size()});
  // By place too: of equal keys the first comes first, as a stable sort would have it without its memory.
  std::sort(members.begin(), members.end(), [](const DictMember& a, const DictMember& b) {
    const int order = a.key.compare(b.key);  // char_traits compares bytes as unsigned: code point order
    return order != 0 ? order < 0 : a.place < b.place;
  });
  std::size_t kept = 0;
  for (const DictMember& member : members) {
    if (kept > 0 && members[kept - 1].key == member.key) {
      members[kept - 1].value = member.value;
    } else {
      members[kept++] = member;
    }
  }
  members.resize(kept);
  return members;
}

std::vector<DictMember> dict_members(const JsonNode& object) {
  std::vector<DictMember> members = sorted_members(object);
  std::sort(members.begin(), members.end(),
            [](const DictMember& a, const DictMember& b) { return a.place < b.place; });
  return members;
}

std::string sorted_compact_json(const JsonNode& value) {
  std::string out;
  write(out, value, kSortedCompact);
  return out;
}

std::string python_json(const JsonNode& value) {
  std::string out;
  write(out, value, kPythonDefault);
  return out;
}

}  // namespace perigee
