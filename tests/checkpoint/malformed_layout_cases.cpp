#include "checkpoint/malformed_cases.h"

namespace perigee::test {
namespace {

using namespace std::string_literals;

MalformedCase tensors(const std::string& name, const std::string& entries, std::uint64_t data,
                      const std::string& sentence) {
  return {name, object(entries), sentence, data};
}

// A file: the length field, then anything.
std::string file(std::uint64_t length, const std::string& rest) {
  std::string bytes;
  for (int i = 0; i < 8; ++i, length >>= 8) bytes += static_cast<char>(length & 0xFF);
  return bytes + rest;
}

}  // namespace

std::vector<MalformedCase> malformed_layouts() {
  const std::string a = tensor("a", "U8", "4", 0, 4);
  return {
      tensors("ends-before-it-begins", tensor("a", "U8", "4", 4, 0), 4,
              ": tensor \"a\" ends at byte 0 before it begins at 4"),
      tensors("size-too-small", tensor("a", "BF16", "2,3", 0, 6), 6,
              ": tensor \"a\" is BF16 [2, 3] and needs 12 bytes, but its data_offsets give it 6"),
      tensors("size-too-large", tensor("a", "F32", "", 0, 8), 8,
              ": tensor \"a\" is F32 [] and needs 4 bytes, but its data_offsets give it 8"),
      tensors("zero-size-with-bytes", tensor("a", "U8", "0,4", 0, 4), 4,
              ": tensor \"a\" is U8 [0, 4] and needs 0 bytes, but its data_offsets give it 4"),
      tensors("product-overflows", tensor("a", "U8", "4294967296,4294967296", 0, 0), 0,
              ": tensor \"a\": the size of U8 [4294967296, 4294967296] overflows 64 bits"),
      tensors("product-overflows-then-zero", tensor("a", "U8", "4294967296,4294967296,0", 0, 0), 0,
              ": tensor \"a\": the size of U8 [4294967296, 4294967296, 0] overflows 64 bits"),
      tensors("bits-overflow", tensor("a", "F64", "9223372036854775808", 0, 0), 0,
              ": tensor \"a\": the size of F64 [9223372036854775808] overflows 64 bits"),
      tensors("bytes-overflow-to-small", tensor("a", "F64", "2305843009213693953", 0, 8), 8,
              ": tensor \"a\": the size of F64 [2305843009213693953] overflows 64 bits"),
      tensors("half-a-byte", tensor("a", "F4", "3", 0, 2), 2,
              ": tensor \"a\": F4 [3] is not a whole number of bytes"),
      tensors("six-bits-misaligned", tensor("a", "F6_E2M3", "2", 0, 2), 2,
              ": tensor \"a\": F6_E2M3 [2] is not a whole number of bytes"),
      tensors("first-not-at-zero", tensor("a", "U8", "4", 1, 5), 5,
              ": 1 bytes before tensor \"a\" (data bytes 0 to 1) belong to no tensor"),
      tensors("hole", a + "," + tensor("b", "U8", "4", 6, 10), 10,
              ": 2 bytes before tensor \"b\" (data bytes 4 to 6) belong to no tensor"),
      tensors("overlap", a + "," + tensor("b", "U8", "4", 2, 6), 6,
              ": tensor \"b\" begins at data byte 2, inside tensor \"a\" which ends at 4"),
      tensors("same-range", a + "," + tensor("b", "U8", "4", 0, 4), 4,
              ": tensor \"b\" begins at data byte 0, inside tensor \"a\" which ends at 4"),
      tensors("contained", a + "," + tensor("b", "U8", "1", 1, 2), 4,
              ": tensor \"b\" begins at data byte 1, inside tensor \"a\" which ends at 4"),
      tensors("zero-size-inside", a + "," + tensor("b", "U8", "0", 2, 2), 4,
              ": tensor \"b\" begins at data byte 2, inside tensor \"a\" which ends at 4"),
      tensors("past-the-end", a, 3,
              ": the tensors need 4 data bytes, but the file has only 3 of them; it is truncated"),
      tensors("far-past-the-end", tensor("a", "U8", "1152921504606846976", 0, 1152921504606846976), 8,
              ": the tensors need 1152921504606846976 data bytes, but the file has only 8 of them"),
      tensors("bytes-after-the-last", a, 5, ": 1 bytes after the last tensor belong to no tensor"),
      tensors("data-without-tensors", "", 1, ": 1 bytes after the last tensor belong to no tensor"),
      tensors("name-twice", a + "," + tensor("a", "U8", "4", 4, 8), 8, ": tensor \"a\" appears twice"),
      tensors("name-twice-escaped", a + "," + tensor("\\u0061", "U8", "4", 4, 8), 8,
              ": tensor \"a\" appears twice"),
      tensors("name-twice-without-bytes", tensor("a", "U8", "0", 0, 0) + "," + tensor("a", "U8", "0", 0, 0),
              0, ": tensor \"a\" appears twice"),
  };
}

std::vector<MalformedCase> malformed_files() {
  return {
      {"empty-file", "", " is empty; download it again"},
      {"seven-bytes", "\1\0\0\0\0\0\0"s, " has only 7 bytes, too few for a safetensors file"},
      {"length-zero", file(0, ""), ": the header does not begin with '{'"},
      {"length-2-63", file(std::uint64_t{1} << 63, "{}"),
       ": the header would have 9223372036854775808 bytes, more than the 100000000 that the format allows"},
      {"length-all-ones", file(~std::uint64_t{0}, "{}"),
       ": the header would have 18446744073709551615 bytes, more than the 100000000 that the format allows"},
      {"length-just-over-the-limit", file(100'000'001, "{}"),
       ": the header would have 100000001 bytes, more than the 100000000 that the format allows"},
      {"length-at-the-limit", file(100'000'000, "{}"),
       ": the header should have 100000000 bytes, but the file has only 10; it is truncated"},
      {"length-one-too-many", file(3, "{}"),
       ": the header should have 3 bytes, but the file has only 10; it is truncated"},
      {"git-lfs-pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0000\nsize 17916197160\n",
       " is a git-lfs pointer, not the file itself; fetch it with \"git lfs pull\" or download it again"},
      {"html-page", "<!DOCTYPE html><html></html>", ": the header would have 5789751444030890300 bytes"},
      {"polyglot", file(2, "{}PK\3\4"), ": 4 bytes after the last tensor belong to no tensor"},
  };
}

}  // namespace perigee::test
