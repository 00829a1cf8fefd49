#include "text/tool_results.h"

#include <algorithm>
#include <unordered_map>

namespace perigee {
namespace {

// The calls of the last assistant message. A call without an id keeps its place; of equal ids the first
// counts.
class Calls {
 public:
  void replace(const Message& assistant) {
    calls_ = assistant.calls;
    by_id_.clear();
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (!calls_[i].id.empty()) by_id_.emplace(calls_[i].id, i);
    }
  }

  // calls_.size() if there is none.
  std::size_t position(const Message& result) const {
    if (!result.call_id) return calls_.size();
    const auto found = by_id_.find(*result.call_id);
    return found == by_id_.end() ? calls_.size() : found->second;
  }

  bool answers(const Message& result) const { return position(result) < calls_.size(); }

  std::string_view name(std::size_t position) const {
    return position < calls_.size() ? std::string_view(calls_[position].name) : std::string_view();
  }

 private:
  std::span<const ToolCall> calls_;
  std::unordered_map<std::string_view, std::size_t> by_id_;
};

std::string_view name_without_call(const Message& result, const Calls& calls, std::size_t index) {
  if (result.tool && !result.tool->empty()) return *result.tool;
  if (!result.name.empty()) return result.name;
  return calls.name(index - 1);
}

// Results are sorted only if every one of the run answers a call; one stray result leaves the whole run as
// it came.
void place_run(std::span<const Message> run, const Calls& calls, std::size_t& index,
               std::vector<PlacedMessage>& placed) {
  const bool all_answer =
      std::all_of(run.begin(), run.end(), [&](const Message& result) { return calls.answers(result); });
  const auto first = static_cast<std::ptrdiff_t>(placed.size());
  for (const Message& result : run) placed.push_back({.message = &result, .tool = {}});
  if (all_answer) {
    std::stable_sort(placed.begin() + first, placed.end(), [&](const auto& a, const auto& b) {
      return calls.position(*a.message) < calls.position(*b.message);
    });
  }
  for (auto result = placed.begin() + first; result != placed.end(); ++result) {
    result->index = ++index;
    result->tool = all_answer ? calls.name(calls.position(*result->message))
                              : name_without_call(*result->message, calls, index);
  }
}

}  // namespace

std::vector<PlacedMessage> place_messages(std::span<const Message> messages) {
  std::vector<PlacedMessage> placed;
  placed.reserve(messages.size());
  Calls calls;
  std::size_t index = 0;
  for (std::size_t i = 0; i < messages.size();) {
    if (messages[i].role == Role::kTool) {
      std::size_t end = i;
      while (end < messages.size() && messages[end].role == Role::kTool) ++end;
      place_run(messages.subspan(i, end - i), calls, index, placed);
      i = end;
      continue;
    }
    if (messages[i].role == Role::kAssistant) {
      calls.replace(messages[i]);
      index = 0;
    }
    placed.push_back({.message = &messages[i++], .tool = {}});
  }
  return placed;
}

}  // namespace perigee
