# SPDX-License-Identifier: Apache-2.0
# Doxygen's input filter for `cmake --build ... --target docs`. Comments are plain C in the source. For Doxygen a comment
# at the beginning of a line documents the code after it, a comment after code that code, and the first one the file.
# Everything in a comment is text: characters with a meaning for Doxygen (commands, HTML, links) are escaped.
function escape(s) {
    gsub(/[\\@&$#<>%"]/, "\\\\&", s)
    gsub(/::/, "\\::", s)
    return s
}

# Handles the rest of a line inside a comment: its end, and the code after it.
function comment(s,    end) {
    end = index(s, "*/")
    if (!end) {
        inside = 1
        return escape(s)
    }
    inside = 0
    return escape(substr(s, 1, end - 1)) "*/" code(substr(s, end + 2))
}

function code(s,    begin, before, text) {
    begin = index(s, "/*")
    if (!begin) return s
    before = substr(s, 1, begin - 1)
    text = substr(s, begin + 2)
    if (before ~ /^[ \t]*$/ && !seen) {
        seen = 1
        return before "/** \\file\n" comment(text)
    }
    seen = 1
    # A comment between parameters, after a preprocessor line or inside an initialiser documents nothing that has
    # a page.
    if (s ~ /^[ \t]*#/ || continued) return before "/*" comment(text)
    return before (before ~ /^[ \t]*$/ ? "/**" : "/**<") comment(text)
}

{
    line = $0
    if (inside) print comment(line)
    else if (line ~ /^[ \t]*\/\//) print "//" substr(line, index(line, "//") + 2)
    else print code(line)
    continued = line ~ /\\$/
}
