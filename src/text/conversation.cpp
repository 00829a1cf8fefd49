#include "text/conversation.h"

namespace perigee {

const char* role_name(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
    case Role::kTool:
      return "tool";
  }
  return "";
}

const char* effort_name(Effort effort) {
  switch (effort) {
    case Effort::kLow:
      return "low";
    case Effort::kHigh:
      return "high";
    case Effort::kMax:
      return "max";
  }
  return "";
}

}  // namespace perigee
