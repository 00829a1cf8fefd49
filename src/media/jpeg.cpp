#include <array>
#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which wants FILE

// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "media/formats.h"

namespace perigee {
namespace {

// A progressive image is decoded once a scan, and a small file can hold thousands of them.
constexpr int kMostScans = 200;

// libjpeg reports errors by a jump. Nothing with a destructor is made in the functions that can be jumped out
// of.
class JpegDecoder {
 public:
  explicit JpegDecoder(const ImageFile& file) : file_(file) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    progress_.progress_monitor = on_progress;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&jpeg_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  DecodedImage decode() {
    if (!read_header()) refuse_image(file_, message_.data());
    DecodedImage image = make_image(file_, jpeg_.image_width, jpeg_.image_height, pixel_format());
    if (!read_rows(image.pixels.data(), row_bytes(image.format, image.width))) {
      refuse_image(file_, message_.data());
    }
    // spec/vision.md §0b.6: files of this kind store ink the other way round.
    if (image.format == PixelFormat::kCmyk) {
      for (std::uint8_t& ink : image.pixels) ink = static_cast<std::uint8_t>(255 - ink);
    }
    return image;
  }

 private:
  [[noreturn]] static void on_error(j_common_ptr jpeg) {
    auto& self = *static_cast<JpegDecoder*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, self.message_.data());
    std::longjmp(self.jump_, 1);
  }

  // Warnings are negative. Most are passed over, as Pillow does; behind the end of the file libjpeg would
  // paint gray.
  static void on_message(j_common_ptr jpeg, int level) {
    if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) stop(jpeg, "the file is cut off");
  }

  static void on_progress(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > kMostScans)
      stop(jpeg, "it has too many scans");
  }

  [[noreturn]] static void stop(j_common_ptr jpeg, const char* reason) {
    auto& self = *static_cast<JpegDecoder*>(jpeg->client_data);
    std::snprintf(self.message_.data(), self.message_.size(), "%s", reason);
    std::longjmp(self.jump_, 1);
  }

  bool read_header() {
    if (setjmp(jump_) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, file_.bytes.data(), file_.bytes.size());
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }

  PixelFormat pixel_format() const {
    switch (jpeg_.num_components) {
      case 1:
        return PixelFormat::kGray;
      case 3:
        return PixelFormat::kRgb;
      case 4:
        return PixelFormat::kCmyk;
      default:
        refuse_image(file_, fmt::format("it has {} colour components", jpeg_.num_components));
    }
  }

  bool read_rows(std::uint8_t* pixels, std::size_t row) {
    if (setjmp(jump_) != 0) return false;
    jpeg_.out_color_space = jpeg_.num_components == 1   ? JCS_GRAYSCALE
                            : jpeg_.num_components == 3 ? JCS_RGB
                                                        : JCS_CMYK;
    jpeg_start_decompress(&jpeg_);
    while (jpeg_.output_scanline < jpeg_.output_height) {
      JSAMPROW to = pixels + jpeg_.output_scanline * row;
      jpeg_read_scanlines(&jpeg_, &to, 1);
    }
    return true;
  }

  const ImageFile& file_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  std::array<char, JMSG_LENGTH_MAX> message_{};
};

}  // namespace

DecodedImage decode_jpeg(const ImageFile& file) {
  return JpegDecoder(file).decode();
}

}  // namespace perigee
