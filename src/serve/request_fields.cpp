#include "serve/request_fields.h"

#include <charconv>
#include <cmath>
#include <random>

#include "serve/api_error.h"

namespace perigee {
namespace {

constexpr std::int64_t kMostBiases = 1024;

double number_of(const JsonNode& value) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(value.literal.data(), value.literal.data() + value.literal.size(), number);
  static_cast<void>(end);
  return error == std::errc() ? number : std::numeric_limits<double>::quiet_NaN();
}

void read_into(double& field, const JsonNode& request, std::string_view key, double least, double most) {
  if (const auto value = find_number(request, key, least, most)) field = *value;
}

// 32 bits, which every reader of JSON keeps exactly.
std::uint64_t read_seed(const JsonNode& request) {
  const auto seed = find_integer(request, "seed");
  return seed ? static_cast<std::uint64_t>(*seed) : std::random_device()();
}

void read_biases(const JsonNode& request, SamplingOptions& sampling) {
  const JsonNode* biases = find_set(request, "logit_bias");
  if (biases == nullptr) return;
  if (!biases->is(JsonKind::kObject)) {
    refuse("logit_bias", "is {}; it must be an object of token ids and numbers", shown(*biases));
  }
  if (biases->members.size() > kMostBiases) refuse("logit_bias", "has more than {} ids", kMostBiases);
  for (const JsonNode::Member& member : biases->members) {
    std::uint32_t id = 0;
    const char* end = member.key.data() + member.key.size();
    const auto parsed = std::from_chars(member.key.data(), end, id);
    if (parsed.ec != std::errc() || parsed.ptr != end) refuse("logit_bias", "has a key that is no token id");
    const double bias = member.value.is(JsonKind::kNumber) ? number_of(member.value) : std::nan("");
    if (!(std::abs(bias) <= 100)) refuse("logit_bias", "must have numbers from -100 to 100");
    sampling.logit_bias[id] = bias;
  }
}

void must_be(const JsonNode& request, std::string_view key, double only) {
  const auto value = find_number(request, key, -1e9, 1e9);
  if (!value || *value == only) return;
  throw RequestError(std::string(key),
                     fmt::format("invalid {}: only {} is allowed for this model", key, only));
}

void check_vendor_contract(const JsonNode& request) {
  must_be(request, "temperature", 1);
  must_be(request, "top_p", 0.95);
  must_be(request, "presence_penalty", 0);
  must_be(request, "frequency_penalty", 0);
}

TokenId read_id(const JsonNode& value, const std::string& param, const Vocabulary& vocabulary) {
  TokenId id = 0;
  const char* end = value.literal.data() + value.literal.size();
  const auto parsed = std::from_chars(value.literal.data(), end, id);
  if (!value.is(JsonKind::kNumber) || parsed.ec != std::errc() || parsed.ptr != end) {
    refuse(param, "has {} where a token id must be", shown(value));
  }
  if (id >= vocabulary.size()) refuse(param, "has the id {}, which the vocabulary does not", id);
  return id;
}

std::string stop_string(const JsonNode& value, const std::string& param) {
  constexpr std::size_t kLongest = 32;
  if (!value.is(JsonKind::kString)) refuse(param, "is {}; it must be a string", shown(value));
  if (value.text.empty()) refuse(param, "is empty; leave it out");
  if (value.text.size() > kLongest) {
    refuse(param, "has {} bytes; at most {} are allowed", value.text.size(), kLongest);
  }
  return value.text;
}

}  // namespace

JsonTree parse_body(std::string body) {
  JsonTree tree;
  try {
    tree = JsonTree::parse(std::move(body), "body");
  } catch (const Error& error) {
    throw ApiError(ApiFault::kInvalidRequest, error.what());
  }
  if (!tree.root().is(JsonKind::kObject)) {
    throw ApiError(ApiFault::kInvalidRequest,
                   fmt::format("the body is {}; it must be a JSON object", shown(tree.root())));
  }
  return tree;
}

std::optional<double> find_number(const JsonNode& object, std::string_view key, double least, double most) {
  const JsonNode* value = find_set(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is(JsonKind::kNumber)) {
    refuse(std::string(key), "is {}; it must be a number", shown(*value));
  }
  const double number = number_of(*value);
  if (!(number >= least && number <= most)) {
    refuse(std::string(key), "is {}; it must be from {} to {}", shown(*value), least, most);
  }
  return number;
}

std::optional<std::int64_t> find_integer(const JsonNode& object, std::string_view key, std::int64_t least,
                                         std::int64_t most) {
  const JsonNode* value = find_set(object, key);
  if (value == nullptr) return std::nullopt;
  std::int64_t number = 0;
  const char* end = value->literal.data() + value->literal.size();
  const auto parsed = std::from_chars(value->literal.data(), end, number);
  if (!value->is(JsonKind::kNumber) || parsed.ec != std::errc() || parsed.ptr != end) {
    refuse(std::string(key), "is {}; it must be a whole number", shown(*value));
  }
  if (number < least || number > most) {
    refuse(std::string(key), "is {}; it must be from {} to {}", number, least, most);
  }
  return number;
}

const JsonNode* find_object(const JsonNode& request, std::string_view key) {
  const JsonNode* object = find_set(request, key);
  if (object != nullptr && !object->is(JsonKind::kObject)) {
    refuse(std::string(key), "is {}; it must be an object", shown(*object));
  }
  return object;
}

std::string required_string(const JsonNode& object, std::string_view key, const std::string& param,
                            const char* advice) {
  auto text = find_string(object, key, param);
  if (!text) refuse(member_param(param, key), "is missing; {}", advice);
  return std::move(*text);
}

void must_be_absent(const JsonNode& request, std::string_view key, const char* advice) {
  if (find_set(request, key) != nullptr) refuse(std::string(key), "is not supported; {}", advice);
}

SamplingOptions read_sampling(const JsonNode& request, bool vendor_contract) {
  if (vendor_contract) check_vendor_contract(request);
  SamplingOptions sampling;
  read_into(sampling.temperature, request, "temperature", 0, 2);
  read_into(sampling.top_p, request, "top_p", 0, 1);
  sampling.top_p = std::max(sampling.top_p, 1e-9);  // 0: the most likely token alone
  read_into(sampling.min_p, request, "min_p", 0, 1);
  read_into(sampling.presence_penalty, request, "presence_penalty", -2, 2);
  read_into(sampling.frequency_penalty, request, "frequency_penalty", -2, 2);
  read_into(sampling.repetition_penalty, request, "repetition_penalty", 0.01, 100);
  // -1 is how some clients write that it is off.
  const std::int64_t top_k = find_integer(request, "top_k", -1, 1 << 24).value_or(0);
  sampling.top_k = static_cast<std::uint32_t>(std::max<std::int64_t>(top_k, 0));
  sampling.seed = read_seed(request);
  read_biases(request, sampling);
  return sampling;
}

std::size_t read_max_tokens(const JsonNode& request, std::string& param) {
  const auto deprecated = find_integer(request, "max_tokens", 1);
  const auto current = find_integer(request, "max_completion_tokens", 1);
  param = current ? "max_completion_tokens" : "max_tokens";
  return static_cast<std::size_t>(current ? *current : deprecated.value_or(0));
}

std::vector<std::string> read_stop(const JsonNode& request, std::string_view key) {
  constexpr std::size_t kMost = 5;
  const std::string param(key);
  const JsonNode* stop = find_set(request, key);
  if (stop == nullptr) return {};
  if (!stop->is(JsonKind::kArray)) return {stop_string(*stop, param)};
  if (stop->items.size() > kMost) {
    refuse(param, "has {} strings; at most {} are allowed", stop->items.size(), kMost);
  }
  std::vector<std::string> strings;
  for (std::size_t i = 0; i < stop->items.size(); ++i) {
    strings.push_back(stop_string(stop->items[i], fmt::format("{}[{}]", param, i)));
  }
  return strings;
}

int read_priority(const JsonNode& request, bool urgent_allowed) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::int64_t priority = find_integer(request, "priority", -kMost, kMost).value_or(0);
  if (priority < 0 && !urgent_allowed) {
    refuse("priority", "is {}; below 0 is only allowed by servers that were started with --urgent-requests",
           priority);
  }
  return static_cast<int>(priority);
}

std::vector<TokenId> read_ids(const JsonNode& value, const std::string& param, const Vocabulary& vocabulary) {
  if (!value.is(JsonKind::kArray)) refuse(param, "is {}; it must be an array of token ids", shown(value));
  std::vector<TokenId> ids;
  ids.reserve(value.items.size());
  for (const JsonNode& item : value.items) ids.push_back(read_id(item, param, vocabulary));
  return ids;
}

}  // namespace perigee
