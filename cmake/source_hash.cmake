# cmake -DROOT=repository -DOUTPUT=file.cc -DVERSION=x.y.z -P source_hash.cmake
# A number for what the compiler is: a hash of its sources by their names and contents, the same in every checkout. It keys
# what is kept of compiled programs, so that a changed compiler never uses what another one made.
set(patterns)
foreach(module base program hlo compiler runtime cpu gpu client pjrt)
  foreach(kind cc h inc def cmake txt)
    list(APPEND patterns ${ROOT}/src/${module}/*.${kind})
  endforeach()
endforeach()
file(GLOB_RECURSE names RELATIVE ${ROOT} ${patterns})
list(FILTER names EXCLUDE REGEX "_(test|fuzz|main)\\.(cc|h)$")
list(SORT names)
set(all "")
foreach(name ${names})
  file(SHA256 ${ROOT}/${name} hash)
  string(APPEND all "${name} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
set(text "#include \"client/build.h\"

std::string_view weft::client::Version() {
  return \"${VERSION}\";
}

std::string_view weft::client::SourceHash() {
  return \"${hash}\";
}
")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT "${text}" STREQUAL "${before}")
  file(WRITE ${OUTPUT} "${text}")
endif()
