// tokenizer.json: text to ids, ids to text, and long texts by the SHA-256 of their ids.
#include <cstdint>

#include "base/hash.h"
#include "proof/parity_rows.h"
#include "proof/parity_suites.h"

namespace perigee {
namespace {

constexpr unsigned kThreads = 4;                   // any number must give the same ids
constexpr std::size_t kMaxLongText = 64ULL << 20;  // a file must not make us build more

std::string long_text(const Golden& golden) {
  const std::string& unit = golden.text("repeat");
  const std::size_t times = golden.number("times");
  if (unit.empty() || times > kMaxLongText / unit.size()) {
    fail(ErrorCode::kCorrupt, "{}: the repeated text must have 1 to {} bytes", golden.place(), kMaxLongText);
  }
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += unit;
  return text + golden.text("suffix");
}

// "121 ids, sha256 …" of the compact JSON list.
std::string fingerprint(std::size_t count, const std::string& sha256) {
  return fmt::format("{} ids, sha256 {}", count, sha256);
}
std::string fingerprint(std::span<const TokenId> ids) {
  const std::string json = fmt::format("[{}]", fmt::join(ids, ","));
  return fingerprint(ids.size(), sha256_hex(std::as_bytes(std::span(json))));
}

}  // namespace

void check_tokenizer(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows) {
  ParityTally encoded("tokenizer: ids"), parallel("tokenizer: ids by threads"), decoded("tokenizer: decoded");
  for (const Golden& golden : file.objects("cases")) {
    const std::string& text = golden.text("text");
    const std::vector<TokenId> ids = golden.ids("ids");
    const bool specials = golden.flag("specials", false);
    encoded.ids(golden.name(), ids,
                [&] { return specials ? tokenizer.encode_markup(text) : tokenizer.encode_plain(text); });
    if (!specials) {
      parallel.ids(golden.name(), ids, [&] { return tokenizer.encode_plain_parallel(text, kThreads); });
    }
    decoded.text(golden.name(), text, [&] { return tokenizer.decode_bytes(ids); });
  }
  ParityTally whole("tokenizer: long texts"), threads("tokenizer: long texts by threads");
  for (const Golden& golden : file.objects("long")) {
    const std::string text = long_text(golden);
    const std::string expected = fingerprint(golden.number("count"), golden.text("sha256_of_json"));
    whole.text(golden.name(), expected, [&] { return fingerprint(tokenizer.encode_plain(text)); });
    threads.text(golden.name(), expected,
                 [&] { return fingerprint(tokenizer.encode_plain_parallel(text, kThreads)); });
  }
  for (const ParityTally* tally : {&encoded, &parallel, &decoded, &whole, &threads}) {
    rows.push_back(tally->row());
  }
}

}  // namespace perigee
