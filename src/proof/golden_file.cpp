#include "proof/golden_file.h"

#include <charconv>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/file.h"

namespace perigee {
namespace {

constexpr std::uint64_t kMaxFileBytes = 256ULL << 20;

std::size_t number_of(const JsonNode& node, std::size_t limit, const std::string& place) {
  std::size_t value = 0;
  const char* end = node.literal.data() + node.literal.size();
  const auto parsed = std::from_chars(node.literal.data(), end, value);
  if (!node.is(JsonKind::kNumber) || parsed.ec != std::errc() || parsed.ptr != end || value > limit) {
    fail(ErrorCode::kCorrupt, "{} must be a whole number of at most {}", place, limit);
  }
  return value;
}

std::string name_or(const JsonNode& node, const std::string& otherwise) {
  const JsonNode* name = node.find("name");
  return name != nullptr && name->is(JsonKind::kString) ? name->text : otherwise;
}

}  // namespace

Golden::Golden(const JsonNode& node, std::string place) : Golden(node, place, place) {}

Golden::Golden(const JsonNode& node, std::string place, std::string name)
    : node_(&node), place_(std::move(place)), name_(std::move(name)) {
  if (!node.is(JsonKind::kObject)) fail(ErrorCode::kCorrupt, "{} must be an object", place_);
}

const JsonNode& Golden::field(std::string_view field) const {
  const JsonNode* found = node_->find(field);
  if (found == nullptr) fail(ErrorCode::kCorrupt, "{} has no \"{}\"", place_, field);
  return *found;
}

const JsonNode& Golden::field_of_kind(std::string_view name, JsonKind kind) const {
  const JsonNode& found = field(name);
  if (!found.is(kind)) {
    fail(ErrorCode::kCorrupt, "{}: \"{}\" must be of kind {}", place_, name, json_kind_name(kind));
  }
  return found;
}

Golden Golden::object(std::string_view field) const {
  return {field_of_kind(field, JsonKind::kObject), fmt::format("{}: {}", place_, field), name_};
}

const std::string& Golden::text(std::string_view field) const {
  return field_of_kind(field, JsonKind::kString).text;
}

std::optional<std::string> Golden::text_or_null(std::string_view field) const {
  if (this->field(field).is(JsonKind::kNull)) return std::nullopt;
  return text(field);
}

std::size_t Golden::number(std::string_view field) const {
  return number_of(this->field(field), std::numeric_limits<std::uint32_t>::max(),
                   fmt::format("{}: \"{}\"", place_, field));
}

bool Golden::flag(std::string_view field, bool preset) const {
  return has(field) ? field_of_kind(field, JsonKind::kBoolean).is_true() : preset;
}

std::vector<TokenId> Golden::ids(std::string_view field) const {
  std::vector<TokenId> ids;
  for (const JsonNode& item : field_of_kind(field, JsonKind::kArray).items) {
    const std::string place = fmt::format("{}: {}[{}]", place_, field, ids.size());
    ids.push_back(static_cast<TokenId>(number_of(item, std::numeric_limits<TokenId>::max(), place)));
  }
  return ids;
}

std::vector<double> Golden::reals(std::string_view field) const {
  std::vector<double> reals;
  for (const JsonNode& item : field_of_kind(field, JsonKind::kArray).items) {
    double value = 0;
    const char* end = item.literal.data() + item.literal.size();
    const auto parsed = std::from_chars(item.literal.data(), end, value);
    if (!item.is(JsonKind::kNumber) || parsed.ec != std::errc() || parsed.ptr != end)
      fail(ErrorCode::kCorrupt, "{}: {}[{}] must be a number", place_, field, reals.size());
    reals.push_back(value);
  }
  return reals;
}

std::vector<std::string> Golden::fields() const {
  std::vector<std::string> names;
  for (const JsonNode::Member& member : node_->members) names.push_back(member.key);
  return names;
}

std::vector<std::string> Golden::texts(std::string_view field) const {
  std::vector<std::string> texts;
  for (const JsonNode& item : field_of_kind(field, JsonKind::kArray).items) {
    if (!item.is(JsonKind::kString)) {
      fail(ErrorCode::kCorrupt, "{}: {}[{}] must be a string", place_, field, texts.size());
    }
    texts.push_back(item.text);
  }
  return texts;
}

std::vector<Golden> Golden::objects(std::string_view field) const {
  std::vector<Golden> objects;
  for (const JsonNode& item : field_of_kind(field, JsonKind::kArray).items) {
    const std::string index = fmt::format("{}[{}]", field, objects.size());
    const std::string name = name_or(item, index);
    const std::string place = fmt::format("{}: {}", place_, index);
    objects.push_back(Golden(item, name == index ? place : fmt::format("{} ({})", place, name), name));
  }
  return objects;
}

std::vector<Golden> Golden::objects_with_ids() const {
  std::vector<Golden> found;
  for (const auto& [field, value] : node_->members) {
    if (value.items.empty() || !value.items.front().is(JsonKind::kObject)) continue;
    for (Golden& golden : objects(field)) {
      if (golden.has("text") && golden.has("ids")) found.push_back(std::move(golden));
    }
  }
  return found;
}

GoldenFile GoldenFile::read(const std::filesystem::path& path) {
  return {JsonTree::parse(read_small_file(path, kMaxFileBytes), path.string()), path.string()};
}

GoldenFile::GoldenFile(JsonTree tree, const std::string& name)
    : tree_(std::move(tree)), root_(tree_.root(), name) {}

}  // namespace perigee
