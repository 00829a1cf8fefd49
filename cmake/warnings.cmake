# Flags that hold for every target: warnings are errors, and no floating-point contraction anywhere, because
# the bits of a result must not depend on which instructions the compiler found (docs/numerics.md).
add_compile_options(-Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough
                    -ffp-contract=off -fno-fast-math -fdiagnostics-color=auto)

# g++ 12 sees overflows in inlined std::string code where there are none (GCC bugs 105329, 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict> -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
endif()

if(PERIGEE_SANITIZE)
  add_compile_options(-fsanitize=${PERIGEE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PERIGEE_SANITIZE})
  if(PERIGEE_SANITIZE MATCHES thread)
    # ThreadSanitizer does not know fences; Asio's only strengthen what its mutexes order already.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

# What files full of unrolled kernels are compiled with under sanitizers: checks of addresses as calls instead of inline,
# no scopes of locals, and of the undefined behaviours those that are not about addresses. The optimiser takes minutes
# longer with all of them (437 s instead of 67 for one file, g++ 12).
set(PERIGEE_LEAN_SANITIZING "")
if(PERIGEE_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(PERIGEE_LEAN_SANITIZING --param=asan-instrumentation-with-call-threshold=0 -fno-sanitize-address-use-after-scope
      -fno-sanitize=null,alignment,object-size,bounds,vla-bound,pointer-overflow,nonnull-attribute,returns-nonnull-attribute)
endif()

# Same file names in every build tree, so that ccache shares objects between checkouts.
add_compile_options("-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.")

# ccache, where it is installed, shares objects between build trees and checkouts; it cannot share what was compiled
# with a precompiled header, so then there are none.
find_program(PERIGEE_CCACHE ccache)
if(PERIGEE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${PERIGEE_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
