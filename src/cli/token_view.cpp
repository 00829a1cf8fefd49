#include "cli/token_view.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "cli/choice.h"
#include "text/utf8.h"

namespace perigee {
namespace {

constexpr std::size_t kDefaultColumns = 100;
constexpr const char* kReset = "\x1b[0m";
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kMarkup = "\x1b[1;36m";               // bold cyan
constexpr const char* kSpecial = "\x1b[48;5;88;38;5;231m";  // white on dark red
constexpr const char* kGrounds[] = {"\x1b[48;5;153;38;5;16m",
                                    "\x1b[48;5;223;38;5;16m"};  // black on blue, sand

struct Range {
  char32_t first, last;
};

// East Asian wide and emoji, coarsely: a wrong guess moves an id by a column and nothing else.
constexpr std::array<Range, 9> kWide = {{{0x1100, 0x115F},
                                         {0x2E80, 0x303E},
                                         {0x3041, 0xA4CF},
                                         {0xAC00, 0xD7A3},
                                         {0xF900, 0xFAFF},
                                         {0xFE30, 0xFE6F},
                                         {0xFF00, 0xFF60},
                                         {0x1F300, 0x1FAFF},
                                         {0x20000, 0x3FFFD}}};
constexpr std::array<Range, 6> kNoWidth = {{{0x0300, 0x036F},
                                            {0x200B, 0x200F},
                                            {0x20D0, 0x20FF},
                                            {0xFE00, 0xFE0F},
                                            {0xFE20, 0xFE2F},
                                            {0xE0100, 0xE01EF}}};

template <std::size_t N>
bool contains(const std::array<Range, N>& ranges, char32_t c) {
  return std::ranges::any_of(ranges, [c](Range range) { return c >= range.first && c <= range.last; });
}

bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0);
}

// Calls `each` with every character, or with an invalid part, as bytes.
template <typename Each>
void for_each_character(std::string_view text, Each&& each) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    each(point, text.substr(at, point.bytes));
    at += point.bytes;
  }
}

void append_hex(std::string& out, std::string_view bytes) {
  for (const char c : bytes)
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
}

struct Cell {
  std::string text, id;
  std::size_t text_columns, columns;
  bool special, ends_line;
};

Cell make_cell(TokenId id, const Vocabulary& vocabulary) {
  const std::string_view bytes = vocabulary.bytes(id);
  Cell cell{visible_text(bytes), std::to_string(id), 0, 0, vocabulary.is_special(id), bytes.ends_with('\n')};
  cell.text_columns = display_columns(cell.text);
  cell.columns = std::max(cell.text_columns, cell.id.size());
  return cell;
}

void print_row(const std::vector<Cell>& row, bool colours, bool odd, OutputBuffer& out) {
  const char* const parting = colours ? " " : "|";
  std::string texts, ids;
  for (const Cell& cell : row) {
    odd = !odd;
    if (&cell != row.data()) {
      texts += parting;
      ids += ' ';
    }
    const std::string padded = cell.text + std::string(cell.columns - cell.text_columns, ' ');
    texts += colours ? fmt::format("{}{}{}", cell.special ? kSpecial : kGrounds[odd ? 0 : 1], padded, kReset)
                     : padded;
    ids += cell.id + std::string(cell.columns - cell.id.size(), ' ');
  }
  for (std::string* line : {&texts, &ids}) line->erase(line->find_last_not_of(' ') + 1);
  out.add(colours ? fmt::format("{}\n{}{}{}\n", texts, kDim, ids, kReset)
                  : fmt::format("{}\n{}\n", texts, ids));
}

}  // namespace

void add_colour_option(CLI::App& command, ColourChoice& choice) {
  add_choice(
      command, "--color", choice,
      {{"auto", ColourChoice::kAuto}, {"always", ColourChoice::kAlways}, {"never", ColourChoice::kNever}},
      "Colours; auto: if the output is a terminal");
}

bool use_colours(ColourChoice choice) {
  if (choice == ColourChoice::kAuto) return ::isatty(STDOUT_FILENO) != 0;
  return choice == ColourChoice::kAlways;
}

std::string visible_text(std::string_view bytes) {
  std::string out;
  for_each_character(bytes, [&](CodePoint point, std::string_view character) {
    if (point.valid && point.value == ' ') {
      out += "·";
    } else if (point.valid && point.value == '\n') {
      out += "↵";
    } else if (point.valid && point.value == '\t') {
      out += "→";
    } else if (!point.valid || is_control(point.value)) {
      append_hex(out, character);
    } else {
      out += character;
    }
  });
  return out;
}

std::string harmless_text(std::string_view bytes) {
  std::string out;
  for_each_character(bytes, [&](CodePoint point, std::string_view character) {
    const bool layout = point.value == '\n' || point.value == '\t';
    if (point.valid && (layout || !is_control(point.value))) {
      out += character;
    } else {
      append_hex(out, character);
    }
  });
  return out;
}

std::size_t display_columns(std::string_view text) {
  std::size_t columns = 0;
  for_each_character(text, [&](CodePoint point, std::string_view) {
    if (!contains(kNoWidth, point.value)) columns += contains(kWide, point.value) ? 2 : 1;
  });
  return columns;
}

std::size_t output_columns() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kDefaultColumns;
}

void print_tokens(std::span<const TokenId> ids, const Vocabulary& vocabulary, bool colours,
                  std::size_t columns, OutputBuffer& out) {
  std::vector<Cell> row;
  std::size_t used = 0;
  bool odd = false;
  const auto end_row = [&] {
    print_row(row, colours, odd, out);
    odd ^= row.size() % 2 == 1;
    row.clear();
    used = 0;
  };
  for (const TokenId id : ids) {
    Cell cell = make_cell(id, vocabulary);
    if (!row.empty() && used + 1 + cell.columns > columns) end_row();
    used += cell.columns + (row.empty() ? 0 : 1);
    const bool last_of_line = cell.ends_line;
    row.push_back(std::move(cell));
    if (last_of_line) end_row();
  }
  if (!row.empty()) end_row();
}

std::string markup_text(std::string_view text, bool colours) {
  return colours ? fmt::format("{}{}{}", kMarkup, text, kReset) : std::string(text);
}

}  // namespace perigee
