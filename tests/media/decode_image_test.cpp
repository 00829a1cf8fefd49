// Decoded pixels against Pillow's (tests/data/media, tools/make_image_vectors.py), and what hostile files
// get.
#include "media/decode_image.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "media/image_bytes.h"
#include "support/paths.h"

namespace perigee {
namespace {

using nlohmann::json;

const std::map<std::string, PixelFormat> kPillowModes = {
    {"1", PixelFormat::kBits},       {"P", PixelFormat::kIndex},     {"L", PixelFormat::kGray},
    {"LA", PixelFormat::kGrayAlpha}, {"I;16", PixelFormat::kGray16}, {"RGB", PixelFormat::kRgb},
    {"RGBA", PixelFormat::kRgba},    {"CMYK", PixelFormat::kCmyk},
};

json read_json(const std::filesystem::path& path) {
  return json::parse(std::ifstream(path));
}

void expect_decoded(const std::filesystem::path& path, const json& size, const std::string& mode,
                    const std::string& sha256) {
  SCOPED_TRACE(path.filename());
  const DecodedImage image = decode_image(test::bytes_of(read_small_file(path, 1 << 20)), "image");
  EXPECT_EQ(json::array({image.width, image.height}), size);
  EXPECT_EQ(image.format, kPillowModes.at(mode));
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span(image.pixels))), sha256);
}

TEST(DecodeImage, GivesThePixelsThatPillowGives) {
  const json expected = read_json(test::data_folder() / "media" / "decoded.json");
  ASSERT_EQ(expected.size(), 26U);
  for (const auto& [name, one] : expected.items())
    expect_decoded(test::data_folder() / "media" / name, one["size"], one["mode"], one["sha256"]);
}

TEST(DecodeImage, GivesThePixelsOfTheReleasedProcessor) {
  const std::filesystem::path folder = test::shared_folder() / "goldens" / "vision";
  if (!exists(folder)) GTEST_SKIP() << "the vision goldens are not here";
  const json golden = read_json(folder / "preprocess.json");
  ASSERT_EQ(golden["images"].size(), 33U);
  for (const json& one : golden["images"]) {
    expect_decoded(folder / "images" / one["file"].get<std::string>(), one["original"], one["pillow_mode"],
                   one["decoded_sha256"]);
  }
}

std::string refusal_of(const std::string& bytes, const ImageLimits& limits = {}) {
  try {
    decode_image(test::bytes_of(bytes), "messages[0]", limits);
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("messages[0] ")) << error.what();
    EXPECT_TRUE(error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kUnsupported);
    return error.what();
  }
  return "";
}

struct Malformed {
  const char* name;
  std::string bytes;
  const char* says;
};

std::vector<Malformed> malformed_images() {
  using namespace test;
  const std::string png = image_file("15_png_rgb_1x1.png"), jpeg = image_file("01_jpeg_420_61x47.jpg");
  const std::string gif = image_file("31_gif_gray_40x30.gif"), webp = image_file("13_webp_lossy_52x44.webp");
  return {
      {"empty", "", "send PNG, JPEG, WebP or GIF"},
      {"text", "plain words, no picture", "send PNG, JPEG, WebP or GIF"},
      {"svg", "<svg xmlns='http://www.w3.org/2000/svg'/>", "send PNG, JPEG, WebP or GIF"},
      {"sound", "RIFF\x10" + std::string(3, '\0') + "WAVEfmt ", "send PNG, JPEG, WebP or GIF"},
      {"png-begins", png.substr(0, 8), "PNG that cannot be decoded: the file is cut off"},
      {"png-header-only", png.substr(0, 33), "PNG that cannot be decoded: the file is cut off"},
      {"png-no-width", png_of(0, 3), "PNG that cannot be decoded"},
      {"png-bomb", png_of(200'000, 200'000), "PNG of 200000x200000 pixels; send one of at most 64000000"},
      {"png-widest", png_of(0x7FFFFFFF, 0x7FFFFFFF), "2147483647x2147483647 pixels"},
      {"png-checksum", with_byte(png, 30, '\x55'), "PNG that cannot be decoded"},
      {"png-pixels-missing", png_of(3, 3), "PNG that cannot be decoded"},
      {"jpeg-begins", jpeg.substr(0, 3), "JPEG that cannot be decoded"},
      {"jpeg-cut", jpeg.substr(0, jpeg.size() - 200), "JPEG that cannot be decoded: the file is cut off"},
      {"jpeg-bomb", jpeg_of(65'500, 65'500), "JPEG of 65500x65500 pixels"},
      {"jpeg-scans", jpeg_with_scans(image_file("03_jpeg_422_progressive_icc_63x40.jpg"), 400),
       "too many scans"},
      {"gif-begins", gif.substr(0, 6), "GIF that cannot be decoded"},
      {"gif-cut", gif.substr(0, gif.size() / 2), "GIF that cannot be decoded: the file is cut off"},
      {"gif-bomb", gif_of(65'535, 65'535), "GIF of 65535x65535 pixels"},
      {"gif-no-frame", std::string("GIF89a\3\0\3\0\0\0\0;", 14),
       "GIF that cannot be decoded: it has no frame"},
      {"webp-begins", webp.substr(0, 12), "WebP that cannot be decoded"},
      {"webp-cut", webp.substr(0, webp.size() / 2), "WebP that cannot be decoded: the file is cut off"},
      {"webp-bomb", webp_of(16'383, 16'383), "WebP of 16383x16383 pixels"},
      {"webp-animation-cut", image_file("34_webp_animated_20x14.webp").substr(0, 80),
       "WebP that cannot be decoded"},
  };
}

TEST(DecodeImage, RefusesMalformedFilesAndSaysWhy) {
  for (const Malformed& one : malformed_images()) {
    const std::string sentence = refusal_of(one.bytes);
    EXPECT_NE(sentence.find(one.says), std::string::npos) << one.name << ": " << sentence;
  }
}

TEST(DecodeImage, TakesNoMoreThanTheLimit) {
  const std::string png = test::image_file("12_png_rgb_adam7_gamma_43x37.png");
  EXPECT_EQ(refusal_of(png, {.most_pixels = 43 * 37}), "");
  EXPECT_NE(refusal_of(png, {.most_pixels = 43 * 37 - 1}), "");
}

// Cut anywhere: refused, or decoded as the whole is where only what stands behind the pixels is missing.
TEST(DecodeImage, RefusesFilesThatAreCutOff) {
  for (const char* name : {"01_jpeg_420_61x47.jpg", "04_jpeg_gray_45x33.jpg", "11_png_1bit_31x17.png",
                           "13_webp_lossy_52x44.webp", "24_png_rgb_colourkey_30x26.png",
                           "26_gif_two_frames_transparent_36x30.gif", "34_webp_animated_20x14.webp"}) {
    SCOPED_TRACE(name);
    const std::string whole = test::image_file(name);
    const DecodedImage image = decode_image(test::bytes_of(whole), "image");
    std::size_t refused = 0;
    for (std::size_t kept = 0; kept < whole.size(); ++kept) {
      const std::string cut = whole.substr(0, kept);
      if (!refusal_of(cut).empty()) {
        ++refused;
      } else {
        EXPECT_EQ(decode_image(test::bytes_of(cut), "image").pixels, image.pixels) << kept;
      }
    }
    EXPECT_GT(refused, whole.size() / 3);
  }
}

TEST(DecodeImage, SurvivesChangedBytes) {
  for (const char* name :
       {"03_jpeg_422_progressive_icc_63x40.jpg", "05_jpeg_cmyk_40x30.jpg", "29_png_palette_2bit_31x30.png",
        "27_webp_lossy_alpha_40x41.webp", "36_gif_frame_inside_screen_30x28.gif"}) {
    const std::string whole = test::image_file(name);
    for (std::size_t i = 0; i < whole.size(); ++i)
      refusal_of(test::with_byte(whole, i, static_cast<char>(whole[i] ^ 0xA5)), {.most_pixels = 1 << 20});
  }
}

TEST(DecodeDataUrl, DecodesWhatTheBytesAreWhateverTheTypeSays) {
  const std::string png =
      "iVBORw0KGgoAAAANSUhEUgAAAB4AAAAUCAIAAAAVyRqTAAAAH0lEQVR42mM4ISdHI8QwavSo0aNGjxo9avSo0UPRaAA3"
      "1GF/7VwxqQAAAABJRU5ErkJggg==";
  for (const char* type : {"image/png", "image/jpeg", "", "image/png;charset=none"}) {
    const DecodedImage image = decode_data_url("data:" + std::string(type) + ";base64," + png, "image_url");
    EXPECT_EQ(image.width, 30U);
    EXPECT_EQ(image.height, 20U);
  }
}

TEST(DecodeDataUrl, RefusesOtherUrls) {
  const std::map<std::string, std::string> cases = {
      {"", "is no data URL"},
      {"http://example.com/a.png", "is no data URL"},
      {"/etc/passwd", "is no data URL"},
      {"data:", "without base64"},
      {"data:image/png,abcd", "without base64"},
      {"data:image/png;base64", "without base64"},
      {"data:image/png;base64,", "other characters than base64"},
      {"data:image/png;base64,@@@@", "other characters than base64"},
      {"data:image/png;base64,abc", "other characters than base64"},
      {"data:image/png;base64,cGxhaW4gd29yZHM=", "send PNG, JPEG, WebP or GIF"},
  };
  for (const auto& [url, says] : cases) {
    try {
      decode_data_url(url, "image_url");
      ADD_FAILURE() << url;
    } catch (const Error& error) {
      const std::string sentence = error.what();
      EXPECT_TRUE(sentence.starts_with("image_url ")) << sentence;
      EXPECT_NE(sentence.find(says), std::string::npos) << sentence;
    }
  }
}

}  // namespace
}  // namespace perigee
