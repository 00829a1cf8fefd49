#include "text/reply.h"

namespace perigee {

const char* channel_name(Channel channel) {
  switch (channel) {
    case Channel::kIdle:
      return "idle";
    case Channel::kThink:
      return "think";
    case Channel::kResponse:
      return "response";
  }
  return "";
}

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kToolCalls:
      return "tool_calls";
  }
  return "";
}

}  // namespace perigee
