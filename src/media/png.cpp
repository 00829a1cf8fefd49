#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "media/formats.h"

namespace perigee {
namespace {

// libpng reports errors by a jump. Nothing with a destructor is made in the functions that can be jumped out
// of.
class PngDecoder {
 public:
  explicit PngDecoder(const ImageFile& file)
      : file_(file),
        left_(file.bytes),
        png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning)),
        info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {}
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  DecodedImage decode() {
    if (info_ == nullptr) refuse_image(file_, "there is no memory for it");
    if (!read_header()) refuse_image(file_, message_.data());
    DecodedImage image = make_image(file_, png_get_image_width(png_, info_),
                                    png_get_image_height(png_, info_), pixel_format());
    if (!read_rows(image.pixels.data(), row_bytes(image.format, image.width), image.height)) {
      refuse_image(file_, message_.data());
    }
    if (image.format == PixelFormat::kBits) clear_unused_bits(image);
    return image;
  }

 private:
  static void on_error(png_structp png, png_const_charp message) {
    auto& self = *static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(self.message_.data(), self.message_.size(), "%s", message);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}

  static void read(png_structp png, png_bytep to, std::size_t count) {
    auto& self = *static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > self.left_.size()) png_error(png, "the file is cut off");
    std::memcpy(to, self.left_.data(), count);
    self.left_ = self.left_.subspan(count);
  }

  bool read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, read);
    png_set_user_limits(png_, PNG_UINT_31_MAX,
                        PNG_UINT_31_MAX);  // make_image has its own, and a better sentence
    // Only header, palette and pixels are read: no gamma, profile or text, which are not applied.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    return true;
  }

  // spec/vision.md §2.3: 16 bits of colour keep their high byte, gray ones stay.
  PixelFormat pixel_format() const {
    const bool wide = png_get_bit_depth(png_, info_) == 16;
    switch (png_get_color_type(png_, info_)) {
      case PNG_COLOR_TYPE_PALETTE:
        return PixelFormat::kIndex;
      case PNG_COLOR_TYPE_GRAY_ALPHA:
        return PixelFormat::kGrayAlpha;
      case PNG_COLOR_TYPE_RGB:
        return PixelFormat::kRgb;
      case PNG_COLOR_TYPE_RGB_ALPHA:
        return PixelFormat::kRgba;
      default:
        if (wide) return PixelFormat::kGray16;
        return png_get_bit_depth(png_, info_) == 1 ? PixelFormat::kBits : PixelFormat::kGray;
    }
  }

  bool read_rows(std::uint8_t* pixels, std::size_t row, std::uint32_t height) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const int depth = png_get_bit_depth(png_, info_);
    const int colours = png_get_color_type(png_, info_);
    if (depth == 16 && colours == PNG_COLOR_TYPE_GRAY) png_set_swap(png_);
    if (depth == 16 && colours != PNG_COLOR_TYPE_GRAY) png_set_strip_16(png_);
    if (colours == PNG_COLOR_TYPE_PALETTE) png_set_packing(png_);
    if (depth > 1 && depth < 8 && colours == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != row) png_error(png_, "its rows have an unexpected length");
    for (int pass = 0; pass < passes; ++pass) {
      for (std::uint32_t y = 0; y < height; ++y) png_read_row(png_, pixels + y * row, nullptr);
    }
    return true;
  }

  // The file may hold anything behind the last pixel of a row.
  static void clear_unused_bits(DecodedImage& image) {
    const std::size_t row = row_bytes(image.format, image.width), unused = row * 8 - image.width;
    for (std::size_t end = row; end <= image.pixels.size(); end += row) {
      image.pixels[end - 1] = static_cast<std::uint8_t>(image.pixels[end - 1] >> unused << unused);
    }
  }

  const ImageFile& file_;
  std::span<const std::uint8_t> left_;
  std::array<char, 160> message_{};
  png_structp png_;
  png_infop info_;
};

}  // namespace

DecodedImage decode_png(const ImageFile& file) {
  return PngDecoder(file).decode();
}

}  // namespace perigee
