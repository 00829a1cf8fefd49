// Where routed experts come from, as the forward pass sees it: it says which experts of a layer a step needs
// and gets them one by one, in whatever order they are there. Nothing above knows whether an expert lay in
// memory or on a disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/error.h"
#include "compute/matrix.h"

namespace perigee {

struct ExpertWeights {
  Matrix w1, w2, w3;  // gate, down, up
};

// Thrown for an expert that cannot be had: the sentence names layer, expert, file and offset.
class ExpertUnavailable : public Error {
 public:
  ExpertUnavailable(const Error& cause, std::size_t index) : Error(cause), index_(index) {}
  std::size_t index() const { return index_; }  // in the list that was asked for

 private:
  std::size_t index_;
};

// The experts that one step needs of one layer. Destroying it gives back what it holds; reads that nobody
// waits for any longer may be dropped.
class ExpertLease {
 public:
  struct Arrived {
    std::size_t index = 0;  // in the list that was asked for
    ExpertWeights weights;  // valid until the next call of next(), or the end of the lease
  };

  virtual ~ExpertLease() = default;

  // Each expert once, present ones first; waits if none is there yet. nullopt after the last. An expert that
  // cannot be had throws ExpertUnavailable; the others can still be asked for.
  virtual std::optional<Arrived> next() = 0;
};

class ExpertSource {
 public:
  virtual ~ExpertSource() = default;

  // `experts` ascending and distinct, as many as the layer has at most. Thread-safe; the source outlives its
  // leases.
  virtual std::unique_ptr<ExpertLease> acquire(std::uint64_t layer,
                                               std::span<const std::uint32_t> experts) = 0;

  // Whether a hint is of use to it; making one costs a router's product.
  virtual bool wants_prefetch() const { return false; }

  // A hint: the layer will probably need these soon, likeliest first. Never delays what is asked for by
  // acquire().
  virtual void prefetch(std::uint64_t, std::span<const std::uint32_t>) {}
};

// A source whose experts are all in memory at any time.
class MemoryExperts : public ExpertSource {
 public:
  virtual ExpertWeights get(std::uint64_t layer, std::uint64_t expert) const = 0;
  std::unique_ptr<ExpertLease> acquire(std::uint64_t layer, std::span<const std::uint32_t> experts) final;
};

}  // namespace perigee
