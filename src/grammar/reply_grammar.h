// Grammars of whole replies (docs/structured-output.md): frames made of special tokens, free text that cannot
// hold them, a response that follows a schema, tool calls whose arguments do. Knows nothing of requests; who
// makes the rules decides what a client's tool_choice and response_format mean.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "grammar/constraint.h"
#include "grammar/json_words.h"
#include "text/chat_tokens.h"
#include "text/reply.h"

namespace perigee {

enum class ResponseForm {
  kText,
  kJsonObject,  // any object
  kJsonSchema,
};

enum class CallPolicy { kForbidden, kAllowed, kRequired };

struct ToolRules {
  enum class Arguments {
    kAny,               // any names, any values
    kSchema,            // of `parameters`; kUnsupported if it cannot be followed
    kSchemaIfPossible,  // kAny if it cannot be followed
  };
  std::string name;
  std::string parameters;  // a JSON schema; may be empty for kAny
  Arguments arguments = Arguments::kAny;
};

struct ReplyRules {
  Channel start = Channel::kThink;  // that the prompt leaves open
  ResponseForm response = ResponseForm::kText;
  std::string schema;  // kJsonSchema
  CallPolicy calls = CallPolicy::kForbidden;
  std::vector<ToolRules> tools;  // that may be called; not empty unless calls are forbidden
  bool one_call = false;         // at most one
};

// Made once for a vocabulary. Any thread.
class ReplyGrammars {
 public:
  // Keeps a reference.
  explicit ReplyGrammars(const Vocabulary& vocabulary);

  // kUnsupported naming the keyword or pattern that cannot be followed, kCorrupt for a schema that is no
  // JSON, kUsage for rules that contradict each other.
  std::shared_ptr<const Grammar> reply(const ReplyRules& rules) const;

  // A JSON value alone, without frames: its end is Constraint::finished(). An empty schema is any object.
  std::shared_ptr<const Grammar> value(const std::string& schema) const;

 private:
  static constexpr std::size_t kMostKept = 32;
  struct Kept {
    std::string rules;
    std::shared_ptr<const Grammar> grammar;
  };

  std::shared_ptr<const Grammar> kept(const std::string& rules) const;
  std::shared_ptr<const Grammar> made(const ReplyRules& rules) const;

  ChatTokens tokens_;
  JsonWords words_;
  mutable std::mutex mutex_;
  mutable std::list<Kept> kept_;  // the latest first
};

}  // namespace perigee
