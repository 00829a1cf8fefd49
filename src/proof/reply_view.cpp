#include "proof/reply_view.h"

#include <fmt/format.h>

namespace perigee {
namespace {

std::string text_or_null(const std::optional<std::string>& text) {
  return text ? fmt::format("\"{}\"", *text) : "null";
}

}  // namespace

ReplyView view_of(const ReplyMessage& message) {
  return {message.reasoning, message.content, message.calls, finish_reason_name(message.finish)};
}

ReplyView without_nulls(ReplyView view) {
  view.reasoning = view.reasoning.value_or("");
  view.content = view.content.value_or("");
  return view;
}

std::string describe(const ReplyView& view) {
  std::string text = fmt::format("reasoning_content: {}\ncontent: {}\n", text_or_null(view.reasoning),
                                 text_or_null(view.content));
  for (const ReplyCall& call : view.calls) {
    text += fmt::format("call {} {}: {}\n", call.id, call.name, call.arguments);
  }
  return text + "finish_reason: " + view.finish_reason;
}

}  // namespace perigee
