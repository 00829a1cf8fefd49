// Reads a file of expected values strictly: a field that is missing or of another kind is kCorrupt with file,
// case and field, because a check that skips what it cannot read proves nothing.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/json_tree.h"
#include "text/vocabulary.h"

namespace perigee {

// One object of a golden file, with its place for error sentences. Points into the file's tree.
class Golden {
 public:
  // kCorrupt if `node` is no object.
  Golden(const JsonNode& node, std::string place);

  const std::string& place() const { return place_; }  // "prompts.json: cases[3] (E3b)"

  std::vector<std::string> fields() const;  // their names, in order
  bool has(std::string_view field) const { return node_->find(field) != nullptr; }
  const JsonNode& field(std::string_view field) const;
  Golden object(std::string_view field) const;
  const std::string& text(std::string_view field) const;
  std::optional<std::string> text_or_null(std::string_view field) const;
  std::size_t number(std::string_view field) const;
  // `preset` if the field is missing.
  bool flag(std::string_view field, bool preset) const;
  std::vector<TokenId> ids(std::string_view field) const;
  std::vector<double> reals(std::string_view field) const;
  std::vector<std::string> texts(std::string_view field) const;
  std::vector<Golden> objects(std::string_view field) const;
  // Of all arrays of objects in this object: those that have both "text" and "ids".
  std::vector<Golden> objects_with_ids() const;
  // The case's "name", else its place in the array.
  const std::string& name() const { return name_; }

 private:
  Golden(const JsonNode& node, std::string place, std::string name);
  const JsonNode& field_of_kind(std::string_view field, JsonKind kind) const;

  const JsonNode* node_;
  std::string place_;
  std::string name_;
};

// A whole golden file; the tree lives as long as this object.
class GoldenFile {
 public:
  static GoldenFile read(const std::filesystem::path& path);
  const Golden& root() const { return root_; }

 private:
  GoldenFile(JsonTree tree, const std::string& name);
  JsonTree tree_;
  Golden root_;
};

}  // namespace perigee
