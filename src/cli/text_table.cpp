#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace perigee {
namespace {

// Columns on a terminal: bytes that begin a UTF-8 character.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void append_cell(std::string& line, const std::string& cell, std::size_t width, Align align) {
  const std::string padding(width - std::min(width, width_of(cell)), ' ');
  line += align == Align::kRight ? padding + cell : cell + padding;
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void TextTable::add_rule() {
  rows_.emplace_back();
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  std::size_t total = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = width_of(columns_[i].title);
    for (const auto& row : rows_) {
      if (!row.empty()) width = std::max(width, width_of(row[i]));
    }
    widths.push_back(width);
    total += width + (i > 0 ? 2 : 0);
  }
  std::string rule;
  for (std::size_t i = 0; i < total; ++i) rule += "─";
  const auto line_of = [&](auto cell) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) line += "  ";
      append_cell(line, cell(i), widths[i], columns_[i].align);
    }
    return without_trailing_blanks(std::move(line));
  };
  std::string text = line_of([&](std::size_t i) { return columns_[i].title; }) + rule + '\n';
  for (const auto& row : rows_)
    text += row.empty() ? rule + '\n' : line_of([&](std::size_t i) { return row[i]; });
  return text;
}

std::string with_commas(std::uint64_t number) {
  if (number < 1000) return fmt::format("{}", number);
  return fmt::format("{},{:03}", with_commas(number / 1000), number % 1000);
}

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100.0 * part / whole) : "-";
}

const char* plural(std::uint64_t count) {
  return count == 1 ? "" : "s";
}

}  // namespace perigee
