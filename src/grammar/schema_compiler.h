// From a JSON schema to rules for the text of its values: compact JSON, members in the order of "properties",
// and members that the schema does not name only where it says what they may be, or names none. What cannot
// be followed is refused (docs/structured-output.md lists it), so whatever is written is valid.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "grammar/any_json.h"
#include "grammar/schema_document.h"

namespace perigee {

class SchemaCompiler {
 public:
  // Keeps references. `where` names the schema in sentences.
  SchemaCompiler(GrammarBuilder& builder, const JsonWords& words, const AnyJson& any, const JsonNode& root,
                 std::string where);

  const SchemaDocument& document() const { return document_; }

  // The rule for values of `schema` of these types; strings in `form`. It is empty until finish().
  RuleIndex rule(const JsonNode& schema, std::string_view path, TypeSet types = kEveryType,
                 TextForm form = TextForm::kJson);

  struct Member {
    std::string name;
    const JsonNode* schema;  // nullptr: any value
    std::string path;
    bool required;
  };
  // Of an object: those of "properties" in their order, then those that are only required.
  std::vector<Member> members_of(const JsonNode& schema, std::string_view path) const;

  // Writes the rules that were asked for, and those that they ask for.
  void finish();

 private:
  struct Task {  // a rule to be written
    const JsonNode* schema;
    std::string path;
    TypeSet types;
    TextForm form;
    RuleIndex rule;
  };
  using Key = std::tuple<const JsonNode*, TypeSet, TextForm>;

  GrammarPlace body(const Task& task);
  GrammarPlace alternatives(const Task& task, const JsonNode& list, TypeSet types);
  GrammarPlace values(const Task& task, const std::vector<const JsonNode*>& named, TypeSet types);
  GrammarPlace of_types(const Task& task, TypeSet types);
  GrammarPlace number(const Task& task, bool integers);
  GrammarPlace string(const Task& task);
  GrammarPlace own_word(Dfa dfa, GrammarPlace next = GrammarBuilder::kEnd);

  GrammarPlace array(const Task& task);
  GrammarPlace item(const JsonNode* schema, const std::string& path, GrammarPlace next);

  GrammarPlace object(const Task& task);
  GrammarPlace member(const Member& member, std::string_view before, GrammarPlace next);
  GrammarPlace other_member(const Task& task, const std::vector<Member>& members, GrammarPlace next);

  GrammarBuilder& builder_;
  const JsonWords& words_;
  const AnyJson& any_;
  SchemaDocument document_;
  std::map<Key, RuleIndex> rules_;
  std::vector<Task> tasks_;
};

}  // namespace perigee
