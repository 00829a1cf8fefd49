// Two harmless tools for `perigee chat`, so that a model's calls can be seen at work. They read nothing but
// their arguments and the clock.
#pragma once

#include <string>
#include <vector>

#include "text/reply.h"

namespace perigee {

const std::string& demo_tools_json();  // sorted and compact, as a prompt shows tools
std::vector<std::string> demo_tool_names();

// What the tool answers; for a call that makes no sense, a sentence that says why.
std::string call_demo_tool(const ReplyCall& call);

}  // namespace perigee
