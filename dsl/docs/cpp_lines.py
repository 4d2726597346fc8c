"""What pages read off headers: a comment or a declaration each on one line, however clang-format cuts them."""
import re


def lines_of(file, begins):
    """Comments of the first column and declarations, a line each. `begins`: how the text of a comment begins; a line that begins otherwise goes on."""
    comment, open_declaration = None, None
    for line in file.read_text(encoding="utf-8").splitlines():
        if open_declaration is None and line.startswith("// "):
            if re.match(begins, line[3:]) or comment is None:
                if comment is not None:
                    yield comment
                comment = line
            else:
                comment += line[2:]
            continue
        if comment is not None:
            yield comment
            comment = None
        if open_declaration is not None:
            open_declaration += " " + line.strip()
        elif line.startswith("inline constexpr "):
            open_declaration = line
        if open_declaration is not None and open_declaration.endswith(";") and all(open_declaration.count(a) == open_declaration.count(b) for a, b in ("()", "{}")):
            yield re.sub(r"([(\[]) ", r"\1", open_declaration)
            open_declaration = None
