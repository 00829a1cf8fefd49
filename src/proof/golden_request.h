// Requests of golden files, rendered under the rules that the expected values were made by: everything that
// the released encoder accepts, and no effort message unless the request asks for one.
#pragma once

#include <string>
#include <vector>

#include "text/json_tree.h"
#include "text/prompt.h"

namespace perigee {

// Sizes that a request states as "image_prompts": ["<|media_begin|>image 640x480<|media_content|>…"], the
// form of the released encoder's tests. Empty if there are none; kCorrupt if an entry has another form.
std::vector<ImageSize> stated_image_sizes(const JsonNode& request);

std::vector<Segment> render_golden(const JsonNode& request, GenerationPrompt generation);
// `request` as JSON text.
std::vector<Segment> render_golden(const std::string& request, GenerationPrompt generation);

}  // namespace perigee
