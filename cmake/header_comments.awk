# SPDX-License-Identifier: Apache-2.0
# Reads a header of the project as Doxygen is to see it: Doxygen's input filter for `cmake --build ... --target docs`.
# Comments stay plain C in the source; here those that begin a line document what follows, those behind code what stands
# before them, and the first one the file. Everything in a comment is text: characters that Doxygen takes for commands,
# HTML or links are escaped.
function escape(s) {
    gsub(/[\\@&$#<>%"]/, "\\\\&", s)
    gsub(/::/, "\\::", s)
    return s
}

# The rest of a line inside of a comment: what ends it, and what follows.
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
    # Between parameters, behind a preprocessor line or inside an initialiser a comment belongs to nothing that
    # has a page.
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
