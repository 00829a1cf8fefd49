#include <fmt/format.h>
#include <gtest/gtest.h>

#include "grammar/follow.h"
#include "support/expect_error.h"
#include "text/json_tree.h"

namespace perigee {
namespace {

using test::fits;

struct SchemaCase {
  const char* schema;
  std::vector<std::string> valid;  // and compact, with members in the schema's order
  std::vector<std::string> refused;
};

// Written by hand from the JSON Schema specification, draft 2020-12.
const std::vector<SchemaCase>& cases() {
  static const std::vector<SchemaCase> all = {
      {R"({"type":"string"})",
       {R"("")", R"("a é 漢 \" \\ \n \u00e9 \ud83d\ude00 /")"},
       {"", "a", R"("a)", "\"\n\"", R"("\x")", R"("\ud83d")", R"("\ude00")", "\"\xC3\"", "\"\xFF\"", "1"}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("abc")", R"("éé")", R"("\n\u00e9")", R"("\ud83d\ude00x")"},
       {R"("")", R"("a")", R"("abcd")", R"("\n\n\n\n")"}},
      {R"({"type":"string","pattern":"^[a-z]{2,}$","maxLength":3})",
       {R"("ab")", R"("abc")"},
       {R"("a")", R"("abcd")"}},
      {R"({"type":"integer"})", {"0", "-1", "120"}, {"01", "1.5", "1e3", "-", "+1", "\"1\""}},
      {R"({"type":"number"})",
       {"0", "-0.5", "1e9", "12.25E-3", "7"},
       {".5", "1.", "1e", "00", "1e999", "NaN"}},
      {R"({"type":"integer","minimum":-3,"exclusiveMaximum":12})", {"-3", "0", "11"}, {"-4", "12", "1.5"}},
      {R"({"type":"integer","minimum":0.5,"maximum":2.5})", {"1", "2"}, {"0", "3"}},
      {R"({"type":"integer","exclusiveMinimum":0.5,"minimum":0})", {"1", "25"}, {"0", "-1"}},
      {R"({"type":"number","minimum":0,"maximum":1})", {"0", "0.25", "1", "1.0"}, {"-0.1", "1.1", "1e-1"}},
      {R"({"minimum":5})", {"5", "7.5"}, {"4", "null"}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "tru", "True"}},
      {R"({"type":"null"})", {"null"}, {"false", ""}},
      {R"({"type":["integer","null"]})", {"5", "null"}, {"5.5", "true"}},
      {R"({"type":["integer","number"]})", {"5", "5.5"}, {"x"}},
      {R"({"enum":["red",1,null,[1,2],{"b":1,"a":"x"}]})",
       {R"("red")", "1", "null", "[1,2]", R"({"a":"x","b":1})"},
       {"red", "2", "[1, 2]", R"("re")"}},
      {R"({"type":"string","enum":["a","ab",3]})", {R"("a")", R"("ab")"}, {"3", R"("b")"}},
      {R"({"const":"say \"hi\"\n"})", {R"("say \"hi\"\n")"}, {R"("say")"}},
      {R"({"type":"array","items":{"type":"integer"}})",
       {"[]", "[1]", "[1,2,3]"},
       {"[1,]", "[,1]", "[1 ,2]", "[\"a\"]"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1,2,3]"},
       {"[]", "[1]", "[1,2,3,4]"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":2})", {"[1,2]", "[1,2,3,4,5]"}, {"[1]"}},
      {R"({"type":"array","items":{"type":"integer"},"maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"boolean"}})",
       {"[]", "[1]", "[1,\"a\"]", "[1,\"a\",true,false]"},
       {"[\"a\"]", "[1,2]", "[1,\"a\",1]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"minItems":1})",
       {"[1]", "[1,\"a\"]"},
       {"[]", "[1,\"a\",true]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"}]})",
       {"[]", "[1]", "[1,{\"x\":[null]}]"},
       {"[null]"}},
      {R"({"type":"array"})", {"[]", "[1,\"a\",[],{}]"}, {"{}"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a","b"]})",
       {R"({"a":1,"b":"x"})"},
       {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"a":1,"b":"x","c":1})", R"({"a": 1,"b":"x"})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},"required":["b"]})",
       {R"({"b":1})", R"({"a":1,"b":1})", R"({"b":1,"c":1})", R"({"a":1,"b":1,"c":1})"},
       {"{}", R"({"a":1})", R"({"c":1})", R"({,"b":1})"}},
      {R"({"properties":{"a":{"type":"integer"}}})", {"{}", R"({"a":1})"}, {R"({"a":"x"})", "1"}},
      {R"({"type":"object"})", {"{}", R"({"x":1,"y":{"z":[true]}})"}, {"[]", R"({"x"})"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"}})",
       {"{}", R"({"x":1,"y":2})"},
       {R"({"x":"1"})"}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"x":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
       {"{}", R"({"a":1})", R"({"a":1,"b":"x"})", R"({"b":"x"})", R"({"aa":"x","":"y"})"},
       {R"({"a":"x"})", R"({"b":"x","a":1})", R"({"b":1})", R"({"\u0061":"x"})"}},
      {R"({"type":"object","required":["k"],"additionalProperties":{"type":"null"}})",
       {R"({"k":null})", R"({"k":null,"l":null})"},
       {"{}", R"({"l":null})"}},
      {R"({"type":"object","properties":{"né\"e":{"type":"null"}},"required":["né\"e"]})",
       {R"({"né\"e":null})"},
       {R"({"ne":null})"}},
      {R"({"type":"object","properties":{"no":false,"yes":true}})",
       {"{}", R"({"yes":[1]})"},
       {R"({"no":1})"}},
      {R"({"anyOf":[{"type":"integer"},{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]}]})",
       {"3", R"({"a":null})"},
       {"{}", "\"x\""}},
      {R"({"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k","x"]},)"
       R"({"type":"object","properties":{"k":{"const":"b"},"y":{"type":"string"}},"required":["k","y"]}]})",
       {R"({"k":"a","x":1})", R"({"k":"b","y":"z"})"},
       {R"({"k":"a","y":"z"})", R"({"k":"c"})"}},
      {R"({"oneOf":[{"type":"string"},{"type":"integer"}]})", {"\"a\"", "1"}, {"1.5"}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":1}},"required":["k"]},)"
       R"({"type":"object","properties":{"k":{"const":2}},"required":["k"]}]})",
       {R"({"k":1})", R"({"k":2})"},
       {R"({"k":3})"}},
      {R"({"allOf":[{"type":"integer"}]})", {"1"}, {"\"1\""}},
      {R"({"type":"object","oneOf":[{"properties":{"a":{"type":"null"}},"required":["a"],"additionalProperties":false},)"
       R"({"properties":{"b":{"type":"null"}},"required":["b"],"additionalProperties":false}]})",
       {R"({"a":null})", R"({"b":null})"},
       {"{}"}},
      {R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"value":{"type":"integer"},)"
       R"("next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["value","next"]}}})",
       {R"({"value":1,"next":null})", R"({"value":1,"next":{"value":2,"next":{"value":3,"next":null}}})"},
       {R"({"value":1})", R"({"value":1,"next":{"value":2}})"}},
      {R"({"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}}})",
       {"{}", R"({"children":[{},{"children":[]}]})"},
       {R"({"children":[1]})"}},
      {R"({"$ref":"#/$defs/a~1b%25","$defs":{"a/b%":{"type":"null"}}})", {"null"}, {"1"}},
      {R"({"title":"T","description":"D","default":1,"x-vendor":2,"type":"integer","format":"int32"})",
       {"1"},
       {"null"}},
      {"true", {"1", "\"a\"", "[{}]"}, {""}},
      {"{}", {"1", "null", R"({"a":[]})"}, {"[1"}},
  };
  return all;
}

TEST(JsonSchema, AcceptsValidAndRefusesInvalidText) {
  for (const SchemaCase& one : cases()) {
    for (const std::string& text : one.valid)
      EXPECT_TRUE(fits(one.schema, text)) << one.schema << "\n" << text;
    for (const std::string& text : one.refused)
      EXPECT_FALSE(fits(one.schema, text)) << one.schema << "\n" << text;
  }
}

TEST(JsonSchema, WalksOfAllowedTokensEndInValidJson) {
  for (const SchemaCase& one : cases()) {
    const auto grammar = test::nano_grammars().value(one.schema);
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      test::RandomWalk walk(grammar, seed, 40);
      ASSERT_TRUE(walk.finish()) << one.schema << "\n" << walk.text();
      EXPECT_TRUE(is_json_value(walk.text())) << one.schema << "\n" << walk.text();
      EXPECT_TRUE(fits(one.schema, walk.text())) << one.schema << "\n" << walk.text();
    }
  }
}

TEST(JsonSchema, AllowsExactlyTheTokensThatCanBeAccepted) {
  const std::size_t ids = test::nano_tokenizer().vocabulary().size();
  for (const SchemaCase& one : cases()) {
    test::RandomWalk walk(test::nano_grammars().value(one.schema), 9, 12);
    for (int steps = 0; steps < 8; ++steps) {
      std::vector<TokenId> accepted;
      for (TokenId id = 0; id < ids; ++id) {
        Constraint trial = walk.constraint();
        if (trial.accept(id)) accepted.push_back(id);
      }
      ASSERT_EQ(test::allowed_ids(walk.constraint()), accepted) << one.schema << "\nbehind " << walk.text();
      if (!walk.step()) break;
    }
  }
}

TEST(JsonSchema, RefusesKeywordsThatItCannotFollowByName) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {R"({"type":"integer","multipleOf":3})", "\"multipleOf\""},
      {R"({"type":"number","minimum":0.5})", "\"minimum\" of 0.5"},
      {R"({"type":"number","exclusiveMaximum":1e300})", "\"exclusiveMaximum\" of 1e300"},
      {R"({"type":"integer","exclusiveMinimum":true})", "must be a number"},
      {R"({"type":"integer","minimum":3,"maximum":2})", "cannot be met"},
      {R"({"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}})",
       "#/properties/a: the keyword \"uniqueItems\""},
      {R"({"type":"object","patternProperties":{}})", "\"patternProperties\""},
      {R"({"not":{"type":"null"}})", "\"not\""},
      {R"({"if":{},"then":{}})", "\"if\""},
      {R"({"type":"array","contains":{}})", "\"contains\""},
      {R"({"type":"text"})", "no type \"text\""},
      {R"({"type":3})", "\"type\" must be"},
      {R"({"$ref":"other.json"})", "other.json"},
      {R"({"$ref":"#/$defs/missing"})", "which is not there"},
      {R"({"$ref":"#"})", "no value fits"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "refers to itself"},
      {R"({"anyOf":[]})", "\"anyOf\" must be a list"},
      {R"({"allOf":[{"type":"integer"},{"type":"number"}]})", "\"allOf\" of more than one"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "alternatives 0 and 1"},
      {R"({"oneOf":[{"type":"object"},{"type":"object","properties":{"a":{"const":1}}}]})", "may both hold"},
      {R"({"anyOf":[{"type":"integer"}],"minLength":3})", "beside"},
      {R"({"enum":[1],"const":1})", "beside"},
      {R"({"type":"array","items":[{}]})", "prefixItems"},
      {R"({"type":"string","minLength":-1})", "\"minLength\" must be"},
      {R"({"type":"string","minLength":3,"maxLength":2})", "no value fits"},
      {R"({"type":"array","minItems":2,"items":false})", "no value fits"},
      {"false", "no value fits"},
      {R"({"type":"object","properties":{"self":{"$ref":"#"}},"required":["self"]})", "none that ever ends"},
      {R"~({"type":"string","pattern":"(?=x)"})~", "looks around"},
      {R"({"type":"array","maxItems":100000000})", "too large"},
      {"3", "a schema is an object"},
  };
  for (const auto& [schema, words] : refused) {
    SCOPED_TRACE(schema);
    EXPECT_ERROR(test::nano_grammars().value(schema), ErrorCode::kUnsupported, words);
  }
  EXPECT_ERROR(test::nano_grammars().value("{"), ErrorCode::kCorrupt, "schema");
}

TEST(JsonSchema, ARecursiveAlternativeWithoutEndIsLeftOut) {
  const std::string schema =
      R"({"anyOf":[{"$ref":"#/$defs/endless"},{"type":"null"}],"$defs":{"endless":{"type":"array","items":)"
      R"({"$ref":"#/$defs/endless"},"minItems":1}}})";
  EXPECT_TRUE(fits(schema, "null"));
  Constraint constraint(test::nano_grammars().value(schema));
  EXPECT_FALSE(constraint.accept_text("["));
}

TEST(JsonSchema, DeepAndWideSchemasNeitherHangNorOverflow) {
  std::string deep = R"({"type":"null"})";
  for (int i = 0; i < 200; ++i) deep = R"({"type":"array","items":)" + deep + "}";
  EXPECT_TRUE(fits(deep, "[[[]]]"));
  std::string chain = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 5000; ++i) chain += fmt::format(R"("d{}":{{"$ref":"#/$defs/d{}"}},)", i, i + 1);
  chain += R"("d5000":{"type":"null"}}})";
  EXPECT_TRUE(fits(chain, "null"));
  std::string wide = R"({"type":"object","properties":{)";
  for (int i = 0; i < 1000; ++i) wide += fmt::format(R"({}"p{}":{{"type":"null"}})", i ? "," : "", i);
  EXPECT_TRUE(fits(wide + "}}", R"({"p3":null,"p998":null})"));
  std::string tangled = R"({"$ref":"#/$defs/a","$defs":{"a":{"oneOf":[)";
  for (int i = 0; i < 40; ++i) tangled += fmt::format(R"({}{{"$ref":"#/$defs/a"}})", i ? "," : "");
  EXPECT_ERROR(test::nano_grammars().value(tangled + "]}}}"), ErrorCode::kUnsupported, "#");
}

}  // namespace
}  // namespace perigee
