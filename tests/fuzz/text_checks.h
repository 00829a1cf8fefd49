// What must hold for any bytes whatever in the text room, one function per parser; see parser_checks.h.
// Called by the libFuzzer targets with new inputs and by a unit test with the committed ones.
#pragma once

#include <cstdint>
#include <span>

namespace perigee::fuzz {

// A tiktoken file: accepted or refused with the line's number; what is accepted finds each of its tokens.
void check_vocabulary(std::span<const std::uint8_t> input);
// Any bytes: decode(encode(x)) == x, and no special id.
void check_encoder(std::span<const std::uint8_t> input);
// JSON of a request: refused with a field's name, or a prompt whose special ids are its structure alone.
void check_prompt(std::span<const std::uint8_t> input);
// Ids of a reply (two bytes each, little-endian): whole, one by one and in groups give the same streams.
void check_reply(std::span<const std::uint8_t> input);

}  // namespace perigee::fuzz
