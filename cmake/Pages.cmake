# hydrascope_embedded_pages(VARIABLE VIZ): the source file, generated, that holds what pages are made of; VIZ is the
# folder viz. The scripts of a page are one in it, in this order.
function(hydrascope_embedded_pages variable viz)
  set(report ${viz}/html_report)
  set(views geometry heat text answer class_list layer_strip zoom_views choices heat_pane picture_view)
  set(scripts ${views} gallery embedded_source page)
  list(TRANSFORM scripts REPLACE "(.+)" "${report}/\\1.js")
  set(live_scripts ${views})
  list(TRANSFORM live_scripts REPLACE "(.+)" "${report}/\\1.js")
  list(APPEND live_scripts ${viz}/live_page/live.js)
  set(parts theme report controls pane article picture failure)
  list(TRANSFORM parts REPLACE "(.+)" "${report}/\\1.html")
  list(APPEND parts ${viz}/page/shell.html ${viz}/live_page/live.html)
  set(style ${viz}/page/page.css)
  set(embed ${viz}/../cmake/embed_page.cmake)
  set(output ${PROJECT_BINARY_DIR}/generated/viz/page_parts.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D "OUTPUT=${output}" -D "PARTS=${parts}" -D "STYLE=${style}" -D "SCRIPTS=${scripts}" -D "LIVE_SCRIPTS=${live_scripts}" -P ${embed}
    DEPENDS ${parts} ${style} ${scripts} ${live_scripts} ${embed}
    COMMENT "Embedding what pages are made of"
    VERBATIM)
  set(${variable} ${output} PARENT_SCOPE)
endfunction()
