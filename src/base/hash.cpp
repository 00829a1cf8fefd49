#include "base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace perigee {
namespace {

constexpr std::uint64_t kFilePiece = 8ull << 20;

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    if (context == nullptr || EVP_DigestInit_ex(context, EVP_sha256(), nullptr) != 1) {
      fail(ErrorCode::kInternal, "OpenSSL cannot start SHA-256");
    }
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) != 1) {
    fail(ErrorCode::kInternal, "OpenSSL SHA-256 update failed");
  }
}

std::string Sha256::finish_hex() {
  std::array<unsigned char, 32> digest{};
  unsigned int length = 0;
  if (EVP_DigestFinal_ex(state_->context, digest.data(), &length) != 1 || length != digest.size()) {
    fail(ErrorCode::kInternal, "OpenSSL SHA-256 finish failed");
  }
  std::string hex;
  hex.reserve(64);
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

struct Xxh3::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr || XXH3_64bits_reset(xxh) != XXH_OK) fail(ErrorCode::kInternal, "xxHash cannot start");
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {}
Xxh3::~Xxh3() = default;

void Xxh3::update(std::span<const std::byte> bytes) {
  if (XXH3_64bits_update(state_->xxh, bytes.data(), bytes.size()) != XXH_OK) {
    fail(ErrorCode::kInternal, "xxHash update failed");
  }
}

std::uint64_t Xxh3::value() const {
  return XXH3_64bits_digest(state_->xxh);
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish_hex();
}

std::string sha256_of_file(const std::filesystem::path& path, const CancelToken* cancel) {
  const File file = File::open_read(path);
  const std::uint64_t size = file.size();
  std::vector<std::byte> buffer(kFilePiece);
  Sha256 hash;
  for (std::uint64_t done = 0; done < size;) {
    if (cancel != nullptr) cancel->check();
    const std::uint64_t piece = std::min<std::uint64_t>(buffer.size(), size - done);
    file.read_exact(std::span(buffer).first(piece), done);
    hash.update(std::span(buffer).first(piece));
    done += piece;
  }
  file.drop_cache();
  return hash.finish_hex();
}

std::uint64_t xxh3_64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace perigee
