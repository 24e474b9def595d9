# Writes the parts of the HTML report's page as string constants:
#   cmake -D OUTPUT=FILE.cpp -D FOLDER=viz/html_report -D "SCRIPTS=a.js;b.js" -P embed_page.cmake
# The scripts become one. The digests are for the page's Content-Security-Policy.
set(constants "")
function(embed constant text)
  if(text MATCHES "\\)page\"")
    message(FATAL_ERROR "${constant} holds )page\", which ends the literal that it would lie in")
  endif()
  string(APPEND constants "const std::string_view ${constant} = R\"page(${text})page\";\n")
  set(constants "${constants}" PARENT_SCOPE)
endfunction()

foreach(part page article picture failure)
  file(READ "${FOLDER}/${part}.html" text)
  string(SUBSTRING ${part} 0 1 first)
  string(TOUPPER ${first} first)
  string(SUBSTRING ${part} 1 -1 rest)
  embed(k${first}${rest} "${text}")
endforeach()
file(READ "${FOLDER}/page.css" style)
embed(kStyle "${style}")
string(SHA256 style_digest "${style}")
embed(kStyleDigest "${style_digest}")
set(script "")
foreach(name IN LISTS SCRIPTS)
  file(READ "${FOLDER}/${name}" text)
  string(APPEND script "${text}")
endforeach()
embed(kScript "${script}")
string(SHA256 script_digest "${script}")
embed(kScriptDigest "${script_digest}")

file(WRITE "${OUTPUT}"
  "#include \"viz/html_report/page_parts.h\"\n\nnamespace hydrascope::viz::page {\n${constants}}\n")
