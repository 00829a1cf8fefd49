// Whether the client of a connection has left while its answer is being made. It only looks: nothing is read,
// because what waits may be the client's next request.
#pragma once

namespace perigee {

// True if the client has closed its side, even behind bytes that nobody has read yet, or if all that waits on
// a TLS connection is the goodbye that clients send before they close.
bool client_has_left(int descriptor, bool tls);

}  // namespace perigee
