// What routers chose, step by step, in a file: the raw material of cache policies. One line per step and
// layer, "layer tokens expert expert … | expert expert …": the experts ascending and each once, as a step
// asks for them, then what was foreseen for it, likeliest first, if anything was (model/foresight.cpp).
// Deliberately holds no text and no token ids: a trace can be given away.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/ops.h"

namespace perigee {

struct TraceVisit {
  std::uint32_t layer = 0;
  std::uint32_t tokens = 0;             // in the step
  std::vector<std::uint32_t> experts;   // ascending
  std::vector<std::uint32_t> foreseen;  // for it, likeliest first; each once
};

struct Trace {
  std::uint64_t layers = 0;
  std::uint64_t experts = 0;
  std::uint64_t expert_bytes = 0;  // of one, on disk
  std::vector<TraceVisit> visits;

  std::uint64_t tokens() const;  // in all steps
};

// kCorrupt naming `origin` and the line.
Trace parse_trace(std::string_view text, const std::string& origin);
Trace load_trace(const std::filesystem::path& path);

// Writes while a model runs.
class TraceWriter {
 public:
  TraceWriter(const std::filesystem::path& path, std::uint64_t layers, std::uint64_t experts,
              std::uint64_t expert_bytes);
  void visit(std::uint32_t layer, std::span<const RoutedToken> routed);
  // For the next visit of this layer.
  void foresee(std::uint32_t layer, std::span<const std::uint32_t> experts);
  void finish();  // kIo if not everything could be written

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  std::vector<std::vector<std::uint32_t>> foreseen_;  // [layers]
};

}  // namespace perigee
