#include "text/stop_strings.h"

#include <algorithm>

#include "text/utf8.h"

namespace perigee {

StopStrings::StopStrings(std::span<const std::string> strings) {
  for (const std::string& string : strings)
    if (!string.empty() && is_valid_utf8(string)) insert(string);
  link();
}

std::uint32_t StopStrings::child(std::uint32_t node, unsigned char byte) const {
  if (node == 0) return from_root_[byte];
  std::uint32_t at = nodes_[node].first_child;
  while (at != 0 && nodes_[at].byte != byte) at = nodes_[at].next_sibling;
  return at;
}

std::uint32_t StopStrings::step(std::uint32_t node, unsigned char byte) const {
  for (;;) {
    const std::uint32_t next = child(node, byte);
    if (next != 0 || node == 0) return next;
    node = nodes_[node].fail;
  }
}

void StopStrings::insert(std::string_view string) {
  std::uint32_t node = 0;
  for (const char c : string) {
    const auto byte = static_cast<unsigned char>(c);
    std::uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back(
          {.next_sibling = nodes_[node].first_child, .depth = nodes_[node].depth + 1, .byte = byte});
      nodes_[node].first_child = next;
      if (node == 0) from_root_[byte] = next;
    }
    node = next;
  }
  nodes_[node].match = nodes_[node].depth;
}

// Breadth first, so that the node of a suffix is finished before the nodes that point to it.
void StopStrings::link() {
  std::vector<std::uint32_t> queue = {0};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const std::uint32_t parent = queue[i];
    for (std::uint32_t at = nodes_[parent].first_child; at != 0; at = nodes_[at].next_sibling) {
      Node& node = nodes_[at];
      node.fail = parent == 0 ? 0 : step(nodes_[parent].fail, node.byte);
      node.match = std::max(node.match, nodes_[node.fail].match);
      queue.push_back(at);
    }
  }
}

// A string may end at `end`. Of several that do, the longest starts first.
void StopStrings::find(std::size_t end) {
  const std::size_t length = nodes_[node_].match;
  if (length == 0) return;
  const Match match = {end - length, length};
  if (!candidate_ || match.begin < candidate_->begin) candidate_ = match;
}

void StopStrings::accept(std::string& out) {
  out.append(held_, 0, candidate_->begin);
  matched_ = held_.substr(candidate_->begin, candidate_->length);
  held_.clear();
  candidate_.reset();
}

void StopStrings::push(std::string_view text, std::string& out) {
  if (matched_) return;
  std::size_t end = held_.size();
  held_ += text;
  while (end < held_.size()) {
    node_ = step(node_, static_cast<unsigned char>(held_[end]));
    find(++end);
    const std::size_t undecided = end - nodes_[node_].depth;
    if (candidate_ && candidate_->begin <= undecided) return accept(out);
  }
  std::size_t known = end - nodes_[node_].depth;
  if (candidate_) known = std::min(known, candidate_->begin);
  out.append(held_, 0, known);
  held_.erase(0, known);
  if (candidate_) candidate_->begin -= known;
}

void StopStrings::end_text(std::string& out) {
  node_ = 0;
  if (candidate_) return accept(out);
  out += held_;
  held_.clear();
}

}  // namespace perigee
