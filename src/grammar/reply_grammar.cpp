#include "grammar/reply_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "grammar/reply_frames.h"
#include "grammar/schema_compiler.h"
#include "grammar/tool_grammar.h"
#include "text/json_tree.h"

namespace perigee {
namespace {

constexpr GrammarPlace kEnd = GrammarBuilder::kEnd;
constexpr const char* kSchemaName = "the schema of response_format";

// A schema while it is being compiled.
class SchemaRule {
 public:
  SchemaRule(GrammarBuilder& builder, const JsonWords& words, const AnyJson& any, const std::string& schema)
      : tree_(JsonTree::parse(schema, kSchemaName)),
        compiler_(builder, words, any, tree_.root(), kSchemaName) {}

  RuleIndex compile() {
    const RuleIndex rule = compiler_.rule(tree_.root(), "#");
    compiler_.finish();
    return rule;
  }

 private:
  JsonTree tree_;
  SchemaCompiler compiler_;
};

void check_rules(const ReplyRules& rules) {
  if (rules.calls != CallPolicy::kForbidden && rules.tools.empty())
    fail(ErrorCode::kUsage, "a reply may call tools, but none are declared");
}

// All of the rules as one string; no two rules share one.
std::string name_of(const ReplyRules& rules) {
  std::string name =
      fmt::format("{} {} {} {} {}:{}", static_cast<int>(rules.start), static_cast<int>(rules.response),
                  static_cast<int>(rules.calls), rules.one_call, rules.schema.size(), rules.schema);
  for (const ToolRules& tool : rules.tools) {
    name += fmt::format(" {} {}:{} {}:{}", static_cast<int>(tool.arguments), tool.name.size(), tool.name,
                        tool.parameters.size(), tool.parameters);
  }
  return name;
}

GrammarPlace response_body(GrammarBuilder& builder, const JsonWords& words, const AnyJson& any,
                           const ReplyRules& rules, GrammarPlace next) {
  switch (rules.response) {
    case ResponseForm::kJsonObject:
      return builder.call(any.object(), next);
    case ResponseForm::kJsonSchema:
      return builder.call(SchemaRule(builder, words, any, rules.schema).compile(), next);
    case ResponseForm::kText:
      break;
  }
  return builder.word(words.bytes(), next);
}

}  // namespace

ReplyGrammars::ReplyGrammars(const Vocabulary& vocabulary)
    : tokens_(find_chat_tokens(vocabulary)), words_(std::make_shared<const TokenTrie>(vocabulary)) {}

std::shared_ptr<const Grammar> ReplyGrammars::kept(const std::string& rules) const {
  const std::scoped_lock lock(mutex_);
  const auto place = std::ranges::find(kept_, rules, &Kept::rules);
  if (place == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, place);
  return kept_.front().grammar;
}

std::shared_ptr<const Grammar> ReplyGrammars::reply(const ReplyRules& rules) const {
  std::string name = name_of(rules);
  if (auto grammar = kept(name)) return grammar;
  auto grammar = made(rules);
  const std::scoped_lock lock(mutex_);
  kept_.push_front({std::move(name), grammar});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return grammar;
}

// From the end to the beginning.
std::shared_ptr<const Grammar> ReplyGrammars::made(const ReplyRules& rules) const {
  check_rules(rules);
  GrammarBuilder builder(words_.trie(), "the form of the reply");
  const AnyJson any(builder, words_);
  const ReplyFrames frames(builder, tokens_);
  ToolGrammar tools(builder, words_, any, frames);
  const GrammarPlace end = frames.close("message", frames.end_of_message(kEnd));
  GrammarPlace after = end;
  if (rules.calls != CallPolicy::kForbidden) after = tools.block(rules, end);
  if (rules.calls == CallPolicy::kAllowed) after = builder.either({after, end});
  const GrammarPlace response = response_body(builder, words_, any, rules, frames.close("response", after));
  tools.finish();
  GrammarPlace place = response;
  if (rules.start != Channel::kResponse) place = frames.open("response", response);
  if (rules.start == Channel::kThink) place = builder.word(words_.bytes(), frames.close("think", place));
  const RuleIndex root = builder.rule();
  builder.set_rule(root, place);
  return builder.finish(root);
}

std::shared_ptr<const Grammar> ReplyGrammars::value(const std::string& schema) const {
  GrammarBuilder builder(words_.trie(), kSchemaName);
  const AnyJson any(builder, words_);
  RuleIndex root = any.object();
  if (!schema.empty()) root = SchemaRule(builder, words_, any, schema).compile();
  return builder.finish(root);
}

}  // namespace perigee
