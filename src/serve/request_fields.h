// Numbers and limits in requests, beside text/json_fields.h: absent and null are the same, and a wrong type
// or range is a RequestError that names the field. Shared by the dialects.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampler.h"
#include "text/json_fields.h"
#include "text/vocabulary.h"

namespace perigee {

// The body as an object. ApiFault::kInvalidRequest for what is no JSON, or no object.
JsonTree parse_body(std::string body);

std::optional<double> find_number(const JsonNode& object, std::string_view key, double least, double most);
// Written without fraction and exponent.
std::optional<std::int64_t> find_integer(const JsonNode& object, std::string_view key,
                                         std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                                         std::int64_t most = std::numeric_limits<std::int64_t>::max());

// RequestError if it is not an object; nullptr if it is absent or null.
const JsonNode* find_object(const JsonNode& request, std::string_view key);

// The member's text; "is missing; <advice>" without it.
std::string required_string(const JsonNode& object, std::string_view key, const std::string& param,
                            const char* advice);

// For a field that means something which this server does not have.
void must_be_absent(const JsonNode& request, std::string_view key, const char* advice);

// temperature, top_p, top_k, min_p, penalties, seed and logit_bias. Without a seed there is another one every
// time. `vendor_contract`: other values than Moonshot's for K3 are refused.
SamplingOptions read_sampling(const JsonNode& request, bool vendor_contract);

// max_completion_tokens, else max_tokens; 0: neither. `param` becomes the name of the one that counts.
std::size_t read_max_tokens(const JsonNode& request, std::string& param);

// "stop" or what it is called: a string or an array of at most five, of 1 to 32 bytes each.
std::vector<std::string> read_stop(const JsonNode& request, std::string_view key = "stop");

// "priority" as vLLM means it: lower ones are served first, 0 if it is not said. Below 0, which overtakes
// everybody who says nothing, only if `urgent_allowed`.
int read_priority(const JsonNode& request, bool urgent_allowed);

// An array of token ids that the vocabulary has.
std::vector<TokenId> read_ids(const JsonNode& value, const std::string& param, const Vocabulary& vocabulary);

}  // namespace perigee
