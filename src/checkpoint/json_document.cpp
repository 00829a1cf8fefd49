#include "checkpoint/json_document.h"

#include <set>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/json_text.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 32;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// nlohmann-json keeps the last of two equal keys; which one an engine keeps is anybody's guess, so none is
// kept.
class KeyGuard {
 public:
  explicit KeyGuard(const std::string& origin) : origin_(origin) {}

  bool event(int depth, json::parse_event_t event, const json& parsed) {
    if (depth >= kMaxDepth) fail(ErrorCode::kCorrupt, "{} is nested more than {} deep", origin_, kMaxDepth);
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event == json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!open_.back().insert(key).second)
        fail(ErrorCode::kCorrupt, "{} has the key {} twice in one object", origin_, quoted_name(key));
    }
    return true;
  }

 private:
  const std::string& origin_;
  std::vector<std::set<std::string>> open_;  // keys of the objects around the current place
};

}  // namespace

json parse_json_document(std::string_view text, const std::string& origin) {
  if (text.size() > kMaxDocumentBytes) {
    fail(ErrorCode::kCorrupt, "{} has {} bytes, more than the {} that such a file may have", origin,
         text.size(), kMaxDocumentBytes);
  }
  if (text.starts_with(kByteOrderMark)) {
    fail(ErrorCode::kCorrupt, "{} begins with a byte-order mark, which JSON does not allow; remove it",
         origin);
  }
  KeyGuard guard(origin);
  json document;
  try {
    document = json::parse(text, [&](int depth, json::parse_event_t event, json& parsed) {
      return guard.event(depth, event, parsed);
    });
  } catch (const json::exception& error) {
    fail(ErrorCode::kCorrupt, "{} is not valid JSON: {}", origin, error.what());
  }
  if (!document.is_object()) fail(ErrorCode::kCorrupt, "{} is not a JSON object", origin);
  return document;
}

json load_json_document(const std::filesystem::path& path) {
  return parse_json_document(read_small_file(path, kMaxDocumentBytes), path.string());
}

}  // namespace perigee
