# perigee_embed_web(TARGET FOLDER): every file of FOLDER becomes bytes of TARGET, so that the program needs no files
# beside it. The answer to web_files() of src/serve/web_routes.h is written at build time, whenever a file changes.
function(perigee_embed_web target folder)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js ${folder}/*.svg)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/web_files.cpp)
  set(script ${CMAKE_SOURCE_DIR}/cmake/write_web_files.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D "FOLDER=${folder}" -D "OUTPUT=${output}" -P ${script}
    DEPENDS ${files} ${script}
    COMMENT "Embedding the web page")
  target_sources(${target} PRIVATE ${output})
endfunction()
