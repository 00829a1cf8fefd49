// A JSON schema as sent (draft 2020-12): which of its keywords can be followed, what its references mean,
// what types a value may have and whether two alternatives exclude each other. Makes no grammar
// (schema_compiler.h).
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/number_range.h"
#include "grammar/schema_types.h"

namespace perigee {

class SchemaDocument {
 public:
  // Keeps a reference to the root; `where` names the schema in sentences.
  SchemaDocument(const JsonNode& root, std::string where) : root_(root), where_(std::move(where)) {}

  const JsonNode& root() const { return root_; }

  // throw Error(kUnsupported, "<where> at <path>: <formatted rest>"); paths are like #/properties/city
  template <typename... Args>
  [[noreturn]] void refuse(std::string_view path, fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kUnsupported, "{} at {}: {}", where_, path,
         fmt::format(format, std::forward<Args>(args)...));
  }
  std::string place(std::string_view path) const { return fmt::format("{} at {}", where_, path); }

  // Refuses keywords that cannot be followed, and those that cannot be followed beside each other.
  void check(const JsonNode& schema, std::string_view path) const;

  // What "$ref" of `schema` points to.
  const JsonNode& target(const JsonNode& schema, std::string_view path) const;

  // The types that the "type" of this schema names; of other keywords' presence follows what it is about.
  // Every type if nothing says otherwise.
  TypeSet own_types(const JsonNode& schema, std::string_view path) const;
  // Types that a value may have at most, through references and alternatives.
  TypeSet types(const JsonNode& schema, std::string_view path, unsigned depth = 0) const;

  // Can it be shown that no value belongs to both?
  bool are_disjoint(const JsonNode& a, const JsonNode& b, std::string_view path, unsigned depth = 0) const;

  // A keyword's value that must be a whole number of at least 0.
  std::optional<std::uint32_t> count(const JsonNode& schema, std::string_view key,
                                     std::string_view path) const;
  // "minimum" and its kin. Limits of numbers must be whole; those of integers are rounded inwards.
  NumberRange number_range(const JsonNode& schema, bool integers, std::string_view path) const;

 private:
  static constexpr unsigned kDeepest = 16;  // of what is looked through for types and differences

  const JsonNode& followed(const JsonNode& schema, std::string_view path) const;
  bool objects_differ(const JsonNode& a, const JsonNode& b, std::string_view path, unsigned depth) const;

  // Alternatives of alternatives can be more than anybody can look through.
  static constexpr std::size_t kMostLooks = 200'000;
  void look(std::string_view path) const;

  const JsonNode& root_;
  std::string where_;
  mutable std::size_t looks_ = 0;
};

// The alternatives of "anyOf" or "oneOf"; nullptr if it has neither.
const JsonNode* alternatives_of(const JsonNode& schema);
// The values that "enum" or "const" names; empty if it has neither.
std::vector<const JsonNode*> named_values(const JsonNode& schema);
bool requires_member(const JsonNode& schema, std::string_view name);

}  // namespace perigee
