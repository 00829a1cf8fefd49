// tests/data/text/pieces.json: what tiktoken and Python make of texts and byte strings
// (tools/make_piece_vectors.py).
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/paths.h"

namespace perigee::test {

inline const nlohmann::json& piece_vectors() {
  static const nlohmann::json vectors =
      nlohmann::json::parse(std::ifstream(data_folder() / "text" / "pieces.json"));
  return vectors;
}

inline std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace perigee::test
