# Debian 12 packages only; ./run and ./test install them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(Boost 1.81 REQUIRED)  # headers only: Asio and Beast
find_package(prometheus-cpp REQUIRED COMPONENTS core)
find_package(PkgConfig REQUIRED)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(libxxhash REQUIRED IMPORTED_TARGET libxxhash)
# Images. WebP's demuxer is for the first frame of an animation.
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(GIF REQUIRED)
pkg_check_modules(libwebp REQUIRED IMPORTED_TARGET libwebp libwebpdemux)
