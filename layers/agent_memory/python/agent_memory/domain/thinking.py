"""Reasoning that a model wrote as plain text between tags, and its removal."""

_TAGS = ("think", "thinking", "reasoning", "scratchpad")


def without_thinking(text: str) -> tuple[str, int]:
    """Return *text* without its reasoning passages, and how many there were.

    Some templates swallow the opening tag, and a cut answer never closes it: both count.
    """
    removed = 0
    for tag in _TAGS:
        if f"{tag}>" in text:
            text, times = _without(text, f"<{tag}>", f"</{tag}>")
            removed += times
    return text, removed


def _without(text: str, opening: str, closing: str) -> tuple[str, int]:
    kept: list[str] = []
    position = removed = 0
    first_closing = text.find(closing)
    if first_closing >= 0 and not 0 <= text.find(opening) < first_closing:
        position, removed = first_closing + len(closing), 1
    while (start := text.find(opening, position)) >= 0:
        end = text.find(closing, start)
        if end < 0 and text[:start].strip():
            # An opening tag in the middle of an answer that nothing closes is a word about tags.
            break
        kept.append(text[position:start])
        removed += 1
        position = end + len(closing) if end >= 0 else len(text)
    return "".join((*kept, text[position:])), removed
