#include "cli/demo_tools.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

namespace perigee {
namespace {

std::string calculate(const nlohmann::json& arguments) {
  const auto number = [&](const char* name) -> std::optional<double> {
    const auto found = arguments.find(name);
    if (found == arguments.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
  };
  const std::optional<double> a = number("a"), b = number("b");
  if (!a || !b) return "error: a and b must be numbers";
  const auto operation = arguments.find("operation");
  const std::string word =
      operation != arguments.end() && operation->is_string() ? operation->get<std::string>() : "";
  if (word == "add") return fmt::format("{}", *a + *b);
  if (word == "subtract") return fmt::format("{}", *a - *b);
  if (word == "multiply") return fmt::format("{}", *a * *b);
  if (word == "divide") return *b == 0 ? "error: division by zero" : fmt::format("{}", *a / *b);
  return "error: operation must be add, subtract, multiply or divide";
}

}  // namespace

const std::string& demo_tools_json() {
  static const std::string json =
      R"([{"function":{"description":"Calculates with two numbers.","name":"calculate","parameters":{"properties":{)"
      R"("a":{"type":"number"},"b":{"type":"number"},"operation":{"enum":["add","subtract","multiply","divide"],)"
      R"("type":"string"}},"required":["a","b","operation"],"type":"object"}},"type":"function"},)"
      R"({"function":{"description":"The present date and time, UTC.","name":"clock","parameters":{"properties":{},)"
      R"("type":"object"}},"type":"function"}])";
  return json;
}

std::vector<std::string> demo_tool_names() {
  return {"calculate", "clock"};
}

std::string call_demo_tool(const ReplyCall& call) {
  if (call.name == "clock") return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(std::time(nullptr)));
  if (call.name != "calculate") return fmt::format("error: there is no tool {}", call.name);
  const nlohmann::json arguments = nlohmann::json::parse(call.arguments, nullptr, false);
  return arguments.is_object() ? calculate(arguments) : "error: the arguments are no JSON object";
}

}  // namespace perigee
