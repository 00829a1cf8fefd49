// Collects distances by kind of value, in the order in which kinds first appear. For logits_parity.h and
// module_parity.h.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "proof/logits_parity.h"

namespace perigee {

struct DistanceBound {
  double worst = 0;
  double median = 0;  // 0: none
};

class Distances {
 public:
  void add(const std::string& what, DistanceBound bound, double distance, const std::string& where) {
    Kind& kind = find(what);
    LogitsParityRow& row = kind.row;
    row.bound = bound.worst;
    row.median_bound = bound.median;
    if (kind.distances.empty() || distance > row.worst) {
      row.worst = distance;
      row.worst_at = where;
    }
    kind.distances.push_back(distance);
  }

  std::vector<LogitsParityRow> rows() {
    std::vector<LogitsParityRow> rows;
    for (Kind& kind : kinds_) {
      std::sort(kind.distances.begin(), kind.distances.end());
      kind.row.count = kind.distances.size();
      kind.row.median = kind.distances[kind.distances.size() / 2];
      rows.push_back(kind.row);
    }
    return rows;
  }

 private:
  struct Kind {
    LogitsParityRow row;
    std::vector<double> distances;
  };
  Kind& find(const std::string& what) {
    for (Kind& kind : kinds_) {
      if (kind.row.what == what) return kind;
    }
    kinds_.emplace_back().row.what = what;
    return kinds_.back();
  }
  std::vector<Kind> kinds_;
};

}  // namespace perigee
