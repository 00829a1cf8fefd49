// Tool calls in the form that K3 writes them: an element for each argument, its key and type in the header,
// strings raw, all else as JSON (docs/chat-format.md, "Frames").
#pragma once

#include <list>
#include <vector>

#include "grammar/reply_frames.h"
#include "grammar/reply_grammar.h"
#include "grammar/schema_compiler.h"
#include "text/json_tree.h"

namespace perigee {

class ToolGrammar {
 public:
  // Keeps references.
  ToolGrammar(GrammarBuilder& builder, const JsonWords& words, const AnyJson& any, const ReplyFrames& frames)
      : builder_(builder), words_(words), any_(any), frames_(frames) {}

  // The whole block with one call or more, then `next`.
  GrammarPlace block(const ReplyRules& rules, GrammarPlace next);

  // Writes the rules of the schemas; once, behind the last block().
  void finish();

 private:
  RuleIndex call_rest(const ToolRules& tool);
  GrammarPlace arguments(const ToolRules& tool, GrammarPlace next);
  GrammarPlace any_arguments(GrammarPlace next);
  GrammarPlace schema_arguments(const ToolRules& tool, GrammarPlace next);
  GrammarPlace argument(SchemaCompiler& compiler, const SchemaCompiler::Member& member, GrammarPlace next);
  GrammarPlace value_of_type(TypeSet type, GrammarPlace next);
  bool can_follow(const ToolRules& tool) const;

  GrammarBuilder& builder_;
  const JsonWords& words_;
  const AnyJson& any_;
  const ReplyFrames& frames_;
  std::list<JsonTree> schemas_;
  std::list<SchemaCompiler> compilers_;  // of schemas_
};

}  // namespace perigee
