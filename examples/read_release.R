# SPDX-License-Identifier: Apache-2.0
# Read a release of onedraw in base R, without any package:
#
#     Rscript examples/read_release.R release.json
#
# or, in a session, source("read_release.R") and release <- read_release("release.json").
# Nothing in the file is executed: it is cut into tokens, and tokens become lists, numbers and text.

TOKEN <- '"(?:[^"\\\\]|\\\\.)*"|-?[0-9]+(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null|[\\[\\]{}:,]'
ESCAPES <- c(b = "\b", f = "\f", n = "\n", r = "\r", t = "\t")

unquoted <- function(token) {
  text <- substr(token, 2, nchar(token) - 1)
  places <- gregexpr("\\\\u[0-9a-fA-F]{4}|\\\\.", text, perl = TRUE)
  regmatches(text, places) <- lapply(regmatches(text, places), function(found) vapply(found, function(escape) {
    letter <- substr(escape, 2, 2)
    if (letter == "u") intToUtf8(strtoi(substr(escape, 3, 6), 16L))
    else if (letter %in% names(ESCAPES)) ESCAPES[[letter]] else letter
  }, ""))
  text
}

parsed_json <- function(text) {
  tokens <- regmatches(text, gregexpr(TOKEN, text, perl = TRUE))[[1]]
  at <- 0
  taken <- function() { at <<- at + 1; if (at > length(tokens)) stop("the file ends early") else tokens[at] }
  several <- function(end, one) {
    out <- list()
    if (tokens[at + 1] == end) { taken(); return(out) }
    repeat {
      out <- one(out)
      if (taken() == end) return(out)
    }
  }
  value <- function() {
    token <- taken()
    switch(substr(token, 1, 1),
      "{" = several("}", function(out) { name <- unquoted(taken()); taken(); out[name] <- list(value()); out }),
      "[" = several("]", function(out) c(out, list(value()))),
      "\"" = unquoted(token), t = TRUE, f = FALSE, n = NULL, as.numeric(token))
  }
  value()
}

read_release <- function(path) {
  release <- parsed_json(paste(readLines(path, encoding = "UTF-8", warn = FALSE), collapse = "\n"))
  if (!identical(release$schema, "onedraw.release/2")) stop("not a release of schema onedraw.release/2: ", path)
  release
}

if (!interactive() && length(path <- commandArgs(trailingOnly = TRUE)) == 1) {
  release <- read_release(path)
  cat(sprintf("epsilon %g, delta %g, %s; evidence: %s\n", release$guarantee$epsilon, release$guarantee$delta,
              release$guarantee$neighbours, release$evidence$level))
  for (name in names(release$parameters)) cat(sprintf("%s\t%.17g\n", name, release$parameters[[name]]))
}
