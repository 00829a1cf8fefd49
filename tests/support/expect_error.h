// EXPECT_ERROR(statement, ErrorCode::kCorrupt, "words"): the statement throws an Error of that code whose
// sentence contains the words. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

#define EXPECT_ERROR(statement, expected_code, words)                                                 \
  try {                                                                                               \
    statement;                                                                                        \
    ADD_FAILURE() << "no error from " #statement;                                                     \
  } catch (const ::perigee::Error& error) {                                                           \
    EXPECT_STREQ(::perigee::error_code_name(error.code()), ::perigee::error_code_name(expected_code)) \
        << error.what();                                                                              \
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();              \
  }                                                                                                   \
  static_assert(true, "asks for a semicolon")
