#include <gif_lib.h>

#include <algorithm>
#include <memory>

#include "media/formats.h"

namespace perigee {
namespace {

constexpr int kNoIndex = -1;

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

// The rows of an interlaced frame come in four passes.
struct Pass {
  int first, step;
};
constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
constexpr Pass kPlain[] = {{0, 1}};

class GifDecoder {
 public:
  explicit GifDecoder(const ImageFile& file) : file_(file), left_(file.bytes) {
    int error = 0;
    gif_.reset(DGifOpen(this, read, &error));
    if (gif_ == nullptr) refuse_image(file_, reason_of(error));
  }

  DecodedImage decode() {
    find_first_frame();
    const GifImageDesc& frame = gif_->Image;
    check_pixels(file_, static_cast<std::uint64_t>(frame.Width), static_cast<std::uint64_t>(frame.Height));
    DecodedImage image =
        make_image(file_, static_cast<std::uint64_t>(gif_->SWidth), static_cast<std::uint64_t>(gif_->SHeight),
                   is_gray_ramp() ? PixelFormat::kGray : PixelFormat::kIndex);
    if (transparent_ != kNoIndex) {
      std::fill(image.pixels.begin(), image.pixels.end(), static_cast<std::uint8_t>(transparent_));
    }
    read_frame(image);
    return image;
  }

 private:
  static int read(GifFileType* gif, GifByteType* to, int count) {
    auto& self = *static_cast<GifDecoder*>(gif->UserData);
    const std::size_t taken = std::min(self.left_.size(), static_cast<std::size_t>(count));
    std::copy_n(self.left_.begin(), taken, to);
    self.left_ = self.left_.subspan(taken);
    return static_cast<int>(taken);
  }

  static std::string reason_of(int error) {
    const char* words = GifErrorString(error);
    return words == nullptr ? "its data are broken" : words;
  }

  void must(int status) const {
    if (status == GIF_ERROR)
      refuse_image(file_, left_.empty() ? "the file is cut off" : reason_of(gif_->Error));
  }

  void find_first_frame() {
    while (true) {
      GifRecordType kind = UNDEFINED_RECORD_TYPE;
      must(DGifGetRecordType(gif_.get(), &kind));
      if (kind == IMAGE_DESC_RECORD_TYPE) return must(DGifGetImageDesc(gif_.get()));
      if (kind != EXTENSION_RECORD_TYPE) refuse_image(file_, "it has no frame");
      read_extension();
    }
  }

  void read_extension() {
    int code = 0;
    GifByteType* data = nullptr;  // a length and as many bytes
    must(DGifGetExtension(gif_.get(), &code, &data));
    GraphicsControlBlock control;
    if (data != nullptr && code == GRAPHICS_EXT_FUNC_CODE &&
        DGifExtensionToGCB(data[0], data + 1, &control) == GIF_OK) {
      transparent_ = control.TransparentColor;
    }
    while (data != nullptr) must(DGifGetExtensionNext(gif_.get(), &data));
  }

  // Whether every colour is the gray of its index, or there are none: Pillow then opens the file as gray
  // (spec/vision.md §0b.3).
  bool is_gray_ramp() const {
    const ColorMapObject* colours = gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
    if (colours == nullptr) return true;
    for (int i = 0; i < colours->ColorCount; ++i) {
      const GifColorType& colour = colours->Colors[i];
      if (colour.Red != i || colour.Green != i || colour.Blue != i) return false;
    }
    return true;
  }

  // Pixels outside the screen are read and dropped.
  void read_frame(DecodedImage& image) {
    const GifImageDesc& frame = gif_->Image;
    const std::span<const Pass> passes = frame.Interlace ? std::span<const Pass>(kInterlaced) : kPlain;
    const int inside = std::clamp(static_cast<int>(image.width) - frame.Left, 0, frame.Width);
    std::vector<GifPixelType> row(static_cast<std::size_t>(frame.Width));
    for (const Pass& pass : passes) {
      for (int y = pass.first; y < frame.Height; y += pass.step) {
        must(DGifGetLine(gif_.get(), row.data(), frame.Width));
        const auto to = static_cast<std::size_t>(frame.Top + y);
        if (to >= image.height || inside == 0) continue;
        std::copy_n(row.begin(), inside,
                    image.pixels.begin() + static_cast<std::ptrdiff_t>(to * image.width) + frame.Left);
      }
    }
  }

  const ImageFile& file_;
  std::span<const std::uint8_t> left_;
  int transparent_ = kNoIndex;
  std::unique_ptr<GifFileType, CloseGif> gif_;
};

}  // namespace

DecodedImage decode_gif(const ImageFile& file) {
  return GifDecoder(file).decode();
}

}  // namespace perigee
