#include "grammar/code_point_set.h"

#include <algorithm>
#include <utility>

namespace perigee {
namespace {

constexpr char32_t kLast = 0x10FFFF;

}  // namespace

CodePointSet normalised(CodePointSet set) {
  std::ranges::sort(set, {}, &CodePointRange::first);
  CodePointSet merged;
  for (const CodePointRange& range : set) {
    if (!merged.empty() && range.first <= merged.back().last + 1)
      merged.back().last = std::max(merged.back().last, range.last);
    else
      merged.push_back(range);
  }
  return merged;
}

CodePointSet complement(CodePointSet set) {
  CodePointSet rest;
  char32_t next = 0;
  for (const CodePointRange& range : normalised(std::move(set))) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) rest.push_back({next, kLast});
  return rest;
}

CodePointSet every_code_point() {
  return {{0, kLast}};
}

CodePointSet digit_code_points() {
  return {{'0', '9'}};
}

CodePointSet word_code_points() {
  return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
}

CodePointSet space_code_points() {
  return {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

CodePointSet line_code_points() {
  return complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
}

}  // namespace perigee
