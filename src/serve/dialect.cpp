#include "serve/dialect.h"

#include "media/decode_image.h"
#include "text/json_fields.h"

namespace perigee {

void check_model_name(const ServedModel& model, const std::string& name, const std::string& param) {
  for (const std::string& known : model.names) {
    if (known == name) return;
  }
  throw ApiError(ApiFault::kModelNotFound,
                 fmt::format("the model {} is not served here; this server has {}",
                             name.size() > 100 ? "of that name" : name, model.names.front()),
                 param);
}

ImageReader refuse_images() {
  return [](const std::string& url, const JsonNode&, const std::string& param) -> ImageSize {
    if (!url.starts_with("data:")) {
      refuse(param, "is no data URL; this server fetches nothing, send the image itself in base64");
    }
    refuse(param, "is an image, and the model that is served here sees none; send text only");
  };
}

ImageReader decode_images() {
  return [](const std::string& url, const JsonNode&, const std::string& param) -> ImageSize {
    try {
      const DecodedImage image = decode_data_url(url, param);
      return {image.width, image.height};
    } catch (const Error& error) {
      throw RequestError(param, error.what());
    }
  };
}

void check_request_model(const JsonNode& request, const ServedModel& model) {
  if (const auto name = find_string(request, "model", "")) check_model_name(model, *name, "model");
}

}  // namespace perigee
