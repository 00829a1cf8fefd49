// Writes the seed corpora of the fuzz targets from the malformed tables of the unit tests and some valid
// inputs:
//   make_corpus tests/fuzz/corpus
// Run it after adding a row, and commit what it wrote. Inputs that a fuzzer found are added beside them by
// hand.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "base/file.h"
#include "checkpoint/malformed_cases.h"
#include "experts/small_store_index.h"

namespace perigee::test {
namespace {

namespace fs = std::filesystem;

// A fuzzer works best from small seeds.
constexpr std::size_t kMaxSeedBytes = 4096;

std::string with_data_size(std::uint64_t data, const std::string& json) {
  std::string bytes;
  for (int i = 0; i < 8; ++i, data >>= 8) bytes += static_cast<char>(data & 0xFF);
  return bytes + json;
}

void write_seed(const fs::path& folder, const std::string& name, const std::string& bytes) {
  if (bytes.size() > kMaxSeedBytes) return;
  fs::create_directories(folder);
  write_file_atomically(folder / name, bytes);
}

void write_headers(const fs::path& folder) {
  for (const auto& cases : {malformed_headers(), malformed_layouts()}) {
    for (const MalformedCase& input : cases)
      write_seed(folder, input.name, with_data_size(input.data, input.bytes));
  }
  write_seed(folder, "valid-empty", with_data_size(0, "{}"));
  write_seed(folder, "valid-metadata", with_data_size(0, R"({"__metadata__":{"format":"pt"}}     )"));
  write_seed(
      folder, "valid-tensors",
      with_data_size(
          20, object(tensor("a", "BF16", "2,3", 0, 12) + "," + tensor("none", "F32", "0,7", 12, 12) + "," +
                     tensor("\\u00e9", "F4", "8", 12, 16) + "," + tensor("scalar", "F32", "", 16, 20))));
}

void write_store_indexes(const fs::path& folder) {
  StoreIndex index = small_index();
  const std::string valid = serialize_store_index(index);
  write_seed(folder, "valid", valid);
  write_seed(folder, "cut", valid.substr(0, valid.size() - 24));
  index.linked = true;
  index.table.records[1].offset = 8191;
  write_seed(folder, "valid-linked", serialize_store_index(index));
  index.table.records[1].offset = 4095;
  write_seed(folder, "overlap", serialize_store_index(index));
  index = small_index();
  index.table.layouts = {record_layout(expert_matrices(WeightFormat::kNvfp4, 32, 96))};
  write_seed(folder, "valid-nvfp4", serialize_store_index(index));
  write_seed(folder, "valid-empty", serialize_store_index(StoreIndex()));
}

void write_all(const fs::path& corpus) {
  write_store_indexes(corpus / "fuzz_store_index");
  write_headers(corpus / "fuzz_safetensors_header");
  for (const MalformedCase& input : malformed_indexes())
    write_seed(corpus / "fuzz_index", input.name, input.bytes);
  write_seed(corpus / "fuzz_index", "valid",
             R"({"metadata":{"total_size":12},"weight_map":{"a":"m.safetensors","b":"n.safetensors"}})");
  for (const MalformedCase& input : malformed_configs())
    write_seed(corpus / "fuzz_config", input.name, input.bytes);
  write_seed(corpus / "fuzz_config", "valid", valid_config());
}

}  // namespace
}  // namespace perigee::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  try {
    perigee::test::write_all(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
