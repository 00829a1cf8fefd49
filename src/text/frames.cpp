#include "text/frames.h"

#include <string>

namespace perigee {
namespace {

// Only what would end the attribute is escaped; `<`, `>` and markers stay, they are plain text here.
std::string escaped(std::string_view value) {
  std::string out;
  out.reserve(value.size());
  for (const char c : value) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void FrameWriter::start(std::string_view tag) {
  segments_.emplace_back(Marker::kOpen);
  text(tag);
}

// ` role`, `="`, the value and `"` are four segments: joined they would be other ids.
void FrameWriter::attribute(std::string_view key, std::string_view value) {
  std::string spaced_key = " ";
  spaced_key += key;
  segments_.emplace_back(std::move(spaced_key));
  text("=\"");
  text(escaped(value));
  text("\"");
}

void FrameWriter::body() {
  segments_.emplace_back(Marker::kSep);
}

void FrameWriter::open(std::string_view tag) {
  start(tag);
  body();
}

void FrameWriter::close(std::string_view tag) {
  segments_.emplace_back(Marker::kClose);
  text(tag);
  body();
}

void FrameWriter::end_message() {
  close("message");
  segments_.emplace_back(Marker::kEndOfMessage);
}

void FrameWriter::text(std::string_view text) {
  if (!text.empty()) segments_.emplace_back(std::in_place_type<std::string>, text);
}

void FrameWriter::image(ImageSize size) {
  segments_.emplace_back(size);
}

}  // namespace perigee
