#include "grammar/schema_compiler.h"

#include <algorithm>
#include <utility>

#include "grammar/pattern.h"
#include "text/json_write.h"

namespace perigee {
namespace {

constexpr GrammarPlace kEnd = GrammarBuilder::kEnd;

}  // namespace

SchemaCompiler::SchemaCompiler(GrammarBuilder& builder, const JsonWords& words, const AnyJson& any,
                               const JsonNode& root, std::string where)
    : builder_(builder), words_(words), any_(any), document_(root, std::move(where)) {}

RuleIndex SchemaCompiler::rule(const JsonNode& schema, std::string_view path, TypeSet types, TextForm form) {
  const auto [place, is_new] = rules_.try_emplace({&schema, types, form}, RuleIndex{0});
  if (is_new) {
    place->second = builder_.rule();
    tasks_.push_back({&schema, std::string(path), types, form, place->second});
  }
  return place->second;
}

void SchemaCompiler::finish() {
  while (!tasks_.empty()) {
    const Task task = std::move(tasks_.back());
    tasks_.pop_back();
    builder_.set_rule(task.rule, body(task));
  }
}

GrammarPlace SchemaCompiler::body(const Task& task) {
  const JsonNode& schema = *task.schema;
  document_.check(schema, task.path);
  if (schema.is(JsonKind::kBoolean))
    return schema.is_true() ? of_types(task, task.types) : builder_.either({});
  const TypeSet types = shared_types(task.types, document_.own_types(schema, task.path));
  if (const JsonNode* ref = schema.find("$ref"))
    return builder_.call(rule(document_.target(schema, task.path), ref->text, types, task.form), kEnd);
  if (const JsonNode* list = alternatives_of(schema)) return alternatives(task, *list, types);
  if (const auto named = named_values(schema); !named.empty()) return values(task, named, types);
  return of_types(task, types);
}

GrammarPlace SchemaCompiler::alternatives(const Task& task, const JsonNode& list, TypeSet types) {
  const bool exclusive = task.schema->find("oneOf") != nullptr;
  std::vector<GrammarPlace> places;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    for (std::size_t k = 0; exclusive && k < i; ++k) {
      if (document_.are_disjoint(list.items[k], list.items[i], task.path)) continue;
      document_.refuse(
          task.path,
          "alternatives {} and {} of \"oneOf\" may both hold; use \"anyOf\", or give them a member "
          "with different constants",
          k, i);
    }
    const std::string path = fmt::format("{}/{}", task.path, i);
    places.push_back(builder_.call(rule(list.items[i], path, types, task.form), kEnd));
  }
  return builder_.either(std::move(places));
}

GrammarPlace SchemaCompiler::values(const Task& task, const std::vector<const JsonNode*>& named,
                                    TypeSet types) {
  std::vector<RegexRef> spellings;
  for (const JsonNode* value : named) {
    if (shared_types(types, types_of_value(*value)) == kNoType) continue;
    spellings.push_back(value->is(JsonKind::kString) ? written_text(value->text, task.form)
                                                     : regex_text(sorted_compact_json(*value)));
  }
  if (spellings.empty()) return builder_.either({});
  return own_word(Dfa(*regex_alternatives(std::move(spellings)), document_.place(task.path)));
}

GrammarPlace SchemaCompiler::of_types(const Task& task, TypeSet types) {
  std::vector<GrammarPlace> places;
  if (types & kTypeString) places.push_back(string(task));
  if (types & (kTypeNumber | kTypeInteger)) places.push_back(number(task, !(types & kTypeNumber)));
  if (types & kTypeBoolean) places.push_back(builder_.word(words_.boolean(), kEnd));
  if (types & kTypeNull) places.push_back(builder_.word(words_.null(), kEnd));
  if (types & kTypeObject) places.push_back(object(task));
  if (types & kTypeArray) places.push_back(array(task));
  return builder_.either(std::move(places));
}

GrammarPlace SchemaCompiler::number(const Task& task, bool integers) {
  const NumberRange range = document_.number_range(*task.schema, integers, task.path);
  if (!range.is_limited()) return builder_.word(integers ? words_.integer() : words_.number(), kEnd);
  return own_word(Dfa(integers ? *integers_in(range) : *numbers_in(range), document_.place(task.path)));
}

// A word of this schema alone.
GrammarPlace SchemaCompiler::own_word(Dfa dfa, GrammarPlace next) {
  return builder_.word(
      std::make_shared<const Terminal>(std::move(dfa), builder_.trie(), Terminal::Border::kAnywhere,
                                       Terminal::Lengths::kIgnored),
      next);
}

GrammarPlace SchemaCompiler::string(const Task& task) {
  const JsonNode& schema = *task.schema;
  const std::uint32_t least = document_.count(schema, "minLength", task.path).value_or(0);
  const std::uint32_t most = document_.count(schema, "maxLength", task.path).value_or(kUnlimited);
  const JsonNode* pattern = schema.find("pattern");
  const bool limited = least > 0 || most != kUnlimited;
  if (!pattern) {
    if (!limited) return builder_.word(words_.string(task.form), kEnd);
    if (least > most) return builder_.either({});
    return builder_.word(words_.counted_string(task.form), kEnd, least, most);
  }
  if (!pattern->is(JsonKind::kString)) document_.refuse(task.path, "\"pattern\" must be a string");
  const std::string place = document_.place(task.path);
  Dfa dfa(*read_pattern(pattern->text, task.form, place), place);
  if (limited) dfa = Dfa(dfa, least, most, place);
  return own_word(std::move(dfa));
}

GrammarPlace SchemaCompiler::item(const JsonNode* schema, const std::string& path, GrammarPlace next) {
  return builder_.call(schema ? rule(*schema, path) : any_.value(), next);
}

// From the back: what follows when so many items have been written.
GrammarPlace SchemaCompiler::array(const Task& task) {
  const JsonNode& schema = *task.schema;
  const JsonNode* items = schema.find("items");
  const JsonNode* prefix = schema.find("prefixItems");
  if (items && items->is(JsonKind::kArray))
    document_.refuse(task.path, "\"items\" must be a schema; write \"prefixItems\" for a list of them");
  if (prefix && !prefix->is(JsonKind::kArray)) document_.refuse(task.path, "\"prefixItems\" must be a list");
  const std::size_t listed = prefix ? prefix->items.size() : 0;
  const std::size_t least = document_.count(schema, "minItems", task.path).value_or(0);
  std::size_t most = document_.count(schema, "maxItems", task.path).value_or(kUnlimited);
  if (items && items->is(JsonKind::kBoolean) && !items->is_true()) most = std::min(most, listed);
  if (least > most) return builder_.either({});
  const auto item_at = [&](std::size_t i, GrammarPlace next) {
    if (i < listed) return item(&prefix->items[i], fmt::format("{}/prefixItems/{}", task.path, i), next);
    return item(items, fmt::format("{}/items", task.path), next);
  };
  const GrammarPlace close = builder_.text("]", kEnd);
  // So many places differ from each other; behind them is a loop, or nothing.
  const std::size_t places = most == kUnlimited ? std::max({listed, least, std::size_t{1}}) : most;
  GrammarPlace next = close;
  if (most == kUnlimited) {
    next = builder_.loop();
    builder_.set_loop(next, {builder_.text(",", item_at(places, next)), close});
  }
  for (std::size_t i = places; i-- > 0;) {
    const GrammarPlace one_more = item_at(i, next);
    const GrammarPlace begun = i == 0 ? one_more : builder_.text(",", one_more);
    next = i >= least ? builder_.either({begun, close}) : begun;
  }
  return builder_.text("[", next);
}

}  // namespace perigee
