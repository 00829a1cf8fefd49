#include "grammar/tool_grammar.h"

#include <array>
#include <string>
#include <utility>

#include "base/error.h"

namespace perigee {
namespace {

struct TypeWord {
  const char* word;  // as a header writes it; integers are numbers there
  TypeSet types;
};

constexpr std::array<TypeWord, 6> kTypeWords = {{{"string", kTypeString},
                                                 {"number", kTypeNumber | kTypeInteger},
                                                 {"boolean", kTypeBoolean},
                                                 {"null", kTypeNull},
                                                 {"object", kTypeObject},
                                                 {"array", kTypeArray}}};

std::string attribute(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '"')
      escaped += "&quot;";
    else
      escaped += c;
  }
  return escaped;
}

std::string call_header(const ToolRules& tool) {
  return "call tool=\"" + attribute(tool.name) + "\" index=\"";
}

}  // namespace

GrammarPlace ToolGrammar::block(const ReplyRules& rules, GrammarPlace next) {
  const GrammarPlace end = frames_.close("tools", next);
  const GrammarPlace more = rules.one_call ? end : builder_.loop();
  std::vector<GrammarPlace> firsts, others = {end};
  for (const ToolRules& tool : rules.tools) {
    const RuleIndex rest = call_rest(tool);
    const auto call = [&](const auto& index) {
      const GrammarPlace behind = builder_.text("\"", frames_.end_of_header(builder_.call(rest, more)));
      return frames_.begin(call_header(tool), index(behind));
    };
    firsts.push_back(call([&](GrammarPlace behind) { return builder_.text("1", behind); }));
    if (!rules.one_call)
      others.push_back(call([&](GrammarPlace behind) { return builder_.word(words_.position(), behind); }));
  }
  if (!rules.one_call) builder_.set_loop(more, std::move(others));
  return frames_.open("tools", builder_.either(std::move(firsts)));
}

// What stands behind a call's header.
RuleIndex ToolGrammar::call_rest(const ToolRules& tool) {
  const RuleIndex rest = builder_.rule();
  builder_.set_rule(rest, arguments(tool, frames_.close("call", GrammarBuilder::kEnd)));
  return rest;
}

GrammarPlace ToolGrammar::arguments(const ToolRules& tool, GrammarPlace next) {
  switch (tool.arguments) {
    case ToolRules::Arguments::kSchema:
      return schema_arguments(tool, next);
    case ToolRules::Arguments::kSchemaIfPossible:
      return can_follow(tool) ? schema_arguments(tool, next) : any_arguments(next);
    case ToolRules::Arguments::kAny:
      break;
  }
  return any_arguments(next);
}

GrammarPlace ToolGrammar::value_of_type(TypeSet type, GrammarPlace next) {
  if (type & kTypeString) return builder_.word(words_.string(TextForm::kRaw), next);
  if (type & kTypeNumber) return builder_.word(words_.number(), next);
  if (type & kTypeBoolean) return builder_.word(words_.boolean(), next);
  if (type & kTypeNull) return builder_.word(words_.null(), next);
  return builder_.call(type & kTypeObject ? any_.object() : any_.array(), next);
}

GrammarPlace ToolGrammar::any_arguments(GrammarPlace next) {
  const GrammarPlace more = builder_.loop();
  const GrammarPlace end = frames_.close("argument", more);
  std::vector<GrammarPlace> typed;
  for (const TypeWord& type : kTypeWords) {
    const std::string rest = std::string("\" type=\"") + type.word + '"';
    typed.push_back(builder_.text(rest, frames_.end_of_header(value_of_type(type.types, end))));
  }
  const GrammarPlace key = builder_.word(words_.attribute(), builder_.either(std::move(typed)));
  builder_.set_loop(more, {frames_.begin("argument key=\"", key), next});
  return more;
}

GrammarPlace ToolGrammar::schema_arguments(const ToolRules& tool, GrammarPlace next) {
  const std::string where = "the parameters of tool " + tool.name;
  const JsonTree& tree = schemas_.emplace_back(JsonTree::parse(tool.parameters, where));
  SchemaCompiler& compiler = compilers_.emplace_back(builder_, words_, any_, tree.root(), where);
  const SchemaDocument& document = compiler.document();
  const JsonNode* root = &tree.root();
  document.check(*root, "#");
  if (root->find("$ref")) {
    root = &document.target(*root, "#");
    document.check(*root, "#");
  }
  if (root->is(JsonKind::kBoolean) && root->is_true()) return any_arguments(next);
  if (!(document.own_types(*root, "#") & kTypeObject) || alternatives_of(*root) || root->find("$ref") ||
      !named_values(*root).empty())
    document.refuse("#",
                    "the arguments of a tool are an object whose members are listed under \"properties\"");
  const std::vector<SchemaCompiler::Member> members = compiler.members_of(*root, "#");
  const JsonNode* additional = root->find("additionalProperties");
  const bool closed = additional && additional->is(JsonKind::kBoolean) && !additional->is_true();
  if (members.empty() && !closed) return any_arguments(next);
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    const GrammarPlace written = argument(compiler, *member, next);
    next = member->required ? written : builder_.either({written, next});
  }
  return next;
}

// One alternative for each type that the value may have, because the header names it.
GrammarPlace ToolGrammar::argument(SchemaCompiler& compiler, const SchemaCompiler::Member& member,
                                   GrammarPlace next) {
  const GrammarPlace end = frames_.close("argument", next);
  const TypeSet types = member.schema ? compiler.document().types(*member.schema, member.path) : kEveryType;
  std::vector<GrammarPlace> typed;
  for (const TypeWord& type : kTypeWords) {
    if (shared_types(types, type.types) == kNoType) continue;
    const TextForm form = type.types == kTypeString ? TextForm::kRaw : TextForm::kJson;
    const GrammarPlace value =
        member.schema ? builder_.call(compiler.rule(*member.schema, member.path, type.types, form), end)
                      : value_of_type(type.types, end);
    typed.push_back(builder_.text(std::string(type.word) + '"', frames_.end_of_header(value)));
  }
  return frames_.begin("argument key=\"" + attribute(member.name) + "\" type=\"",
                       builder_.either(std::move(typed)));
}

void ToolGrammar::finish() {
  for (SchemaCompiler& compiler : compilers_) compiler.finish();
}

// Tried in a grammar of its own, because nothing can be taken out of one again.
bool ToolGrammar::can_follow(const ToolRules& tool) const {
  GrammarBuilder builder(words_.trie(), "the arguments of a tool");
  const AnyJson any(builder, words_);
  try {
    const ReplyFrames frames(frames_, builder);
    ToolGrammar trial(builder, words_, any, frames);
    const RuleIndex root = builder.rule();
    builder.set_rule(root, trial.schema_arguments(tool, GrammarBuilder::kEnd));
    trial.finish();
    builder.finish(root);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return false;
  }
}

}  // namespace perigee
