// What tests of whole conversions share: run one on a golden source, and compare folders.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "convert/convert.h"
#include "support/golden.h"
#include "support/mini_safetensors.h"

namespace perigee::test {

// Quiet options for source -> output.
ConvertOptions convert_options(const std::filesystem::path& source, const std::filesystem::path& output);

// Every regular file below a folder: relative path -> bytes.
std::map<std::string, std::string> folder_contents(const std::filesystem::path& folder);

// `nibbles` with 0 wherever the nibble of `source` is 8 (-0), which is what ModelOpt stores there.
std::vector<std::byte> with_zeros_where_negative(std::vector<std::byte> nibbles,
                                                 const std::vector<std::byte>& source);

}  // namespace perigee::test
