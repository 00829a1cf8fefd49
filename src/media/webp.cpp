#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>

#include "media/formats.h"

namespace perigee {
namespace {

const char* reason_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "there is no memory for it";
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "the file is cut off";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it uses a feature that the decoder lacks";
    default:
      return "its data are broken";
  }
}

void decode_still(const ImageFile& file, DecodedImage& image) {
  WebPDecoderConfig config;
  WebPInitDecoderConfig(&config);
  config.output.colorspace = image.format == PixelFormat::kRgba ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {.rgba = image.pixels.data(),
                          .stride = static_cast<int>(row_bytes(image.format, image.width)),
                          .size = image.pixels.size()};
  const VP8StatusCode status = WebPDecode(file.bytes.data(), file.bytes.size(), &config);
  if (status != VP8_STATUS_OK) refuse_image(file, reason_of(status));
}

void decode_first_frame(const ImageFile& file, DecodedImage& image) {
  WebPAnimDecoderOptions options;
  WebPAnimDecoderOptionsInit(&options);
  options.color_mode = MODE_RGBA;
  const WebPData data{.bytes = file.bytes.data(), .size = file.bytes.size()};
  const std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> decoder(
      WebPAnimDecoderNew(&data, &options), WebPAnimDecoderDelete);
  std::uint8_t* frame = nullptr;
  int timestamp = 0;
  if (decoder == nullptr || WebPAnimDecoderGetNext(decoder.get(), &frame, &timestamp) == 0) {
    refuse_image(file, "its first frame is broken or cut off");
  }
  std::copy_n(frame, image.pixels.size(), image.pixels.begin());
}

}  // namespace

DecodedImage decode_webp(const ImageFile& file) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(file.bytes.data(), file.bytes.size(), &features);
  if (status != VP8_STATUS_OK) refuse_image(file, reason_of(status));
  const bool animated = features.has_animation != 0;
  DecodedImage image = make_image(
      file, static_cast<std::uint64_t>(features.width), static_cast<std::uint64_t>(features.height),
      animated || features.has_alpha != 0 ? PixelFormat::kRgba : PixelFormat::kRgb);
  animated ? decode_first_frame(file, image) : decode_still(file, image);
  return image;
}

}  // namespace perigee
