// What the places of a chat request are called in the request that it was made from, so that an error names
// the field that the client sent.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "serve/api_error.h"
#include "text/conversation_json.h"

namespace perigee {

class RequestPlaces {
 public:
  // `chat` and everything below it is called `sent`; of several names for a place the longest counts.
  void add(std::string chat, std::string sent) { names_.emplace_back(std::move(chat), std::move(sent)); }

  std::string sent(const std::string& chat) const;

  // What `read` returns; the errors that it throws are renamed.
  template <typename Read>
  auto renaming(const Read& read) const {
    try {
      return read();
    } catch (const RequestError& error) {
      throw RequestError(sent(error.param()), sentence(error.what(), error.param()));
    } catch (const ApiError& error) {
      throw ApiError(error.fault(), sentence(error.what(), error.param()), sent(error.param()));
    }
  }

 private:
  std::string sentence(const std::string& text, const std::string& chat) const;

  std::vector<std::pair<std::string, std::string>> names_;
};

}  // namespace perigee
