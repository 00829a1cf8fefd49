#include "experts/expert_table.h"

#include <algorithm>

#include "base/error.h"
#include "experts/nibble_form.h"

namespace perigee {
namespace {

Matrix view_matrix(const MatrixPlace& place, const std::byte* run) {
  Matrix matrix;
  matrix.format = place.format;
  matrix.rows = place.rows;
  matrix.columns = place.columns;
  matrix.values = run + place.values;
  matrix.scales = run + place.scales;
  if (place.global_use != MatrixPlace::Global::kNone) {
    const bool divides = place.global_use == MatrixPlace::Global::kDivides;
    matrix.global_scale = global_multiplier(run + place.global, divides);
  }
  return matrix;
}

class TableFiles : public ExpertFiles {
 public:
  TableFiles(ExpertTable table, std::vector<std::filesystem::path> files)
      : table_(std::move(table)), files_(std::move(files)), first_(table_.first_records()) {
    for (const RunLayout& layout : table_.layouts) largest_ = std::max(largest_, layout.bytes);
  }

  const std::vector<std::filesystem::path>& files() const override { return files_; }
  std::uint64_t layers() const override { return table_.has_experts.size(); }
  std::uint64_t experts() const override { return table_.experts; }
  bool has_experts(std::uint64_t layer) const override {
    return layer < layers() && table_.has_experts[layer];
  }
  std::uint64_t largest_run() const override { return largest_; }

  ExpertPlace place(std::uint64_t layer, std::uint64_t expert) const override {
    const ExpertRecord& record = record_of(layer, expert);
    ExpertPlace place;
    place.file = record.file;
    place.offset = record.offset;
    place.bytes = table_.layouts[record.layout].bytes;
    if (table_.has_checksums) place.checksum = record.checksum;
    return place;
  }

  ExpertWeights weights(std::uint64_t layer, std::uint64_t expert, const std::byte* run) const override {
    return view_run(table_.layouts[record_of(layer, expert).layout], run);
  }

 private:
  const ExpertRecord& record_of(std::uint64_t layer, std::uint64_t expert) const {
    if (!has_experts(layer) || expert >= table_.experts) {
      fail(ErrorCode::kInternal, "there is no expert {} in layer {}", expert, layer);
    }
    return table_.records[first_[layer] + expert];
  }

  ExpertTable table_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::uint64_t> first_;
  std::uint64_t largest_ = 0;
};

}  // namespace

ExpertWeights view_run(const RunLayout& layout, const std::byte* run) {
  ExpertWeights weights;
  weights.w1 = view_matrix(layout.matrices[0], run);
  weights.w2 = view_matrix(layout.matrices[1], run);
  weights.w3 = view_matrix(layout.matrices[2], run);
  return weights;
}

std::vector<std::uint64_t> ExpertTable::first_records() const {
  std::vector<std::uint64_t> first(has_experts.size());
  std::uint64_t before = 0;
  for (std::size_t layer = 0; layer < first.size(); ++layer) {
    first[layer] = before;
    if (has_experts[layer]) before += experts;
  }
  return first;
}

std::unique_ptr<ExpertFiles> make_expert_files(ExpertTable table, std::vector<std::filesystem::path> files) {
  const auto layers = std::count(table.has_experts.begin(), table.has_experts.end(), true);
  bool whole = table.records.size() == static_cast<std::uint64_t>(layers) * table.experts;
  for (const ExpertRecord& record : table.records) {
    whole = whole && record.file < files.size() && record.layout < table.layouts.size();
  }
  if (!whole) fail(ErrorCode::kInternal, "a table of experts does not hold together");
  return std::make_unique<TableFiles>(std::move(table), std::move(files));
}

}  // namespace perigee
