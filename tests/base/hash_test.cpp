// Expected digests: FIPS 180-4 examples (NIST), and xxhsum 0.8.1 -H3.
#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/file.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

constexpr const char* kDigestOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kDigestOfMillionA = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256, KnowsThePublishedExamples) {
  EXPECT_EQ(sha256_hex(bytes_of("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(bytes_of("abc")), kDigestOfAbc);
  EXPECT_EQ(sha256_hex(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(bytes_of(std::string(1'000'000, 'a'))), kDigestOfMillionA);
}

TEST(Sha256, DoesNotDependOnHowTheBytesArrive) {
  const std::string text(1'000'000, 'a');
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{4097}, std::size_t{64}}) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      hash.update(bytes_of(std::string_view(text).substr(at, piece)));
      hash.update({});
    }
    EXPECT_EQ(hash.finish_hex(), kDigestOfMillionA) << "pieces of " << piece;
  }
}

TEST(Sha256, MayBeMovedHalfWay) {
  Sha256 first;
  first.update(bytes_of("ab"));
  Sha256 second = std::move(first);
  second.update(bytes_of("c"));
  EXPECT_EQ(second.finish_hex(), kDigestOfAbc);
}

TEST(Xxh3, AgreesWithXxhsum) {
  EXPECT_EQ(xxh3_64(bytes_of("")), 0x2d06800538d394c2u);
  EXPECT_EQ(xxh3_64(bytes_of("abc")), 0x78af5f94892f3950u);
  EXPECT_EQ(xxh3_64(bytes_of(std::string(1'000'000, 'a'))), 0xb1fd6fae5285c4ebu);
}

// Larger than one piece; the digest is Python's hashlib's.
TEST(Sha256, OfAFileIsThatOfItsBytes) {
  const test::TempDir dir;
  write_file_atomically(dir / "small", "abc");
  EXPECT_EQ(sha256_of_file(dir / "small", nullptr), kDigestOfAbc);
  write_file_atomically(dir / "large", std::string(10'000'000, 'a'));
  EXPECT_EQ(sha256_of_file(dir / "large", nullptr),
            "01f4a87c04b40af59aadc0e812293509709c9a8763a60b7f9e19303322f8b03c");
  CancelToken cancel;
  cancel.cancel();
  EXPECT_ERROR(sha256_of_file(dir / "large", &cancel), ErrorCode::kInterrupted, "interrupted");
}

}  // namespace
}  // namespace perigee
