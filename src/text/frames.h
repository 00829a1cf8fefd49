// The one place where a prompt's structure is written: opening and closing tags, their attributes, the end of
// a message (docs/chat-format.md, "Frames"). Nothing else in the program makes a Marker, so nothing that
// comes from a client can become one. It knows tags, not what they mean; that is prompt.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "text/prompt.h"

namespace perigee {

class FrameWriter {
 public:
  explicit FrameWriter(std::vector<Segment>& segments) : segments_(segments) {}  // keeps a reference

  // start, attribute…, body: an opening tag with attributes.
  void start(std::string_view tag);
  void attribute(std::string_view key, std::string_view value);
  void body();

  void open(std::string_view tag);  // an opening tag without attributes
  void close(std::string_view tag);
  void end_message();  // closes the message and ends it

  void text(std::string_view text);  // never escaped; nothing for an empty one
  void image(ImageSize size);

 private:
  std::vector<Segment>& segments_;
};

}  // namespace perigee
