#include "serve/request_places.h"

namespace perigee {
namespace {

bool is_at_or_below(const std::string& param, const std::string& place) {
  return param.starts_with(place) &&
         (param.size() == place.size() || param[place.size()] == '.' || param[place.size()] == '[');
}

}  // namespace

std::string RequestPlaces::sent(const std::string& chat) const {
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& name : names_) {
    const bool longer = best == nullptr || name.first.size() > best->first.size();
    if (longer && is_at_or_below(chat, name.first)) best = &name;
  }
  return best == nullptr ? chat : best->second + chat.substr(best->first.size());
}

// Sentences begin with the place.
std::string RequestPlaces::sentence(const std::string& text, const std::string& chat) const {
  if (chat.empty() || !text.starts_with(chat)) return text;
  return sent(chat) + text.substr(chat.size());
}

}  // namespace perigee
