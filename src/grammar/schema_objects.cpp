// Objects: the part of the compiler where a comma depends on whether something has been written before.
#include <algorithm>
#include <utility>

#include "grammar/schema_compiler.h"
#include "text/json_string.h"
#include "text/json_write.h"

namespace perigee {
namespace {

constexpr GrammarPlace kEnd = GrammarBuilder::kEnd;

bool is_false(const JsonNode* schema) {
  return schema && schema->is(JsonKind::kBoolean) && !schema->is_true();
}

}  // namespace

std::vector<SchemaCompiler::Member> SchemaCompiler::members_of(const JsonNode& schema,
                                                               std::string_view path) const {
  const JsonNode* properties = schema.find("properties");
  const JsonNode* required = schema.find("required");
  const JsonNode* additional = schema.find("additionalProperties");
  if (properties && !properties->is(JsonKind::kObject))
    document_.refuse(path, "\"properties\" must be an object");
  if (required && !required->is(JsonKind::kArray)) document_.refuse(path, "\"required\" must be a list");
  std::vector<Member> members;
  std::map<std::string_view, std::size_t> places;
  if (properties) {
    for (const DictMember& declared : dict_members(*properties)) {
      places[declared.key] = members.size();
      members.push_back({std::string(declared.key), declared.value,
                         fmt::format("{}/properties/{}", path, declared.key), false});
    }
  }
  if (!required) return members;
  for (const JsonNode& name : required->items) {
    if (!name.is(JsonKind::kString)) document_.refuse(path, "\"required\" must hold names");
    const auto [place, is_new] = places.try_emplace(name.text, members.size());
    if (is_new)
      members.push_back({name.text, additional, fmt::format("{}/additionalProperties", path), false});
    members[place->second].required = true;
  }
  return members;
}

GrammarPlace SchemaCompiler::member(const Member& member, std::string_view before, GrammarPlace next) {
  std::string name(before);
  append_python_string(name, member.name);
  return builder_.text(name + ':', item(member.schema, member.path, next));
}

// A member that the schema does not name. Its name has no escapes, so that it cannot spell one that is named.
GrammarPlace SchemaCompiler::other_member(const Task& task, const std::vector<Member>& members,
                                          GrammarPlace next) {
  const JsonNode* additional = task.schema->find("additionalProperties");
  const GrammarPlace value =
      builder_.text(":", item(additional, fmt::format("{}/additionalProperties", task.path), next));
  if (members.empty()) return builder_.word(words_.string(TextForm::kJson), value);
  const std::string what = document_.place(task.path);
  std::vector<RegexRef> named;
  for (const Member& member : members) named.push_back(written_text(member.name, TextForm::kJson));
  Dfa others = Dfa::difference(Dfa(*plain_json_string(), what),
                               Dfa(*regex_alternatives(std::move(named)), what), what);
  return own_word(std::move(others), value);
}

// From the back, in two rows: what follows when nothing has been written yet, and when something has.
GrammarPlace SchemaCompiler::object(const Task& task) {
  const std::vector<Member> members = members_of(*task.schema, task.path);
  const JsonNode* additional = task.schema->find("additionalProperties");
  const bool open = additional ? !is_false(additional) : members.empty();
  const GrammarPlace close = builder_.text("}", kEnd);
  GrammarPlace first = close, later = close;
  if (open) {
    later = builder_.loop();
    const GrammarPlace other = other_member(task, members, later);
    builder_.set_loop(later, {builder_.text(",", other), close});
    first = builder_.either({other, close});
  }
  for (std::size_t i = members.size(); i-- > 0;) {
    const GrammarPlace as_first = member(members[i], "", later);
    const GrammarPlace as_later = member(members[i], ",", later);
    first = members[i].required ? as_first : builder_.either({as_first, first});
    later = members[i].required ? as_later : builder_.either({as_later, later});
  }
  return builder_.text("{", first);
}

}  // namespace perigee
