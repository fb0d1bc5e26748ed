"""Reads C++ text as far as the lint tests and structure.py need it: functions, types, members, includes. No compiler."""
import re

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
LITERALS = r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\''
BLANKED = re.compile(LITERALS + r"|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE)
ATTRIBUTE = r"(?:\[\[.*?\]\]\s*|alignas\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*)*"
SCOPE = re.compile(r"^(?:\[\[.*?\]\]\s*)?(?:inline\s+)?(?:namespace|class|struct|union|enum|extern\s+\"C\")\b")
TYPE = re.compile(rf"^{ATTRIBUTE}(class|struct|union|enum(?:\s+(?:class|struct))?)\s+{ATTRIBUTE}([A-Za-z_]\w*(?:::\w+)*)\b(?!\s*<)")
TEMPLATE = re.compile(r"^template\s*<.*?>\s*(?=\w|\[)", re.DOTALL)
NAME = re.compile(r"(operator\s*[^\s\w(]+|operator\s+\w+|~?\w+)\s*\(")
MEMBER = re.compile(r"\s*[\w:]+[\w:\s*&]*[\s*&]\w+\s*(?:\[[^\]]*\]\s*)*(?::\s*\w+\s*)?(?:,[^()]*)?")
NO_MEMBER = re.compile(r"^(?:using|typedef|friend|template|static|constexpr|class|struct|union|enum|extern)\b|[^;]*\boperator\b")


def blanked(text):
    """C++ text with comments, literals and preprocessor lines blanked; line numbers are kept."""
    return BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def closing_of(text, opening):
    """The position of the brace that closes the one at `opening`."""
    depth = 0
    for index in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return len(text) - 1


def blocks(text, begin=0, end=None, outer=()):
    """Yields (head, where it begins, opening brace, closing brace, heads of the scopes around it) of the scopes and functions of
    blanked text: namespaces and types, what is in them, and functions. A scope's head matches SCOPE."""
    end = len(text) if end is None else end
    start, parentheses, position = begin, 0, begin
    while position < end:
        character = text[position]
        if character in "()":
            parentheses += 1 if character == "(" else -1
        elif parentheses == 0 and character in ";}":
            start = position + 1
        elif character == "{":
            closing = closing_of(text, position)
            written = re.sub(r"^(?:\s*(?:public|protected|private)\s*:)+", "", text[start:position]).lstrip()
            head = TEMPLATE.sub("", written).strip()
            is_scope = parentheses == 0 and SCOPE.match(head)
            is_initializer = parentheses != 0 or text[closing + 1:].lstrip()[:1] in (",", "{", ")")
            if is_scope or not is_initializer:
                yield head, position - len(written), position, closing, outer
                start = closing + 1
            if is_scope:
                yield from blocks(text, position + 1, closing, (*outer, head))
            position = closing
        position += 1


def functions(text):
    """[(name, first line, number of lines)] of the function definitions, members included; lambdas count as part of theirs."""
    text, found = blanked(text), []
    for head, first, _, closing, _ in blocks(text):
        name = NAME.search(head)
        if not SCOPE.match(head) and name and not head.endswith("="):
            line = text.count("\n", 0, first) + 1
            found.append((name.group(1), line, text.count("\n", 0, closing) + 2 - line))
    return found


def statements(body):
    """The declarations of a class body, without the text of function bodies and nested types."""
    found, start, position = [], 0, 0
    while position < len(body):
        if body[position] == ";":
            found.append(body[start:position])
            start = position + 1
        elif body[position] == "{":
            head = without_templates(re.sub(r"\b(?:public|protected|private)\s*:", "", body[start:position])).strip()
            closing = closing_of(body, position)
            is_block = SCOPE.match(head) or ("(" in head and "=" not in head.split("(")[0])
            if is_block and body[closing + 1:].lstrip()[:1] not in (",", "{", ";"):
                found.append(body[start:position])
                start = closing + 1
            position = closing
        position += 1
    return found


def without_templates(text):
    """Template arguments removed, from the inside out."""
    while True:
        shorter = re.sub(r"<[^<>;{}]*>", "", text)
        if shorter == text:
            return text
        text = shorter


def without_initializers(declaration):
    """`int a = f(1, 2), b{3}` -> `int a , b`."""
    kept, depth, initial = [], 0, False
    for character in declaration:
        initial = (initial or character == "=") and not (depth == 0 and character == ",")
        depth += {"{": 1, "}": -1}.get(character, 0) if not initial else {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if not initial and depth == 0 and character != "}":
            kept.append(character)
    return "".join(kept)


def members_in(body):
    """How many data members the body of a class declares. Static ones do not count."""
    count = 0
    for statement in statements(body):
        statement = re.sub(r"\b(?:public|protected|private)\s*:", "", statement)
        statement = re.sub(rf"^\s*(?:{ATTRIBUTE}(?:mutable|const)\s+)*{ATTRIBUTE}", "", statement, flags=re.DOTALL)
        plain = without_initializers(without_templates(statement))
        if not NO_MEMBER.match(plain) and MEMBER.fullmatch(plain):
            count += 1 + plain.count(",")
    return count


def types(text):
    """[(kind, qualified name, first line, data members)] of the types that a file defines. The qualified name is without namespaces."""
    text, found = blanked(text), []
    for head, first, opening, closing, outer in blocks(text):
        named = [match for match in map(TYPE.match, (*outer, head)) if match]
        if TYPE.match(head):
            kind = named[-1].group(1).split()[0]
            members = 0 if kind == "enum" else members_in(text[opening + 1:closing])
            found.append((kind, "::".join(match.group(2) for match in named), text.count("\n", 0, first) + 1, members))
    return found


def includes(text):
    """[(kind, name)] with kind '"' or '<'."""
    return INCLUDE.findall(text)
