// Rules for JSON that no schema describes: any value, any object, any array, without white space.
#pragma once

#include "grammar/grammar.h"
#include "grammar/json_words.h"

namespace perigee {

class AnyJson {
 public:
  AnyJson(GrammarBuilder& builder, const JsonWords& words);

  RuleIndex value() const { return value_; }
  RuleIndex object() const { return object_; }
  RuleIndex array() const { return array_; }

 private:
  RuleIndex value_, object_, array_;
};

}  // namespace perigee
