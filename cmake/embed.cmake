# cmake -DFROM=folder -DOUTPUT=file.inc -P embed.cmake
# The files of a page as arrays of bytes: `inline constexpr unsigned char page_html[] = {...};`. Scripts are joined, in the order
# of their names.
set(text "")
foreach(kind html css js)
  file(GLOB files ${FROM}/*.${kind})
  list(SORT files)
  set(bytes "")
  foreach(file ${files})
    file(READ ${file} content HEX)
    string(APPEND bytes "${content}")
  endforeach()
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND text "inline constexpr unsigned char page_${kind}[] = {${bytes}};\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
