// Reads the expected values of this folder's tests with a JSON reader that is not the one under test.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "support/paths.h"

namespace perigee::test {

// One list of a file below tests/data/text. By value, so that a loop may run over the call itself.
inline nlohmann::json read_text_data(const std::string& name, const std::string& list) {
  std::ifstream file(data_folder() / "text" / name);
  nlohmann::json cases = nlohmann::json::parse(file).at(list);
  if (cases.empty()) throw std::runtime_error(name + " has no " + list);  // a loop over nothing would pass
  return cases;
}

}  // namespace perigee::test
