// A file of experts whose bytes say which they are, and what finds them in it. Runs begin and end at odd
// places, as in a checkpoint. For tests only.
#pragma once

#include <cstring>
#include <fstream>
#include <memory>

#include "base/hash.h"
#include "experts/expert_files.h"
#include "support/temp_dir.h"

namespace perigee::test {

class NumberedExperts {
 public:
  static constexpr std::uint64_t kLayers = 5;  // the first has no experts
  static constexpr std::uint64_t kExperts = 32;
  static constexpr std::uint64_t kFirstByte = 1234;
  static constexpr std::uint64_t kBytes = 9001;

  NumberedExperts() : file_(folder_ / "experts") {
    std::ofstream out(file_, std::ios::binary);
    out << std::string(kFirstByte, '-');
    for (std::uint64_t layer = 1; layer < kLayers; ++layer) {
      for (std::uint64_t expert = 0; expert < kExperts; ++expert) {
        const std::string run = run_of(layer, expert);
        out.write(run.data(), static_cast<std::streamsize>(run.size()));
      }
    }
  }

  // A pattern of its own for every expert.
  static std::string run_of(std::uint64_t layer, std::uint64_t expert) {
    std::string run(kBytes, '\0');
    for (std::uint64_t i = 0; i < kBytes; ++i) {
      run[i] = static_cast<char>((i * (2 * expert + 1) + 37 * layer + expert) & 0xff);
    }
    return run;
  }
  static std::uint64_t offset_of(std::uint64_t layer, std::uint64_t expert) {
    return kFirstByte + ((layer - 1) * kExperts + expert) * kBytes;
  }
  // Where a direct read of it begins.
  static std::uint64_t read_offset_of(std::uint64_t layer, std::uint64_t expert) {
    return offset_of(layer, expert) / 4096 * 4096;
  }

  const std::filesystem::path& file() const { return file_; }
  std::unique_ptr<ExpertFiles> open(bool checksums) const;
  // Odd experts from a copy of the file.
  std::unique_ptr<ExpertFiles> open_with(const std::filesystem::path& copy) const;

 private:
  TempDir folder_;
  std::filesystem::path file_;
};

class NumberedFiles : public ExpertFiles {
 public:
  NumberedFiles(std::vector<std::filesystem::path> files, bool checksums)
      : files_(std::move(files)), checksums_(checksums) {}
  const std::vector<std::filesystem::path>& files() const override { return files_; }
  std::uint64_t layers() const override { return NumberedExperts::kLayers; }
  std::uint64_t experts() const override { return NumberedExperts::kExperts; }
  bool has_experts(std::uint64_t layer) const override { return layer > 0; }
  ExpertPlace place(std::uint64_t layer, std::uint64_t expert) const override {
    const auto file = static_cast<std::uint32_t>(expert % files_.size());
    ExpertPlace place{file, NumberedExperts::offset_of(layer, expert), NumberedExperts::kBytes, {}};
    const std::string run = NumberedExperts::run_of(layer, expert);
    if (checksums_) place.checksum = xxh3_64(std::as_bytes(std::span(run)));
    return place;
  }
  std::uint64_t largest_run() const override { return NumberedExperts::kBytes; }
  ExpertWeights weights(std::uint64_t, std::uint64_t, const std::byte* run) const override {
    ExpertWeights weights;
    weights.w1.values = run;
    return weights;
  }

 private:
  std::vector<std::filesystem::path> files_;
  bool checksums_;
};

inline std::unique_ptr<ExpertFiles> NumberedExperts::open(bool checksums) const {
  return std::make_unique<NumberedFiles>(std::vector{file_}, checksums);
}
inline std::unique_ptr<ExpertFiles> NumberedExperts::open_with(const std::filesystem::path& copy) const {
  return std::make_unique<NumberedFiles>(std::vector{file_, copy}, true);
}

inline bool is_run_of(const ExpertWeights& weights, std::uint64_t layer, std::uint64_t expert) {
  const std::string run = NumberedExperts::run_of(layer, expert);
  return std::memcmp(weights.w1.values, run.data(), run.size()) == 0;
}

}  // namespace perigee::test
