// reply_parser.json and reply_stream.json: replies as messages, and as streams however they are cut.
#include <algorithm>
#include <numeric>
#include <random>

#include "proof/golden_reply.h"
#include "proof/parity_rows.h"
#include "proof/parity_suites.h"

namespace perigee {
namespace {

using Ends = std::vector<std::size_t>;

constexpr std::size_t kRandomGroupings = 20;
constexpr std::size_t kLargestGroup = 7;
constexpr std::uint64_t kSeed = 163586;  // any; fixed, so that a difference comes again

Ends one_by_one(std::size_t count) {
  Ends ends(count);
  std::iota(ends.begin(), ends.end(), std::size_t{1});
  return ends;
}

Ends random_groups(std::size_t count, std::mt19937_64& random) {
  Ends ends;
  for (std::size_t at = 0; at < count;) {
    at = std::min<std::size_t>(count, at + 1 + random() % kLargestGroup);
    ends.push_back(at);
  }
  return ends;
}

std::string joined(const std::vector<std::string>& notes) {
  return fmt::format("{}", fmt::join(notes, ", "));
}

// The streams of a reply, behind the promise it broke, if any.
std::string streams_text(const StreamedReply& reply) {
  return reply.violation + describe(reply.streams);
}

// Streams whose deltas differ from the message are given by "streamed"; all others equal it.
ReplyView expected_streams(const Golden& golden, const ReplyView& message) {
  ReplyView streams = without_nulls(message);
  if (golden.has("streamed")) {
    const Golden streamed = golden.object("streamed");
    streams.reasoning = streamed.text("reasoning_content");
    streams.content = streamed.text("content");
  }
  return streams;
}

void check_start_states(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows) {
  ParityTally starts("replies: channel that a prompt opens");
  for (const Golden& golden : file.objects("start_state")) {
    const std::vector<TokenId> ids = golden.ids("ids");
    starts.text(golden.name(), golden.text("start"),
                [&] { return channel_name(open_channel(ids, tokenizer)); });
  }
  rows.push_back(starts.row());
}

class StreamSuite {
 public:
  explicit StreamSuite(const Tokenizer& tokenizer) : tokenizer_(tokenizer), random_(kSeed) {}

  void check(const Golden& golden) {
    const GoldenReply reply = read_golden_reply(golden);
    const ReplyView expected = read_reply_view(golden.object("streamed"));
    const std::size_t count = reply.ids.size();
    const auto compare = [&](ParityTally& tally, const std::string& which, const Ends& ends) {
      tally.text(which, describe(expected),
                 [&] { return streams_text(stream_reply(reply, tokenizer_, ends)); });
    };
    compare(single_, golden.name(), one_by_one(count));
    compare(whole_, golden.name(), {count});
    for (std::size_t cut = 0; cut <= count; ++cut) {
      compare(halves_, fmt::format("{} cut before id {}", golden.name(), cut), {cut, count});
    }
    for (std::size_t i = 0; i < kRandomGroupings; ++i) {
      const Ends ends = random_groups(count, random_);
      compare(groups_, fmt::format("{} in groups that end at {}", golden.name(), fmt::join(ends, ",")), ends);
    }
    const bool same = golden.flag("equals_whole_reply", true);
    message_.text(golden.name(), same ? describe(expected) : "another message", [&]() -> std::string {
      const ReplyMessage message = stream_reply(reply, tokenizer_, Ends{count}).message;
      const std::string found = describe(without_nulls(view_of(message)));
      return same || found == describe(expected) ? found : "another message";
    });
  }

  void add_to(ParityRows& rows) const {
    for (const ParityTally* tally : {&single_, &whole_, &halves_, &groups_, &message_})
      rows.push_back(tally->row());
  }

 private:
  const Tokenizer& tokenizer_;
  std::mt19937_64 random_;
  ParityTally single_{"streams: one id at a time"}, whole_{"streams: all at once"},
      halves_{"streams: every cut into two"}, groups_{"streams: random groups"},
      message_{"streams: equal the message"};
};

}  // namespace

void check_replies(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows) {
  ParityTally messages("replies: message"), notes("replies: notes"), streams("replies: stream");
  for (const Golden& golden : file.objects("cases")) {
    const GoldenReply reply = read_golden_reply(golden);
    const ReplyView expected = read_reply_view(golden.object("expected"));
    const Ends all{reply.ids.size()};
    const auto message = [&] { return stream_reply(reply, tokenizer, all).message; };
    messages.text(golden.name(), describe(expected), [&] { return describe(view_of(message())); });
    notes.text(golden.name(), joined(golden.texts("notes")), [&] { return joined(message().notes); });
    streams.text(golden.name(), describe(expected_streams(golden, expected)),
                 [&] { return streams_text(stream_reply(reply, tokenizer, one_by_one(reply.ids.size()))); });
  }
  for (const ParityTally* tally : {&messages, &notes, &streams}) rows.push_back(tally->row());
  check_start_states(file, tokenizer, rows);
}

void check_streams(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows) {
  StreamSuite suite(tokenizer);
  for (const Golden& golden : file.objects("cases")) suite.check(golden);
  suite.add_to(rows);
}

}  // namespace perigee
