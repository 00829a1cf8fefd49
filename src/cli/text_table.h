// Aligned columns for the terminal. Plain text: no colours, so that a pipe gets what a screen shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perigee {

enum class Align { kLeft, kRight };

class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  explicit TextTable(std::vector<Column> columns);

  // Missing cells are empty.
  void add_row(std::vector<std::string> cells);
  void add_rule();
  // Two blanks between columns, a rule under the titles, no trailing blanks.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

// 1234567 -> "1,234,567"
std::string with_commas(std::uint64_t number);
// "6.3 %"; "-" if the whole is nothing.
std::string percent(double part, double whole);
// "s" unless there is exactly one.
const char* plural(std::uint64_t count);

}  // namespace perigee
