# perigee_room(NAME LINKS...): one static library per room, made of every .cpp in the folder and below.
# A new file in a room needs no edit here. What a room may include is decided by tools/check_includes.py.
function(perigee_room name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  add_library(perigee_${name} STATIC ${sources})
  target_include_directories(perigee_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(perigee_${name} PUBLIC ${ARGN})
  target_precompile_headers(perigee_${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
endfunction()

# perigee_test(NAME LINKS...): one GoogleTest program per folder of tests/.
function(perigee_test name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  add_executable(test_${name} ${sources})
  if(PERIGEE_LEAN_SANITIZING)
    target_sources(test_${name} PRIVATE support/asan_ranges.cpp)
  endif()
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(test_${name} PRIVATE ${ARGN} perigee_test_support GTest::gmock GTest::gtest_main)
  target_precompile_headers(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
  add_test(NAME ${name} COMMAND test_${name})
endfunction()
