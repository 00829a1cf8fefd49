#include "text/arguments.h"

#include <utility>

#include "text/json_scan.h"
#include "text/json_string.h"
#include "text/json_write.h"

namespace perigee {
namespace {

// The literal of the value that comes next, whole; empty if it is not valid.
std::string_view next_literal(JsonScanner& scanner) {
  const std::size_t around = scanner.depth();
  JsonStep step = scanner.next();
  if (step == JsonStep::kBad) return {};
  const char* begin = scanner.piece().data();
  while (scanner.depth() > around) {
    step = scanner.next();
    if (step == JsonStep::kBad) return {};
  }
  const std::string_view last = scanner.piece();
  return {begin, static_cast<std::size_t>(last.data() + last.size() - begin)};
}

std::optional<std::vector<Argument>> read_object(std::string_view text) {
  JsonScanner scanner(text, kPythonJson);
  if (scanner.next() != JsonStep::kOpen || scanner.piece() != "{") return std::nullopt;
  std::vector<Argument> members;
  for (JsonStep step = scanner.next(); step != JsonStep::kClose; step = scanner.next()) {
    if (step == JsonStep::kBad) return std::nullopt;
    std::string key = decode_json_string(scanner.piece());
    const std::string_view literal = next_literal(scanner);
    if (literal.empty()) return std::nullopt;
    const JsonKind kind = json_kind(literal);
    members.push_back({std::move(key), kind,
                       kind == JsonKind::kString ? decode_json_string(literal) : std::string(literal)});
  }
  return members;
}

}  // namespace

CallArguments arguments_from_text(std::string_view text) {
  if (text.empty()) return {};
  std::optional<std::vector<Argument>> members = read_object(text);
  if (!members) return {{}, std::string(text)};
  return {std::move(*members), std::nullopt};
}

CallArguments arguments_from_object(const JsonNode& object) {
  CallArguments arguments;
  for (const DictMember& member : dict_members(object)) {
    const JsonNode& value = *member.value;
    arguments.members.push_back(
        {std::string(member.key), value.kind, value.is(JsonKind::kString) ? value.text : python_json(value)});
  }
  return arguments;
}

}  // namespace perigee
