// One tag of a reply: what stands between <|open|> or <|close|> and <|sep|> (docs/chat-format.md, "Frames").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace perigee {

enum class TagName : std::uint8_t { kUnknown, kThink, kResponse, kTools, kCall, kArgument, kJson, kMessage };

class ReplyTag {
 public:
  // `header` is valid UTF-8. White space around it does not count.
  ReplyTag(bool opens, std::string header);

  bool opens() const { return opens_; }
  TagName name() const { return name_; }
  bool is(TagName name, bool opens) const { return name_ == name && opens_ == opens; }

  // A known name and nothing else: what may stand without its <|sep|>.
  bool is_bare() const { return name_ != TagName::kUnknown && bare_; }

  // Value of key="value", unescaped; the last one of several with this key.
  std::optional<std::string> attribute(std::string_view key) const;

 private:
  bool opens_;
  bool bare_;
  TagName name_;
  std::string header_;
};

// The name that `header` begins with.
TagName tag_name(std::string_view header);

}  // namespace perigee
