// Replays the committed inputs of a fuzz target in a unit test, so that a fault found once is looked for in
// every build. For tests only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace perigee::test {

using FuzzCheck = std::function<void(std::span<const std::uint8_t>)>;

// Calls `check` with every file of tests/fuzz/corpus/<target>, at least `at_least` of them. A check that
// fails ends the process.
void replay_corpus(const std::string& target, const FuzzCheck& check, std::size_t at_least);

}  // namespace perigee::test
