// Inputs that must be refused, each with the sentence it must be refused with. The tests check every row; the
// seed corpora of the fuzz targets are made from the same rows. For tests only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perigee::test {

struct MalformedCase {
  std::string name;        // also the name of a file in a seed corpus
  std::string bytes;       // of a header: the JSON; of a file: everything
  std::string sentence;    // what follows the file's name in the error
  std::uint64_t data = 0;  // headers only: bytes of the data buffer
};

// JSON of one entry: tensor("a", "U8", "2,3", 0, 6) is "a":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]}.
std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   std::uint64_t begin, std::uint64_t end);

// The entries in braces.
std::string object(const std::string& entries);

std::vector<MalformedCase> malformed_headers();  // rules of JSON and of one tensor
std::vector<MalformedCase> malformed_layouts();  // rules between tensors
std::vector<MalformedCase> malformed_files();    // rules before the JSON; `bytes` is the whole file
std::vector<MalformedCase> malformed_indexes();
std::vector<MalformedCase> malformed_configs();

// A config.json as small as it may be: 3 layers, the last of them MLA. Some tests replace parts of its text.
std::string valid_config();

}  // namespace perigee::test
