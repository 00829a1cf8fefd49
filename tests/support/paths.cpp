#include "support/paths.h"

namespace perigee::test {

// Only this file is compiled with the checkout's path, so that ccache shares all others between checkouts.
std::filesystem::path data_folder() {
  return PERIGEE_TEST_DATA;
}
std::filesystem::path shared_folder() {
  return PERIGEE_SHARED_DATA;
}

}  // namespace perigee::test
