#include "grammar/any_json.h"

namespace perigee {
namespace {

constexpr GrammarPlace kEnd = GrammarBuilder::kEnd;

// What stands between the brackets: nothing, or members or items with commas between them. `element` builds
// one in front of what follows it.
template <typename Element>
GrammarPlace in_brackets(GrammarBuilder& builder, std::string_view open, std::string_view close,
                         const Element& element) {
  const GrammarPlace more = builder.loop();
  const GrammarPlace end = builder.text(close, kEnd);
  builder.set_loop(more, {builder.text(",", element(more)), end});
  return builder.text(open, builder.either({element(more), end}));
}

}  // namespace

AnyJson::AnyJson(GrammarBuilder& builder, const JsonWords& words)
    : value_(builder.rule()), object_(builder.rule()), array_(builder.rule()) {
  builder.set_rule(object_, in_brackets(builder, "{", "}", [&](GrammarPlace next) {
                     const GrammarPlace value = builder.text(":", builder.call(value_, next));
                     return builder.word(words.string(TextForm::kJson), value);
                   }));
  builder.set_rule(
      array_, in_brackets(builder, "[", "]", [&](GrammarPlace next) { return builder.call(value_, next); }));
  builder.set_rule(
      value_,
      builder.either({builder.word(words.string(TextForm::kJson), kEnd), builder.word(words.number(), kEnd),
                      builder.word(words.boolean(), kEnd), builder.word(words.null(), kEnd),
                      builder.call(object_, kEnd), builder.call(array_, kEnd)}));
}

}  // namespace perigee
