#include "fuzz/store_checks.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "experts/store_format.h"

namespace perigee::fuzz {
namespace {

constexpr std::size_t kLengthAt = 16;
constexpr std::size_t kWord = 8;

void must_hold(bool condition) {
  if (!condition) std::abort();
}

void put_right(std::string& text) {
  const std::uint64_t length = text.size();
  if (length < kLengthAt + 2 * kWord) return;
  std::memcpy(text.data() + kLengthAt, &length, kWord);
  const std::uint64_t checksum = xxh3_64(std::as_bytes(std::span(text)).first(length - kWord));
  std::memcpy(text.data() + length - kWord, &checksum, kWord);
}

void check_inside(const StoreIndex& index) {
  for (const ExpertRecord& record : index.table.records) {
    const RunLayout& layout = index.table.layouts.at(record.layout);
    must_hold(record.offset + layout.bytes <= index.files.at(record.file).bytes);
    for (const MatrixPlace& matrix : layout.matrices) {
      must_hold(matrix.values + matrix.values_bytes() <= layout.bytes);
      must_hold(matrix.scales + matrix.scales_bytes() <= layout.bytes);
      if (matrix.global_bytes() > 0) must_hold(matrix.global + matrix.global_bytes() <= layout.bytes);
    }
  }
}

}  // namespace

void check_store_index(std::span<const std::uint8_t> input) {
  std::string text(input.begin(), input.end());
  put_right(text);
  StoreIndex index;
  try {
    index = parse_store_index(std::as_bytes(std::span(text)), "input");
  } catch (const Error&) {
    return;
  }
  check_inside(index);
  must_hold(serialize_store_index(index) == text);
}

}  // namespace perigee::fuzz
