#include "experts/store_format.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace perigee {
namespace {

constexpr char kMagic[8] = {'P', 'G', 'E', 'X', 'P', 'E', 'R', 'T'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kLinkedFlag = 1;

constexpr std::uint64_t kMaxLayers = 4096;
constexpr std::uint64_t kMaxExperts = 65536;
constexpr std::uint64_t kMaxWidth = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 60;  // so that sums of two do not overflow
constexpr std::uint64_t kMaxPath = 4096;

constexpr std::uint64_t kLayoutBytes = 152;
constexpr std::uint64_t kFileBytes = 16;  // and the two paths
constexpr std::uint64_t kRecordBytes = 24;

// Order of the matrices in a record: w1 and w3 are used together, before w2.
constexpr std::array<std::size_t, 3> kRecordOrder = {0, 2, 1};

class Writer {
 public:
  template <typename T>
  void put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void put_text(std::string_view text) { text_.append(text); }
  void pad() { text_.resize(align_up(text_.size(), 8), '\0'); }
  std::uint64_t size() const { return text_.size(); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  template <typename T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string get_text(std::uint64_t length) {
    const auto text = take(length);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  void skip_padding() {
    while (at_ % 8 != 0) {
      if (get<std::uint8_t>() != 0) corrupt("has something where padding should be");
    }
  }
  // Before anything is allocated for `count` items.
  void expect_room(std::uint64_t count, std::uint64_t item_bytes, const char* what) const {
    if (count > (bytes_.size() - at_) / item_bytes) {
      fail(ErrorCode::kCorrupt, "{} says that it has {} {}, which is more than the file holds", origin_,
           count, what);
    }
  }
  bool at_end() const { return at_ == bytes_.size(); }
  [[noreturn]] void corrupt(const std::string& what) const {
    fail(ErrorCode::kCorrupt, "{} {}; it is no index that this program wrote", origin_, what);
  }

 private:
  std::span<const std::byte> take(std::uint64_t length) {
    if (length > bytes_.size() - at_) corrupt("ends too early");
    at_ += length;
    return bytes_.subspan(at_ - length, length);
  }

  std::span<const std::byte> bytes_;
  const std::string& origin_;
  std::size_t at_ = 0;
};

void put_layout(Writer& writer, const RunLayout& layout) {
  writer.put(layout.bytes);
  for (const MatrixPlace& matrix : layout.matrices) {
    writer.put(static_cast<std::uint8_t>(matrix.format == WeightFormat::kNvfp4));
    writer.put(static_cast<std::uint8_t>(matrix.global_use));
    writer.put(std::uint16_t{0});
    writer.put(std::uint32_t{0});
    for (const std::uint64_t value :
         {matrix.rows, matrix.columns, matrix.values, matrix.scales, matrix.global}) {
      writer.put(value);
    }
  }
}

MatrixPlace get_matrix(Reader& reader) {
  MatrixPlace matrix;
  const auto format = reader.get<std::uint8_t>();
  const auto global = reader.get<std::uint8_t>();
  const auto reserved = reader.get<std::uint16_t>() | reader.get<std::uint32_t>();
  if (format > 1 || global > 2 || reserved != 0) reader.corrupt("describes a matrix of an unknown form");
  matrix.format = format == 1 ? WeightFormat::kNvfp4 : WeightFormat::kMxfp4;
  matrix.global_use = static_cast<MatrixPlace::Global>(global);
  if ((format == 1) != (global != 0)) reader.corrupt("has a matrix with one scale too many or too few");
  for (std::uint64_t* value :
       {&matrix.rows, &matrix.columns, &matrix.values, &matrix.scales, &matrix.global}) {
    *value = reader.get<std::uint64_t>();
  }
  const std::uint64_t group = format == 1 ? 16 : 32;
  if (matrix.rows == 0 || matrix.columns == 0 || matrix.rows > kMaxWidth || matrix.columns > kMaxWidth ||
      matrix.columns % group != 0) {
    reader.corrupt(fmt::format("has a matrix of [{}, {}]", matrix.rows, matrix.columns));
  }
  return matrix;
}

struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
};

// Whether all ranges lie in [0, bytes) and none meets another. Sorts them.
bool are_apart(std::vector<ByteRange>& ranges, std::uint64_t bytes) {
  std::sort(ranges.begin(), ranges.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  std::uint64_t end = 0;
  for (const ByteRange& range : ranges) {
    if (range.begin < end || range.begin > bytes || range.length > bytes - range.begin) return false;
    end = range.begin + range.length;
  }
  return true;
}

RunLayout get_layout(Reader& reader, bool linked) {
  RunLayout layout;
  layout.bytes = reader.get<std::uint64_t>();
  std::vector<ByteRange> parts;
  for (MatrixPlace& matrix : layout.matrices) {
    matrix = get_matrix(reader);
    parts.push_back({matrix.values, matrix.values_bytes()});
    parts.push_back({matrix.scales, matrix.scales_bytes()});
    if (matrix.global_bytes() != 0) parts.push_back({matrix.global, matrix.global_bytes()});
  }
  const bool aligned = linked || layout.bytes % kRecordAlignment == 0;
  if (layout.bytes > kMaxFileBytes || !aligned || !are_apart(parts, layout.bytes)) {
    reader.corrupt(fmt::format("has records of {} bytes whose parts do not fit in", layout.bytes));
  }
  return layout;
}

StoreFile get_file(Reader& reader) {
  StoreFile file;
  file.bytes = reader.get<std::uint64_t>();
  const auto path = reader.get<std::uint32_t>();
  const auto fallback = reader.get<std::uint32_t>();
  if (file.bytes > kMaxFileBytes || path == 0 || path > kMaxPath || fallback > kMaxPath) {
    reader.corrupt("names a file whose path or size makes no sense");
  }
  file.path = reader.get_text(path);
  file.fallback = reader.get_text(fallback);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  for (const std::string& text : {file.path, file.fallback}) {
    if (std::any_of(text.begin(), text.end(), is_control)) {
      reader.corrupt("has control characters in a path");
    }
  }
  reader.skip_padding();
  return file;
}

void check_records(const StoreIndex& index, const Reader& reader) {
  std::vector<std::vector<ByteRange>> used(index.files.size());
  for (const ExpertRecord& record : index.table.records) {
    if (record.file >= index.files.size() || record.layout >= index.table.layouts.size()) {
      reader.corrupt("has a record in a file or of a layout that it does not list");
    }
    if (!index.linked && record.offset % kRecordAlignment != 0) reader.corrupt("has an unaligned record");
    used[record.file].push_back({record.offset, index.table.layouts[record.layout].bytes});
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (are_apart(used[i], index.files[i].bytes)) continue;
    reader.corrupt(fmt::format("has records that overlap or lie beyond the end of {}", index.files[i].path));
  }
}

struct Counts {
  std::uint32_t layers, experts, layouts, files;
};

Counts get_head(Reader& reader, std::uint64_t index_bytes, const std::string& origin, StoreIndex& index) {
  if (reader.get_text(sizeof(kMagic)) != std::string_view(kMagic, sizeof(kMagic))) {
    reader.corrupt("does not begin as the index of a store does");
  }
  const auto version = reader.get<std::uint32_t>();
  if (version != kVersion) {
    fail(ErrorCode::kUnsupported, "{} is of version {}, and this program knows version {}; pack again",
         origin, version, kVersion);
  }
  const auto flags = reader.get<std::uint32_t>();
  if (flags > kLinkedFlag) reader.corrupt("has unknown flags");
  index.linked = flags == kLinkedFlag;
  if (reader.get<std::uint64_t>() != index_bytes) {
    reader.corrupt(fmt::format("has {} bytes, which is not the length it was written with", index_bytes));
  }
  index.config_checksum = reader.get<std::uint64_t>();
  Counts counts{};
  for (std::uint32_t* count : {&counts.layers, &counts.experts, &counts.layouts, &counts.files}) {
    *count = reader.get<std::uint32_t>();
  }
  if (counts.layers > kMaxLayers || counts.experts > kMaxExperts) {
    reader.corrupt(fmt::format("counts {} layers of {} experts", counts.layers, counts.experts));
  }
  return counts;
}

void get_table(Reader& reader, const Counts& counts, StoreIndex& index) {
  ExpertTable& table = index.table;
  reader.expect_room(counts.layouts, kLayoutBytes, "layouts");
  for (std::uint32_t i = 0; i < counts.layouts; ++i)
    table.layouts.push_back(get_layout(reader, index.linked));
  reader.expect_room(counts.files, kFileBytes, "files");
  for (std::uint32_t i = 0; i < counts.files; ++i) index.files.push_back(get_file(reader));
  reader.expect_room(counts.layers, 1, "layers");
  std::uint64_t layers = 0;
  for (std::uint32_t i = 0; i < counts.layers; ++i) {
    const auto has = reader.get<std::uint8_t>();
    if (has > 1) reader.corrupt("has a layer that neither has experts nor has none");
    table.has_experts.push_back(has == 1);
    layers += has;
  }
  reader.skip_padding();
  table.experts = counts.experts;
  table.has_checksums = true;
  const std::uint64_t records = layers * counts.experts;
  reader.expect_room(records, kRecordBytes, "records");
  table.records.resize(records);
  for (ExpertRecord& record : table.records) {
    record.file = reader.get<std::uint32_t>();
    record.layout = reader.get<std::uint32_t>();
    record.offset = reader.get<std::uint64_t>();
    record.checksum = reader.get<std::uint64_t>();
  }
}

}  // namespace

RunLayout record_layout(const RunLayout& matrices) {
  RunLayout record = matrices;
  std::uint64_t end = 0;
  const auto place = [&end](std::uint64_t bytes) {
    const std::uint64_t begin = align_up(end, kPartAlignment);
    end = begin + bytes;
    return begin;
  };
  for (const std::size_t i : kRecordOrder)
    record.matrices[i].values = place(record.matrices[i].values_bytes());
  for (const std::size_t i : kRecordOrder)
    record.matrices[i].scales = place(record.matrices[i].scales_bytes());
  for (const std::size_t i : kRecordOrder) {
    MatrixPlace& matrix = record.matrices[i];
    matrix.global = matrix.global_bytes() == 0 ? 0 : place(matrix.global_bytes());
  }
  record.bytes = align_up(end, kRecordAlignment);
  return record;
}

std::string serialize_store_index(const StoreIndex& index) {
  const ExpertTable& table = index.table;
  std::uint64_t bytes = 48 + table.layouts.size() * kLayoutBytes + align_up(table.has_experts.size(), 8) +
                        table.records.size() * kRecordBytes + sizeof(std::uint64_t);
  for (const StoreFile& file : index.files) {
    bytes += align_up(kFileBytes + file.path.size() + file.fallback.size(), 8);
  }
  Writer writer;
  writer.put_text({kMagic, sizeof(kMagic)});
  writer.put(kVersion);
  writer.put(index.linked ? kLinkedFlag : std::uint32_t{0});
  writer.put(bytes);
  writer.put(index.config_checksum);
  for (const std::size_t count :
       {table.has_experts.size(), std::size_t{table.experts}, table.layouts.size(), index.files.size()}) {
    writer.put(static_cast<std::uint32_t>(count));
  }
  for (const RunLayout& layout : table.layouts) put_layout(writer, layout);
  for (const StoreFile& file : index.files) {
    writer.put(file.bytes);
    writer.put(static_cast<std::uint32_t>(file.path.size()));
    writer.put(static_cast<std::uint32_t>(file.fallback.size()));
    writer.put_text(file.path);
    writer.put_text(file.fallback);
    writer.pad();
  }
  for (const bool has : table.has_experts) writer.put(static_cast<std::uint8_t>(has));
  writer.pad();
  for (const ExpertRecord& record : table.records) {
    writer.put(record.file);
    writer.put(record.layout);
    writer.put(record.offset);
    writer.put(record.checksum);
  }
  std::string text = writer.take();
  const std::uint64_t checksum = xxh3_64(std::as_bytes(std::span(text)));
  text.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  if (text.size() != bytes) fail(ErrorCode::kInternal, "the index of a store has another size than planned");
  return text;
}

StoreIndex parse_store_index(std::span<const std::byte> bytes, const std::string& origin) {
  Reader reader(bytes, origin);
  StoreIndex index;
  const Counts counts = get_head(reader, bytes.size(), origin, index);
  std::uint64_t checksum = 0;
  if (bytes.size() < sizeof(checksum)) reader.corrupt("ends too early");
  const auto body = bytes.first(bytes.size() - sizeof(checksum));
  std::memcpy(&checksum, body.data() + body.size(), sizeof(checksum));
  if (xxh3_64(body) != checksum) {
    fail(ErrorCode::kCorrupt, "{} does not have the checksum that it was written with; restore the file",
         origin);
  }
  get_table(reader, counts, index);
  reader.get<std::uint64_t>();  // the checksum
  if (!reader.at_end()) reader.corrupt("goes on behind its end");
  check_records(index, reader);
  return index;
}

}  // namespace perigee
