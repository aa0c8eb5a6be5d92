"""What each kind of row error is called, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

ERRORS: Mapping[str, tuple[str, str]] = {
    "not_utf8": ("Not UTF-8", "Save the file as UTF-8"),
    "not_json": ("Not valid JSON", "Each line must be one JSON object"),
    "not_object": ("Not an object", "Each line must be one JSON object, with messages in it"),
    "too_deep": ("Nested too deeply", "Objects and lists may stand 64 deep inside each other"),
    "repeated_key": ("A key stands twice", "Keep one of them; which one counts would be chance"),
    "not_finite": ("NaN or infinite number", "Write a number, or null"),
    "bad_character": ("Half a character or NUL", "Remove lone surrogates and NUL"),
    "no_messages": ("No list of messages", "A row needs messages, a list with at least one in it"),
    "bad_message": ("A message is no object", "Every message has a role and content"),
    "bad_role": ("Unknown role", "Roles are system, developer, user, assistant and tool"),
    "bad_content": ("Content is not readable", "Content is a text, or a list of text parts"),
    "bad_tools": ("Tools are not right", "Calls need names and arguments, and answers need their call"),
    "bad_weight": ("Weight is not 0 or 1", "A message's weight says whether it is learned from"),
    "empty_reply": ("The reply is empty", "There is nothing to learn from an empty reply"),
    "no_reply": ("No assistant reply", "A row without a reply has nothing to learn"),
    "last_not_reply": ("The last message is no reply", "End each row with the assistant's reply"),
}
