// Builds the JSON text of a call's arguments while the call is being generated. What is appended is never
// taken back, so the pieces can be streamed; they join to exactly the final text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace perigee {

// One call: begin_argument / append_value / end_argument for each member, or one raw block; then finish.
// The first kind of element decides; elements of the other kind and further raw blocks are ignored (mixed()).
class ArgumentWriter {
 public:
  // type "string" or empty: streams the value JSON-escaped. Any other type: holds it back until it is
  // complete, then writes the literal, without white space around it, if it is valid JSON, else the text as a
  // JSON string.
  void begin_argument(std::string_view key, std::string_view type, std::string& out);
  void begin_raw(std::string& out);  // the block's text goes through verbatim; an empty block is {}

  // Valid UTF-8, whole characters. Ignored while no element is open.
  void append_value(std::string_view text, std::string& out);
  void end_element(std::string& out);

  // Closes an open element and the object. No element at all gives {}.
  void finish(std::string& out);

  bool element_open() const { return element_ != Element::kNone; }
  bool mixed() const { return mixed_; }        // an element was ignored
  bool not_json() const { return not_json_; }  // a literal was not valid JSON and became a string

 private:
  enum class Element { kNone, kString, kLiteral, kRaw, kIgnored };
  enum class Form { kUndecided, kMembers, kRaw };

  void ignore();
  void write_literal(std::string& out);

  Element element_ = Element::kNone;
  Form form_ = Form::kUndecided;
  std::size_t members_ = 0;
  std::size_t raw_bytes_ = 0;
  std::string held_;  // the literal so far
  bool mixed_ = false;
  bool not_json_ = false;
};

}  // namespace perigee
