#include "grammar/schema_document.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <tuple>
#include <utility>

namespace perigee {
namespace {

// Say nothing about whether a value is valid.
constexpr std::array<std::string_view, 20> kAnnotations = {
    "title",    "description",     "default",          "examples",      "example",    "$schema",  "$id",
    "$comment", "$defs",           "$anchor",          "definitions",   "deprecated", "readOnly", "writeOnly",
    "format",   "contentEncoding", "contentMediaType", "contentSchema", "strict",     "name"};

struct Keyword {
  std::string_view name;
  TypeSet about;  // only says something about values of these types
};

constexpr std::array<Keyword, 22> kKeywords = {{{"type", kEveryType},
                                                {"enum", kEveryType},
                                                {"const", kEveryType},
                                                {"anyOf", kEveryType},
                                                {"oneOf", kEveryType},
                                                {"allOf", kEveryType},
                                                {"$ref", kEveryType},
                                                {"minimum", kTypeNumber},
                                                {"maximum", kTypeNumber},
                                                {"exclusiveMinimum", kTypeNumber},
                                                {"exclusiveMaximum", kTypeNumber},
                                                {"minLength", kTypeString},
                                                {"maxLength", kTypeString},
                                                {"pattern", kTypeString},
                                                {"items", kTypeArray},
                                                {"prefixItems", kTypeArray},
                                                {"minItems", kTypeArray},
                                                {"maxItems", kTypeArray},
                                                {"uniqueItems", kTypeArray},
                                                {"properties", kTypeObject},
                                                {"required", kTypeObject},
                                                {"additionalProperties", kTypeObject}}};

// Each decides alone; beside it only "type" may stand.
constexpr std::array<std::string_view, 6> kDeciding = {"$ref", "enum", "const", "anyOf", "oneOf", "allOf"};

bool is_annotation(std::string_view key) {
  return key.starts_with("x-") || std::ranges::find(kAnnotations, key) != kAnnotations.end();
}

const Keyword* find_keyword(std::string_view key) {
  const auto place = std::ranges::find(kKeywords, key, &Keyword::name);
  return place == kKeywords.end() ? nullptr : &*place;
}

// One step of a JSON pointer, with its escapes and those of a URI taken back.
std::string pointer_step(std::string_view step) {
  std::string text;
  for (std::size_t i = 0; i < step.size(); ++i) {
    unsigned value = 0;
    if (step[i] == '%' && i + 2 < step.size() &&
        std::from_chars(&step[i + 1], &step[i + 1] + 2, value, 16).ptr == &step[i + 1] + 2) {
      text += static_cast<char>(value);
      i += 2;
    } else {
      text += step[i];
    }
  }
  for (const auto& [escape, plain] : {std::pair("~1", '/'), std::pair("~0", '~')}) {
    for (std::size_t at = 0; (at = text.find(escape, at)) != std::string::npos; ++at)
      text.replace(at, 2, 1, plain);
  }
  return text;
}

const JsonNode* child(const JsonNode& node, const std::string& step) {
  if (!node.is(JsonKind::kArray)) return node.find(step);
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  const bool whole = error == std::errc{} && end == step.data() + step.size();
  return whole && index < node.items.size() ? &node.items[index] : nullptr;
}

}  // namespace

const JsonNode* alternatives_of(const JsonNode& schema) {
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    if (const JsonNode* found = schema.find(key)) return found;
  }
  return nullptr;
}

std::vector<const JsonNode*> named_values(const JsonNode& schema) {
  std::vector<const JsonNode*> values;
  if (const JsonNode* value = schema.find("const")) values.push_back(value);
  if (const JsonNode* list = schema.find("enum")) {
    for (const JsonNode& value : list->items) values.push_back(&value);
  }
  return values;
}

bool requires_member(const JsonNode& schema, std::string_view name) {
  const JsonNode* required = schema.find("required");
  return required &&
         std::ranges::any_of(required->items, [&](const JsonNode& item) { return item.text == name; });
}

void SchemaDocument::check(const JsonNode& schema, std::string_view path) const {
  if (schema.is(JsonKind::kBoolean)) return;
  if (!schema.is(JsonKind::kObject)) refuse(path, "a schema is an object, true or false");
  std::string_view decides;
  std::string_view other;
  for (const JsonNode::Member& member : schema.members) {
    const std::string_view key = member.key;
    if (is_annotation(key)) continue;
    if (!find_keyword(key)) refuse(path, "the keyword \"{}\" cannot be followed; leave it out", key);
    if (key == "uniqueItems" && member.value.is_true())
      refuse(path, "the keyword \"uniqueItems\" cannot be followed; leave it out");
    const bool deciding = std::ranges::find(kDeciding, key) != kDeciding.end();
    if (deciding && !decides.empty() && decides != key)
      refuse(path, "\"{}\" beside \"{}\" cannot be followed; keep one of them", key, decides);
    if (deciding) decides = key;
    if (!deciding && key != "type") other = key;
    const bool listed = key == "enum" || key == "anyOf" || key == "oneOf" || key == "allOf";
    if (listed && (!member.value.is(JsonKind::kArray) || member.value.items.empty()))
      refuse(path, "\"{}\" must be a list with something in it", key);
    if (key == "allOf" && member.value.items.size() > 1)
      refuse(path, "\"allOf\" of more than one schema cannot be followed; join them");
  }
  if (!decides.empty() && !other.empty())
    refuse(path, "\"{}\" beside \"{}\" cannot be followed; keep one of them", other, decides);
}

const JsonNode& SchemaDocument::target(const JsonNode& schema, std::string_view path) const {
  const JsonNode& ref = *schema.find("$ref");
  if (!ref.is(JsonKind::kString)) refuse(path, "\"$ref\" must be a string");
  const std::string_view pointer = ref.text;
  if (pointer != "#" && !pointer.starts_with("#/"))
    refuse(path, "\"$ref\" to \"{}\" cannot be followed; refer to a place in this schema, like #/$defs/name",
           pointer);
  const JsonNode* node = &root_;
  for (std::size_t at = 1; at < pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', at + 1), pointer.size());
    node = child(*node, pointer_step(pointer.substr(at + 1, end - at - 1)));
    if (!node) refuse(path, "\"$ref\" points to \"{}\", which is not there", pointer);
    at = end;
  }
  return *node;
}

TypeSet SchemaDocument::own_types(const JsonNode& schema, std::string_view path) const {
  const JsonNode* type = schema.find("type");
  if (!type) {
    TypeSet about = kNoType;
    for (const JsonNode::Member& member : schema.members) {
      const Keyword* keyword = find_keyword(member.key);
      if (keyword && keyword->about != kEveryType) about |= keyword->about;
    }
    return about == kNoType ? kEveryType : about;
  }
  if (type->is(JsonKind::kString)) {
    const TypeSet named = type_named(type->text);
    if (named == kNoType) refuse(path, "there is no type \"{}\"", type->text);
    return named;
  }
  if (!type->is(JsonKind::kArray)) refuse(path, "\"type\" must be a name or a list of names");
  TypeSet named = kNoType;
  for (const JsonNode& item : type->items) {
    if (!item.is(JsonKind::kString) || type_named(item.text) == kNoType)
      refuse(path, "\"type\" must name types only, not {}", item.literal);
    named |= type_named(item.text);
  }
  return named;
}

void SchemaDocument::look(std::string_view path) const {
  if (++looks_ > kMostLooks) refuse(path, "its alternatives refer to each other too often");
}

TypeSet SchemaDocument::types(const JsonNode& schema, std::string_view path, unsigned depth) const {
  if (schema.is(JsonKind::kBoolean)) return schema.is_true() ? kEveryType : kNoType;
  if (depth == kDeepest) return kEveryType;
  look(path);
  const TypeSet own = own_types(schema, path);
  TypeSet inner = kEveryType;
  if (schema.find("$ref")) {
    inner = types(target(schema, path), path, depth + 1);
  } else if (const JsonNode* alternatives = alternatives_of(schema)) {
    inner = kNoType;
    for (const JsonNode& alternative : alternatives->items) inner |= types(alternative, path, depth + 1);
  } else if (const auto values = named_values(schema); !values.empty()) {
    inner = kNoType;
    for (const JsonNode* value : values) inner |= types_of_value(*value);
  }
  return shared_types(own, inner);
}

// Behind references; a chain of more than kDeepest is left as it is.
const JsonNode& SchemaDocument::followed(const JsonNode& schema, std::string_view path) const {
  const JsonNode* node = &schema;
  for (unsigned i = 0; i < kDeepest && node->find("$ref"); ++i) node = &target(*node, path);
  return *node;
}

bool SchemaDocument::are_disjoint(const JsonNode& first, const JsonNode& second, std::string_view path,
                                  unsigned depth) const {
  if (depth == kDeepest) return false;
  look(path);
  const JsonNode& a = followed(first, path);
  const JsonNode& b = followed(second, path);
  const TypeSet shared = shared_types(types(a, path), types(b, path));
  if (shared == kNoType) return true;
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (const JsonNode* alternatives = alternatives_of(*one)) {
      return std::ranges::all_of(alternatives->items, [&, other = other](const JsonNode& alternative) {
        return are_disjoint(alternative, *other, path, depth + 1);
      });
    }
  }
  const auto mine = named_values(a), theirs = named_values(b);
  if (!mine.empty() && !theirs.empty()) {
    return std::ranges::none_of(mine, [&](const JsonNode* value) {
      return std::ranges::any_of(theirs, [&](const JsonNode* other) { return same_value(*value, *other); });
    });
  }
  return shared == kTypeObject && objects_differ(a, b, path, depth);
}

// A member that the one must have and the other must not, or that must have different values.
bool SchemaDocument::objects_differ(const JsonNode& a, const JsonNode& b, std::string_view path,
                                    unsigned depth) const {
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const JsonNode* required = one->find("required");
    if (!required) continue;
    const JsonNode* my_properties = one->find("properties");
    const JsonNode* properties = other->find("properties");
    const JsonNode* additional = other->find("additionalProperties");
    const bool closed = additional && additional->is(JsonKind::kBoolean) && !additional->is_true();
    for (const JsonNode& name : required->items) {
      const JsonNode* theirs = properties ? properties->find(name.text) : nullptr;
      if (!theirs && closed) return true;
      const JsonNode* mine = my_properties ? my_properties->find(name.text) : nullptr;
      if (mine && theirs && are_disjoint(*mine, *theirs, path, depth + 1)) return true;
    }
  }
  return false;
}

std::optional<std::uint32_t> SchemaDocument::count(const JsonNode& schema, std::string_view key,
                                                   std::string_view path) const {
  const JsonNode* value = schema.find(key);
  if (!value) return std::nullopt;
  std::uint32_t number = 0;
  const std::string_view text = value->literal;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number == 0xFFFFFFFF)
    refuse(path, "\"{}\" must be a whole number from 0 on, not {}", key, text);
  return number;
}

NumberRange SchemaDocument::number_range(const JsonNode& schema, bool integers, std::string_view path) const {
  constexpr double kLargest = 1e15;  // where every whole number still is a double
  NumberRange range;
  for (const auto& [key, lower, exclusive] :
       {std::tuple("minimum", true, false), std::tuple("exclusiveMinimum", true, true),
        std::tuple("maximum", false, false), std::tuple("exclusiveMaximum", false, true)}) {
    const JsonNode* value = schema.find(key);
    if (!value) continue;
    if (!value->is(JsonKind::kNumber)) refuse(path, "\"{}\" must be a number", key);
    const double limit = std::strtod(std::string(value->literal).c_str(), nullptr);
    const double inward = lower ? std::ceil(limit) : std::floor(limit);
    if (!(std::abs(limit) <= kLargest) || (inward != limit && !integers))
      refuse(path, "\"{}\" of {} cannot be followed, only whole numbers up to 1e15", key, value->literal);
    const bool open = exclusive && inward == limit;  // rounding has left the limit out already
    auto& end = lower ? range.least : range.most;
    bool& left_out = lower ? range.above_least : range.below_most;
    const auto whole = static_cast<std::int64_t>(inward);
    const bool stricter = !end || (lower ? whole > *end : whole < *end) || (whole == *end && open);
    if (!stricter) continue;
    end = whole;
    left_out = open;
  }
  return range;
}

}  // namespace perigee
