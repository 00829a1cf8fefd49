// Tags from ids: what makes one, what interrupts one, and what never is one.
#include "text/reply_lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/vocabularies.h"

namespace perigee {
namespace {

using ::testing::ElementsAre;

// Events as words: text, +tag, -tag, END, (note).
class Recorder final : public ReplyEvents {
 public:
  void text(std::string_view bytes) override {
    if (in_text_) {
      words.back() += bytes;
      return;
    }
    words.emplace_back(bytes);
    in_text_ = true;
  }
  void tag(const ReplyTag& tag) override {
    tags.push_back(tag);
    add((tag.opens() ? "+" : "-") + std::to_string(static_cast<int>(tag.name())));
  }
  void end() override { add("END"); }
  void note(std::string_view what) override { add("(" + std::string(what) + ")"); }

  std::vector<std::string> words;
  std::vector<ReplyTag> tags;

 private:
  void add(std::string word) {
    words.push_back(std::move(word));
    in_text_ = false;
  }
  bool in_text_ = false;
};

std::string plus(TagName name) {
  return "+" + std::to_string(static_cast<int>(name));
}
std::string minus(TagName name) {
  return "-" + std::to_string(static_cast<int>(name));
}

std::vector<TokenId> markup(const std::string& text) {
  return test::nano_tokenizer().encode_markup(text);
}

Recorder lexed(const std::vector<TokenId>& ids, bool cut = false) {
  ReplyLexer lexer(test::nano_tokenizer().vocabulary());
  Recorder recorder;
  for (const TokenId id : ids) lexer.push(id, recorder);
  lexer.finish(cut, recorder);
  return recorder;
}

std::vector<std::string> words(const std::string& text, bool cut = false) {
  return lexed(markup(text), cut).words;
}

TEST(ReplyLexer, ReadsTagsAndText) {
  EXPECT_THAT(words("a b<|close|>think<|sep|><|open|>response<|sep|>c<|end_of_msg|>"),
              ElementsAre("a b", minus(TagName::kThink), plus(TagName::kResponse), "c", "END"));
}

TEST(ReplyLexer, TakesSpelledMarkersForText) {
  const std::string spelled = "<|close|>think<|sep|>";
  EXPECT_THAT(lexed(test::nano_tokenizer().encode_plain(spelled)).words, ElementsAre(spelled));
}

TEST(ReplyLexer, DropsASeparatorOutsideAHeader) {
  EXPECT_THAT(words("a<|sep|>b"), ElementsAre("a", "(stray_sep)", "b"));
}

TEST(ReplyLexer, CompletesABareKnownTagThatIsInterrupted) {
  EXPECT_THAT(words("<|close|> think<|open|>response<|sep|>"),
              ElementsAre("(sep_missing)", minus(TagName::kThink), plus(TagName::kResponse)));
  EXPECT_THAT(words("<|close|>message<|end_of_msg|>"),
              ElementsAre("(sep_missing)", minus(TagName::kMessage), "END"));
  EXPECT_THAT(words("<|close|>message[EOS]"), ElementsAre("(sep_missing)", minus(TagName::kMessage), "END"));
}

TEST(ReplyLexer, DropsAnyOtherHeaderThatIsInterrupted) {
  EXPECT_THAT(words("<|open|><|open|>tools<|sep|>"), ElementsAre("(header_dropped)", plus(TagName::kTools)));
  EXPECT_THAT(words("<|open|>call tool=\"f\"<|close|>call<|sep|>"),
              ElementsAre("(header_dropped)", minus(TagName::kCall)));
  EXPECT_THAT(words("<|open|>thin<|end_of_msg|>"), ElementsAre("(header_dropped)", "END"));
}

TEST(ReplyLexer, AtTheEndOfIdsACutHeaderIsDroppedAndAFinishedOneCompleted) {
  EXPECT_THAT(words("<|close|>think", true), ElementsAre("(header_cut)"));
  EXPECT_THAT(words("<|close|>think", false), ElementsAre("(sep_missing)", minus(TagName::kThink)));
  EXPECT_THAT(words("a", true), ElementsAre("a"));
}

TEST(ReplyLexer, NamesAreCaseSensitiveAndWhole) {
  for (const char* header : {"Think", "thinking", "thin", "", " ", "think\"", "a think"})
    EXPECT_THAT(words("<|open|>" + std::string(header) + "<|sep|>"), ElementsAre(plus(TagName::kUnknown)))
        << header;
  EXPECT_THAT(words("<|open|>\n think \n<|sep|>"), ElementsAre(plus(TagName::kThink)));
}

TEST(ReplyLexer, ShowsOtherSpecialTokensAsTextAndSkipsUnknownIds) {
  auto ids = markup("a<|media_pad|>");
  ids.push_back(static_cast<TokenId>(test::nano_tokenizer().vocabulary().size()));
  ids.push_back(~TokenId{0});
  EXPECT_THAT(lexed(ids).words,
              ElementsAre("a", "(special_as_text)", "<|media_pad|>", "(unknown_id)", "(unknown_id)"));
}

std::vector<TokenId> header_of(std::size_t ids) {
  auto all = markup("<|open|>");
  all.resize(1 + ids, *test::nano_tokenizer().vocabulary().ordinary("x"));
  return all;
}

TEST(ReplyLexer, AcceptsHeadersOf1024Ids) {
  auto ids = header_of(1024);
  ids.push_back(markup("<|sep|>").at(0));
  const Recorder recorder = lexed(ids);
  EXPECT_THAT(recorder.words, ElementsAre(plus(TagName::kUnknown)));
}

TEST(ReplyLexer, DropsALongerHeaderAndGoesOnWithTheNextId) {
  auto ids = header_of(1025);
  const auto rest = markup("rest<|sep|>");
  ids.insert(ids.end(), rest.begin(), rest.end());
  EXPECT_THAT(lexed(ids).words, ElementsAre("(header_dropped)", "rest", "(stray_sep)"));
}

TEST(ReplyLexer, HeadersAreValidUtf8) {
  auto ids = markup("<|open|>call tool=\"");
  ids.push_back(*test::nano_tokenizer().vocabulary().ordinary("\xC3"));
  const auto rest = markup("f\"<|sep|>");
  ids.insert(ids.end(), rest.begin(), rest.end());
  const Recorder recorder = lexed(ids);
  EXPECT_THAT(recorder.words, ElementsAre("(bad_utf8)", plus(TagName::kCall)));
  EXPECT_EQ(recorder.tags.at(0).attribute("tool"),
            "\xEF\xBF\xBD"
            "f");
}

std::optional<std::string> attribute(const std::string& header, const std::string& key = "k") {
  return ReplyTag(true, header).attribute(key);
}

TEST(ReplyTag, ReadsAttributesInAnyOrder) {
  EXPECT_EQ(attribute("call a=\"1\" k=\"2\" c=\"3\""), "2");
  EXPECT_EQ(attribute("call a=\"1\"k=\"2\""), "2");
  EXPECT_EQ(attribute("call k=\"\""), "");
  EXPECT_EQ(attribute("call k=\"1\" k=\"2\""), "2");
  EXPECT_EQ(attribute("call a=\"k=\" k=\"2\""), "2");
  EXPECT_EQ(attribute("call k=\"1\" a=\"k=\" b=\"2\""), "1");
}

TEST(ReplyTag, HasNoAttributeThatIsNotWritten) {
  EXPECT_EQ(attribute("call"), std::nullopt);
  EXPECT_EQ(attribute("call k='1'"), std::nullopt);
  EXPECT_EQ(attribute("call k=1"), std::nullopt);
  EXPECT_EQ(attribute("call k = \"1\""), std::nullopt);
  EXPECT_EQ(attribute("call k=\"1"), std::nullopt);
  EXPECT_EQ(attribute("call kk=\"1\""), std::nullopt);
  EXPECT_EQ(attribute("call \xC3\xA9k=\"1\""), std::nullopt);
  EXPECT_EQ(attribute("call =\"1\"", ""), std::nullopt);
  EXPECT_EQ(attribute("call a=\" k=\""), std::nullopt);
}

TEST(ReplyTag, UnescapesWhatTheEncoderEscapes) {
  EXPECT_EQ(attribute("call k=\"&quot;&amp;&lt;\""), "\"&&lt;");
  EXPECT_EQ(attribute("call k=\"&amp;quot;\""), "&quot;");
  EXPECT_EQ(attribute("call k=\"&amp;amp;\""), "&amp;");
  EXPECT_EQ(attribute("call k=\"a & b &qu\""), "a & b &qu");
}

}  // namespace
}  // namespace perigee
