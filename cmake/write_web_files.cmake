# Writes OUTPUT, the C++ source that holds the files of FOLDER; called by perigee_embed_web() during the build.
# Bytes are written as escapes in string literals, which compilers read far faster than lists of numbers; a literal
# per 1,000 bytes keeps lines readable for tools, and neighbours join.
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*.html ${FOLDER}/*.css ${FOLDER}/*.js ${FOLDER}/*.svg)
list(SORT files)
set(entries "")
foreach(file IN LISTS files)
  file(READ ${FOLDER}/${file} bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  set(literals "")
  set(at 0)
  while(at LESS digits)
    string(SUBSTRING "${bytes}" ${at} 2000 part)
    string(REGEX REPLACE "(..)" "\\\\x\\1" part "${part}")
    string(APPEND literals "\n     \"${part}\"")
    math(EXPR at "${at} + 2000")
  endwhile()
  string(APPEND entries "    {\"${file}\", std::string_view(\"\"${literals}, ${size})},\n")
endforeach()
file(WRITE ${OUTPUT}
"// Written by cmake/write_web_files.cmake from web/; not to be edited.
#include \"serve/web_routes.h\"

namespace perigee {
namespace {

constexpr WebFile kFiles[] = {
${entries}};

}  // namespace

std::span<const WebFile> web_files() {
  return kFiles;
}

}  // namespace perigee
")
