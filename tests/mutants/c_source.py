"""Finds a definition in C source by its name, and an expression in it by its tokens.

White space and comments do not count, so code may be moved, reformatted and commented without harm.
This is no parser. It knows comments, literals, braces and the preprocessor, and what a definition looks
like at file scope: that is enough for the C of src/, and test_mutants.py checks it on all of src/.
"""

import re
from dataclasses import dataclass

LITERAL = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
COMMENT = r"//[^\n]*|/\*.*?\*/"
DIRECTIVE = r"^[ \t]*#(?:\\\n|[^\n])*"

# A token of C as far as a comparison needs it: a literal, a word or number, or one other character.
TOKEN = re.compile(rf"{LITERAL}|\w+|[^\w\s]")
COMMENT_OR_LITERAL = re.compile(rf"(?P<comment>{COMMENT})|{LITERAL}", re.S)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?:\\\n|[^\n])*", re.M)

# What introduces a definition, from the end of the one before it to its "{" or "=".
FUNCTION_HEAD = re.compile(r"(?P<name>\w+)\s*\($")
TYPE_HEAD = re.compile(r"\b(?:struct|union|enum)\s+(?P<name>\w+)\s*$")
OBJECT_HEAD = re.compile(r"(?P<name>\w+)\s*(?:\[[^\]]*\]\s*)*$")


@dataclass(frozen=True)
class Definition:
    """A function, a type with a body, an object with an initializer, or a macro: text[begin:end]."""

    name: str
    begin: int
    end: int


def blank(match):
    """Spaces in place of what was matched; its line ends stay."""
    return re.sub(r"[^\n]", " ", match.group())


def without_comments(text):
    """The text with spaces in place of comments: every other character stays where it is."""
    return COMMENT_OR_LITERAL.sub(
        lambda match: blank(match) if match["comment"] else match.group(), text
    )


def definitions(text):
    """All definitions at file scope, in their order."""
    code = without_comments(text)
    found = [Definition(match["name"], *match.span()) for match in MACRO.finditer(code)]
    bare = re.sub(LITERAL, blank, re.sub(DIRECTIVE, blank, code, flags=re.M))
    begin = depth = 0  # of the statement or definition that is being read
    name = None
    is_function = False
    for match in re.finditer(r"[{}();=]", bare):
        sign = match.group()
        if depth == 0 and sign in "{=" and name is None:
            name, is_function = name_before(bare[begin:match.start()])
        if sign in "{(":
            depth += 1
        elif sign in "})":
            depth -= 1
        if depth == 0 and (sign == ";" or sign == "}" and is_function):
            if name is not None:
                first = begin + len(bare[begin:]) - len(bare[begin:].lstrip())
                found.append(Definition(name, first, match.end()))
            begin, name, is_function = match.end(), None, False
    if depth != 0:
        raise ValueError("braces or parentheses that do not match")
    return sorted(found, key=lambda definition: definition.begin)


def name_before(head):
    """The name that is defined by what follows `head`, and whether it is a function's."""
    head = head.rstrip()
    if head.endswith(")"):
        function = FUNCTION_HEAD.search(head[:opening_of_last(head) + 1])
        return (function["name"], True) if function else (None, False)
    match = TYPE_HEAD.search(head) or OBJECT_HEAD.search(head)
    return (match["name"], False) if match else (None, False)


def opening_of_last(head):
    """Where the parenthesis that ends `head` opens."""
    depth = 0
    for place in range(len(head) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(head[place], 0)
        if depth == 0:
            return place
    return -1


def tokens(text):
    return TOKEN.findall(without_comments(text))


def is_word(character):
    return character.isalnum() or character == "_"


def pattern_of(expression):
    """A pattern for these tokens, with any white space, or none, between them."""
    pattern, before = "", ""
    for token in tokens(expression):
        if before and is_word(before[-1]) and is_word(token[0]):
            pattern += r"\s+"
        elif before:
            pattern += r"\s*"
        pattern, before = pattern + re.escape(token), token
    if is_word(before[-1]):
        pattern += r"(?!\w)"
    return re.compile((r"(?<!\w)" if re.match(r"\s*\w", expression) else "") + pattern)


def places(text, definition, expression):
    """Where the expression occurs in the definition: a list of (begin, end)."""
    code = without_comments(text)
    return [match.span() for match in pattern_of(expression).finditer(code, definition.begin, definition.end)]
