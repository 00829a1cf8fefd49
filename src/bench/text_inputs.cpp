#include "bench/text_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <span>

#include "bench/text_seeds.h"
#include "synth/random.h"

namespace perigee {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view list) {
  Words words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    if (end > 0) words.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

std::string capitalised(std::string word) {
  word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
  return word;
}

// Draws words; each input has a stream of its own, so that a change of one leaves the others as they are.
class Author {
 public:
  explicit Author(std::uint64_t stream) : key_(synth::substream(1, stream)) {}

  std::size_t below(std::size_t limit) { return synth::random_bits(key_, counter_++) % limit; }
  bool one_in(std::size_t n) { return below(n) == 0; }

  // Any of them.
  const std::string& any(const Words& words) { return words[below(words.size())]; }

  // The first ones far more often than the last ones, as in language.
  const std::string& common(const Words& words) { return words[below(below(words.size()) + 1)]; }

  std::string made_up_name() {
    std::string name;
    for (std::size_t parts = 2 + below(3); parts > 0; --parts) name += any(syllables_);
    return capitalised(name);
  }

 private:
  const std::uint64_t key_;
  std::uint64_t counter_ = 0;
  const Words syllables_ = split(seeds::kSyllables);
};

class English {
 public:
  explicit English(std::uint64_t stream) : author_(stream) {}

  std::string paragraph() {
    std::string text;
    for (std::size_t sentences = 2 + author_.below(6); sentences > 0; --sentences) {
      text += sentence();
      text += sentences > 1 ? " " : "\n\n";
    }
    return text;
  }

  std::string sentence() {
    std::string text = capitalised(word());
    for (std::size_t words = 4 + author_.below(18); words > 0; --words) {
      if (author_.one_in(11)) text += ',';
      text += ' ';
      text += word();
    }
    return author_.one_in(12) ? fmt::format("\"{},\" {} {} said.", text, author_.made_up_name(), word())
                              : text + (author_.one_in(9) ? "?" : ".");
  }

 private:
  std::string word() {
    switch (author_.below(16)) {
      case 0:
      case 1:
        return author_.any(verbs_) + ending(kVerbEndings);
      case 2:
      case 3:
        return author_.any(qualities_);
      case 4:
      case 5:
      case 6:
      case 7:
        return author_.common(words_) + ending(kNounEndings);
      case 8:
        return author_.one_in(3) ? author_.made_up_name() : author_.any(words_);
      case 9:
        return author_.one_in(3) ? std::to_string(author_.below(2100)) : author_.common(words_);
      default:
        return author_.common(frequent_);
    }
  }

  static constexpr std::array<const char*, 4> kVerbEndings = {"", "s", "ing", "ed"};
  static constexpr std::array<const char*, 4> kNounEndings = {"", "", "s", "'s"};
  const char* ending(std::span<const char* const> endings) { return endings[author_.below(endings.size())]; }

  Author author_;
  const Words frequent_ = split(seeds::kFrequent);
  const Words words_ = split(seeds::kWords);
  const Words verbs_ = split(seeds::kVerbs);
  const Words qualities_ = split(seeds::kQualities);
};

// Functions in the manner of C++; nothing that would compile.
class Code {
 public:
  explicit Code(std::uint64_t stream) : author_(stream), english_(stream + 1) {}

  std::string function() {
    std::string text = fmt::format("// {}\n{} {}::{}({} {}, {} {}) {{\n", english_.sentence(), type(),
                                   capitalised(noun()), name(), type(), noun(), type(), noun());
    for (std::size_t lines = 2 + author_.below(12); lines > 0; --lines) text += statement();
    return text + fmt::format("  return {}_;\n}}\n\n", noun());
  }

  std::string statement() {
    switch (author_.below(6)) {
      case 0:
        return fmt::format("  for (std::size_t i = 0; i < {}.size(); ++i) {{\n    {}[i] += {};\n  }}\n",
                           noun(), noun(), author_.below(4096));
      case 1:
        return fmt::format("  if ({} == nullptr || {}->{}() > 0x{:X}) return false;\n", noun(), noun(),
                           name(), author_.below(65536));
      case 2:
        return fmt::format("  const {} {} = {}({}, {}_{});\n", type(), noun(), name(), noun(), noun(),
                           noun());
      case 3:
        return fmt::format("  {}_ = std::move({});  // {} {}\n", noun(), noun(), noun(), name());
      case 4:
        return fmt::format("\tlog(\"{} %d: {}\\n\", {}, {}.{:03});\n", noun(), noun(), noun(),
                           author_.below(100), author_.below(1000));
      default:
        return fmt::format("  this->{}(k{}{}, {});\n", name(), capitalised(noun()), capitalised(noun()),
                           noun());
    }
  }

 private:
  const std::string& noun() { return author_.any(nouns_); }
  const std::string& type() { return author_.any(types_); }
  std::string name() { return author_.any(verbs_) + "_" + noun(); }

  Author author_;
  English english_;
  const Words nouns_ = split(seeds::kCodeNouns);
  const Words verbs_ = split(seeds::kCodeVerbs);
  const Words types_ = split(seeds::kCodeTypes);
};

std::string repeat_until(std::size_t bytes, const std::function<std::string()>& next) {
  std::string text;
  while (text.size() < bytes) text += next();
  return text;
}

std::string code_text(std::size_t bytes) {
  Code code(10);
  return repeat_until(bytes, [&code] { return code.function(); });
}

std::string chinese_text(std::size_t bytes) {
  Author author(20);
  const Words words = split(seeds::kChinese);
  return repeat_until(bytes, [&] {
    std::string sentence;
    for (std::size_t count = 4 + author.below(16); count > 0; --count) {
      sentence += author.any(words);
      if (author.one_in(8)) sentence += "\uFF0C";
      if (author.one_in(30)) sentence += std::to_string(author.below(2030));
    }
    return sentence + (author.one_in(5) ? "\uFF1F\n" : "\u3002");
  });
}

// A sentence that can stand between the quotes of JSON.
std::string unquoted_sentence(English& english) {
  std::string sentence = english.sentence();
  std::ranges::replace(sentence, '"', '\'');
  return sentence;
}

std::string json_text(std::size_t bytes) {
  Author author(30);
  English english(31);
  const Words keys = split(seeds::kCodeNouns);
  return repeat_until(bytes, [&] {
    return fmt::format(
        "{{\"id\":{},\"{}\":\"{}\",\"{}_{}\": [{}, {}.{}, -{}e-05, null, true],\n    "
        "\"at\": \"2026-{:02}-{:02}T{:02}:{:02}:00Z\", \"hash\": \"{:016x}\", \"text\": \"{}\\n\"}},\n",
        author.below(1'000'000), author.any(keys), author.made_up_name(), author.any(keys), author.any(keys),
        author.below(100), author.below(100), author.below(100'000), author.below(10), 1 + author.below(12),
        1 + author.below(28), author.below(24), author.below(60), author.below(SIZE_MAX),
        unquoted_sentence(english));
  });
}

std::string base64_text(std::size_t bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Author author(40);
  return repeat_until(bytes, [&] { return std::string(1, kDigits[author.below(kDigits.size())]); });
}

// Source code without its line ends, as minifiers leave it.
std::string long_line_text(std::size_t bytes) {
  Code code(50);
  return repeat_until(bytes, [&code] {
    std::string function = code.function();
    std::erase_if(function, [](char c) { return c == '\n' || c == '\t'; });
    return function;
  });
}

std::string tool_json(std::size_t number, English& english) {
  return fmt::format(
      R"({{"function":{{"description":"{}","name":"tool_{}","parameters":{{"properties":{{"limit":)"
      R"({{"type":"integer"}},"query":{{"description":"{}","type":"string"}}}},"required":["query"],)"
      R"("type":"object"}}}},"type":"function"}})",
      unquoted_sentence(english), number, unquoted_sentence(english));
}

Message text_message(Role role, std::string text) {
  Message message;
  message.role = role;
  message.content.push_back({std::move(text), std::nullopt});
  return message;
}

ToolCall search_call(std::string id, English& english) {
  return {
      std::move(id),
      "tool_0",
      {{{"query", JsonKind::kString, english.sentence()}, {"limit", JsonKind::kNumber, "10"}}, std::nullopt}};
}

}  // namespace

std::string english_text(std::size_t bytes) {
  English english(0);
  return repeat_until(bytes, [&english] { return english.paragraph(); });
}

std::vector<TextInput> make_text_inputs(std::size_t bytes) {
  return {{"english", english_text(bytes)}, {"code", code_text(bytes)},
          {"chinese", chinese_text(bytes)}, {"json", json_text(bytes)},
          {"base64", base64_text(bytes)},   {"long-line", long_line_text(bytes)}};
}

std::vector<TextInput> make_worst_cases(std::size_t bytes) {
  const auto again = [bytes](const std::string& part) {
    return repeat_until(bytes, [&part] { return part; });
  };
  return {{"letter", again("a")},
          {"spaces", again(" ")},
          {"marks", again("\u0301")},
          {"half-markers", again("<|")}};
}

Conversation make_long_conversation(std::size_t messages, std::size_t tools) {
  English english(60);
  Conversation conversation;
  conversation.effort = Effort::kMax;
  for (std::size_t tool = 0; tool < tools; ++tool) {
    conversation.tools_json += (tool == 0 ? "[" : ",") + tool_json(tool, english);
    conversation.tool_names.push_back(fmt::format("tool_{}", tool));
  }
  if (tools > 0) conversation.tools_json += ']';
  conversation.messages.push_back(text_message(Role::kSystem, english.paragraph()));
  while (conversation.messages.size() + 4 <= messages) {
    const std::string id = fmt::format("call_{}", conversation.messages.size());
    conversation.messages.push_back(text_message(Role::kUser, english.paragraph()));
    Message asking = text_message(Role::kAssistant, english.sentence());
    asking.reasoning = english.paragraph();
    asking.calls.push_back(search_call(id, english));
    conversation.messages.push_back(std::move(asking));
    Message result = text_message(Role::kTool, english.paragraph());
    result.call_id = id;
    conversation.messages.push_back(std::move(result));
    Message answer = text_message(Role::kAssistant, english.paragraph());
    answer.reasoning = english.sentence();
    conversation.messages.push_back(std::move(answer));
  }
  while (conversation.messages.size() < messages) {
    conversation.messages.push_back(text_message(Role::kUser, english.paragraph()));
  }
  return conversation;
}

Message make_long_reply(std::size_t parts) {
  English english(70);
  Message reply = text_message(Role::kAssistant, "");
  for (std::size_t part = 0; part < parts; ++part) {
    reply.reasoning += english.paragraph();
    reply.content.front().text += english.paragraph();
    reply.calls.push_back(search_call(fmt::format("tool_0_{}", part), english));
  }
  return reply;
}

}  // namespace perigee
