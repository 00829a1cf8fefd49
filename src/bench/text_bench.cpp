#include "bench/text_bench.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "bench/kernel_rates.h"
#include "bench/peer_process.h"
#include "bench/stopwatch.h"
#include "bench/text_inputs.h"
#include "text/prompt.h"
#include "text/reply_parser.h"
#include "text/tokenizer.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr std::size_t kWorstCaseFactor = 5;
constexpr std::size_t kSessionMessages = 200;
constexpr std::size_t kSessionTools = 60;
constexpr std::size_t kReplyParts = 100;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

static_assert(std::endian::native == std::endian::little, "ids are hashed as they lie in memory");

std::string sha256_of_ids(std::span<const TokenId> ids) {
  return sha256_hex(std::as_bytes(ids));
}

// tiktoken behind its script's protocol (tools/peers/tiktoken_rates.py).
class Peer {
 public:
  Peer(std::vector<std::string> command, const std::filesystem::path& vocabulary)
      : process_(with_argument(std::move(command), vocabulary.string())), greeting_(answer()) {}

  std::string version() const { return field<std::string>(greeting_, "version"); }
  double load_seconds() const { return field<double>(greeting_, "load_seconds"); }

  void give(const TextInput& input) {
    process_.send(fmt::format("text {} {}\n", input.name, input.text.size()));
    process_.send(input.text);
    (void)field<std::uint64_t>(answer(), "characters");
  }

  // Seconds; kMismatch if its ids differ.
  double encode(const TextInput& input, std::span<const TokenId> ids) {
    process_.send(fmt::format("encode {}\n", input.name));
    const json result = answer();
    const auto count = field<std::uint64_t>(result, "ids");
    if (count != ids.size() || field<std::string>(result, "sha256") != sha256_of_ids(ids)) {
      fail(ErrorCode::kMismatch, "{}: {} ids here, {} from tiktoken {}, and they differ", input.name,
           ids.size(), count, version());
    }
    return field<double>(result, "seconds");
  }

 private:
  static std::vector<std::string> with_argument(std::vector<std::string> command, std::string argument) {
    command.push_back(std::move(argument));
    return command;
  }

  json answer() { return json::parse(process_.read_line(), nullptr, false); }

  template <typename Value>
  static Value field(const json& answer, const char* name) {
    try {
      return answer.at(name).get<Value>();
    } catch (const json::exception& error) {
      fail(ErrorCode::kIo, "the peer's answer has no usable \"{}\": {}", name, error.what());
    }
  }

  PeerProcess process_;
  const json greeting_;
};

class Bench {
 public:
  explicit Bench(const TextBenchOptions& options)
      : options_(options), tokenizer_(Vocabulary::load(options.vocabulary)) {
    if (!options.peer.empty()) peer_.emplace(options.peer, vocabulary_file());
  }

  TextBenchResult run() {
    TextBenchResult result;
    result.memory_read = measure_memory_read_rate();
    if (peer_) result.peer_version = peer_->version();
    for (const TextInput& input : make_text_inputs(options_.input_bytes)) {
      result.texts.push_back(encode_rate(input, options_.rounds));
    }
    for (const TextInput& input : make_worst_cases(kWorstCaseFactor * options_.input_bytes)) {
      result.worst_cases.push_back(encode_rate(input, 1));
    }
    result.load = load_time();
    result.long_prompt = long_prompt_time(result.texts.front());
    result.long_session = long_session_time();
    result.reply_by_token = reply_time();
    return result;
  }

 private:
  std::filesystem::path vocabulary_file() const {
    return std::filesystem::is_directory(options_.vocabulary) ? options_.vocabulary / "tiktoken.model"
                                                              : options_.vocabulary;
  }

  void announce(const std::string& step) const {
    if (options_.announce) options_.announce(step);
  }

  // One thread, all threads and the peer in turn, so that a machine whose speed drifts treats all alike.
  EncodeRate encode_rate(const TextInput& input, unsigned rounds) {
    announce("encoding " + input.name);
    if (peer_) peer_->give(input);
    std::vector<double> one;
    std::vector<double> parallel;
    std::vector<double> peer;
    std::vector<TokenId> ids;
    for (unsigned round = 0; round < rounds; ++round) {
      std::vector<TokenId> parallel_ids;
      one.push_back(cpu_seconds([&] { ids = tokenizer_.encode_plain(input.text); }));
      parallel.push_back(wall_seconds(
          [&] { parallel_ids = tokenizer_.encode_plain_parallel(input.text, options_.threads); }));
      if (parallel_ids != ids) {
        fail(ErrorCode::kMismatch, "{}: {} threads give other ids than one", input.name, options_.threads);
      }
      if (peer_) peer.push_back(peer_->encode(input, ids));
    }
    if (tokenizer_.decode_bytes(ids) != input.text) {
      fail(ErrorCode::kMismatch, "{}: decoding its ids gives another text", input.name);
    }
    const auto bytes = static_cast<double>(input.text.size());
    EncodeRate rate{input.name,          input.text.size(),        ids.size(),
                    bytes / median(one), bytes / median(parallel), std::nullopt};
    if (peer_) rate.peer = bytes / median(peer);
    return rate;
  }

  template <typename Work>
  TimedWork timed(std::string name, Work&& work) const {
    announce(name);
    std::vector<double> seconds;
    for (unsigned round = 0; round < options_.rounds; ++round) seconds.push_back(cpu_seconds(work));
    return {std::move(name), median(std::move(seconds)), 0, std::nullopt};
  }

  TimedWork load_time() const {
    TimedWork work = timed("loading the vocabulary",
                           [this] { const Tokenizer tokenizer(Vocabulary::load(options_.vocabulary)); });
    work.ids = tokenizer_.vocabulary().size();
    if (peer_) work.peer_seconds = peer_->load_seconds();
    return work;
  }

  TimedWork long_prompt_time(const EncodeRate& english) {
    const std::size_t wanted = options_.input_bytes / 2;
    const double bytes_per_id = static_cast<double>(english.bytes) / static_cast<double>(english.ids);
    const TextInput input{
        "long-prompt",
        english_text(static_cast<std::size_t>(std::ceil(static_cast<double>(wanted) * bytes_per_id)))};
    std::vector<TokenId> ids;
    TimedWork work = timed("encoding one long prompt", [&] { ids = tokenizer_.encode_plain(input.text); });
    work.ids = ids.size();
    if (peer_) {
      peer_->give(input);
      work.peer_seconds = peer_->encode(input, ids);
    }
    return work;
  }

  TimedWork long_session_time() const {
    const Conversation conversation = make_long_conversation(kSessionMessages, kSessionTools);
    const PromptEncoder encoder(tokenizer_);
    std::size_t ids = 0;
    TimedWork work = timed(fmt::format("{} messages and {} tools to ids", kSessionMessages, kSessionTools),
                           [&] { ids = encoder.encode(build_prompt(conversation)).ids.size(); });
    work.ids = ids;
    return work;
  }

  TimedWork reply_time() const {
    const std::vector<TokenId> reply = long_reply();
    std::vector<ReplyDelta> deltas;
    std::size_t calls = 0;
    TimedWork work = timed("parsing a reply id by id", [&] {
      ReplyParser parser(tokenizer_, {});
      for (const TokenId& id : reply) {
        deltas.clear();  // a stream sends them away
        parser.push({&id, 1}, deltas);
      }
      calls = parser.finish(EndedBy::kStop, deltas).calls.size();
    });
    if (calls != kReplyParts) {
      fail(ErrorCode::kMismatch, "the parsed reply has {} tool calls instead of {}", calls, kReplyParts);
    }
    work.ids = reply.size();
    return work;
  }

  // What the model would have to say for this conversation's last message: long thoughts, content, and calls.
  std::vector<TokenId> long_reply() const {
    Conversation conversation = make_long_conversation(1, 1);
    conversation.messages.push_back(make_long_reply(kReplyParts));
    const PromptEncoder encoder(tokenizer_);
    const auto all = encoder.encode(build_prompt(conversation, GenerationPrompt::kNone)).ids;
    conversation.messages.pop_back();
    const auto prompt = encoder.encode(build_prompt(conversation)).ids;
    if (all.size() < prompt.size() || !std::equal(prompt.begin(), prompt.end(), all.begin())) {
      fail(ErrorCode::kMismatch, "a prompt is not the beginning of the same conversation with its reply");
    }
    return {all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end()};
  }

  const TextBenchOptions& options_;
  const Tokenizer tokenizer_;
  std::optional<Peer> peer_;
};

}  // namespace

TextBenchResult bench_text(const TextBenchOptions& options) {
  return Bench(options).run();
}

}  // namespace perigee
