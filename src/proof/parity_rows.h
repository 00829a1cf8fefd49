// Counts cases and keeps the first difference of each kind, cut to what a person needs to see: the place and
// a few words or ids on both sides of it. Decides nothing about what is compared.
#pragma once

#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "proof/text_parity.h"

namespace perigee {

class ParityTally {
 public:
  explicit ParityTally(std::string what) { row_.what = std::move(what); }

  // One case each. `find` gives the found value; an error that it throws is a difference.
  template <std::invocable Find>
  void text(const std::string& which, std::string_view expected, Find&& find) {
    guarded(which, [&] { compare_text(which, expected, std::invoke(find)); });
  }
  template <std::invocable Find>
  void ids(const std::string& which, std::span<const TokenId> expected, Find&& find) {
    guarded(which, [&] { compare_ids(which, expected, std::invoke(find)); });
  }
  void equal();
  void different(ParityDifference difference);

  const ParityRow& row() const { return row_; }

 private:
  template <typename Case>
  void guarded(const std::string& which, Case&& run) {
    try {
      run();
    } catch (const Error& error) {
      different({which, "no error", std::string("error: ") + error.what()});
    }
  }
  void compare_text(const std::string& which, std::string_view expected, std::string_view found);
  void compare_ids(const std::string& which, std::span<const TokenId> expected,
                   std::span<const TokenId> found);

  ParityRow row_;
};

}  // namespace perigee
