#include "fuzz/parser_checks.h"

#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/index.h"
#include "checkpoint/safetensors.h"

namespace perigee::fuzz {
namespace {

// Ends the process in every kind of build, so that libFuzzer keeps the input.
void must_hold(bool condition) {
  if (!condition) std::abort();
}

std::string_view text_of(std::span<const std::uint8_t> input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

bool is_same(const TensorInfo& a, const TensorInfo& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.begin == b.begin && a.end == b.end;
}

void check_accepted(const SafetensorsHeader& header) {
  must_hold(header.by_name.size() == header.tensors.size());
  std::uint64_t position = 0;
  for (const TensorInfo& tensor : header.tensors) {
    must_hold(header.find(tensor.name) == &tensor);
    must_hold(tensor.begin == position);
    must_hold(tensor.bytes() == tensor_bytes(tensor.name, tensor.dtype, tensor.shape));
    position = tensor.end;
  }
  must_hold(position == header.data_bytes);
}

void check_written_again(const SafetensorsHeader& header) {
  const std::string bytes = serialize_safetensors_header(header.tensors, header.metadata);
  const SafetensorsHeader again = parse_safetensors_header(std::as_bytes(std::span(bytes)).subspan(8),
                                                           bytes.size() + header.data_bytes, "again");
  must_hold(again.metadata == header.metadata);
  must_hold(again.tensors.size() == header.tensors.size());
  for (std::size_t i = 0; i < again.tensors.size(); ++i)
    must_hold(is_same(again.tensors[i], header.tensors[i]));
}

}  // namespace

void check_safetensors_header(std::span<const std::uint8_t> input) {
  if (input.size() < 8) return;
  std::uint64_t data_bytes = 0;
  for (std::size_t i = 8; i-- > 0;) data_bytes = data_bytes << 8 | input[i];
  const std::span<const std::uint8_t> json = input.subspan(8);
  std::uint64_t file_bytes = 0;
  if (__builtin_add_overflow(data_bytes, input.size(), &file_bytes)) return;
  SafetensorsHeader header;
  try {
    header = parse_safetensors_header(std::as_bytes(json), file_bytes, "input");
  } catch (const Error&) {
    return;
  }
  check_accepted(header);
  check_written_again(header);
}

void check_index(std::span<const std::uint8_t> input) {
  CheckpointIndex index;
  try {
    index = parse_index(text_of(input), "input");
  } catch (const Error&) {
    return;
  }
  const std::string bytes = serialize_index(index);
  const CheckpointIndex again = parse_index(bytes, "again");
  must_hold(again.total_size == index.total_size);
  must_hold(again.shards == index.shards);
  must_hold(again.entries.size() == index.entries.size());
  for (const IndexEntry& entry : index.entries) {
    const std::string* shard = again.shard_of(entry.name);
    must_hold(shard != nullptr && *shard == index.shards[entry.shard]);
    must_hold(shard->find('/') == std::string::npos && !shard->starts_with('.'));
  }
}

void check_config(std::span<const std::uint8_t> input) {
  try {
    const K3Config config = parse_config(text_of(input), "input");
    must_hold(config.is_mla.size() == config.num_hidden_layers);
    must_hold(config.moe_layers() <= config.num_hidden_layers);
    must_hold(config.num_experts_per_token <= config.num_experts);
  } catch (const Error&) {
    return;
  }
}

}  // namespace perigee::fuzz
