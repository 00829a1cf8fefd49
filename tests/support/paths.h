// Where tests find data: committed with the project, or, where a developer has it, beside the checkout.
#pragma once

#include <filesystem>

namespace perigee::test {

// tests/data of this checkout.
std::filesystem::path data_folder();
// The released config, index and vocabulary, which are not ours to commit; may not exist, then tests skip.
std::filesystem::path shared_folder();

}  // namespace perigee::test
