// Sets of code points as ascending ranges: the classes of a pattern.
#pragma once

#include <vector>

#include "grammar/json_words.h"

namespace perigee {

using CodePointSet = std::vector<CodePointRange>;

// Ascending, no two ranges touch.
CodePointSet normalised(CodePointSet set);
CodePointSet complement(CodePointSet set);

CodePointSet every_code_point();
CodePointSet digit_code_points();  // \d
CodePointSet word_code_points();   // \w
CodePointSet space_code_points();  // \s
CodePointSet line_code_points();   // what . matches

}  // namespace perigee
