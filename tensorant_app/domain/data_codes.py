"""Every fault and notice that reading a data file can name, in one table: its code, what it means, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    REFUSED = "refused"
    """The whole file."""
    ERROR = "error"
    """One row: it stays out of a version, and a person agrees to that with the number in sight."""
    WARNING = "warning"
    """Shown by row and field; blocks nothing."""


class FileCode(StrEnum):
    EMPTY = "empty"
    OTHER_FORMAT = "other_format"
    OTHER_ENCODING = "other_encoding"
    UNKNOWN_LAYOUT = "unknown_layout"
    WRONG_LAYOUT = "wrong_layout"
    PREFERENCES = "preferences"
    NOT_JSONL = "not_jsonl"
    BROKEN_ARRAY = "broken_array"
    BROKEN_TABLE = "broken_table"
    BROKEN_PARQUET = "broken_parquet"
    BROKEN_WORKBOOK = "broken_workbook"
    BROKEN_ARCHIVE = "broken_archive"
    ARCHIVE_LEAVES_FOLDER = "archive_leaves_folder"
    ARCHIVE_IN_ARCHIVE = "archive_in_archive"
    ARCHIVE_HOLDS_SEVERAL = "archive_holds_several"
    ARCHIVE_HOLDS_NONE = "archive_holds_none"
    UNPACKED_TOO_LARGE = "unpacked_too_large"
    ROW_TOO_LONG = "row_too_long"
    TOO_LARGE = "too_large"
    IMAGES_NOT_SENT = "images_not_sent"


class RowCode(StrEnum):
    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"
    CUT_OFF = "cut_off"
    SEVERAL_VALUES = "several_values"
    NOT_OBJECT = "not_object"
    TOO_DEEP = "too_deep"
    REPEATED_KEY = "repeated_key"
    NOT_FINITE = "not_finite"
    NUMBER_TOO_LARGE = "number_too_large"
    BAD_CHARACTER = "bad_character"
    BAD_CELLS = "bad_cells"
    NO_MESSAGES = "no_messages"
    MISSING_FIELD = "missing_field"
    BAD_MESSAGE = "bad_message"
    BAD_ROLE = "bad_role"
    BAD_ORDER = "bad_order"
    BAD_CONTENT = "bad_content"
    BAD_TOOLS = "bad_tools"
    BAD_CALL = "bad_call"
    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_CALL = "unknown_call"
    BAD_WEIGHT = "bad_weight"
    EMPTY_REPLY = "empty_reply"
    NO_REPLY = "no_reply"
    NO_TRAINED_REPLY = "no_trained_reply"
    LAST_NOT_REPLY = "last_not_reply"
    IMAGE_IN_TEXT = "image_in_text"
    IMAGE_COUNT = "image_count"
    IMAGE_BROKEN = "image_broken"
    IMAGE_MISSING = "image_missing"
    IMAGE_OUTSIDE = "image_outside"
    IMAGE_ELSEWHERE = "image_elsewhere"


class NoticeCode(StrEnum):
    INVISIBLE = "invisible"
    CONTROL_CHARACTER = "control_character"
    HTML = "html"
    CONTROL_TOKEN = "control_token"
    EMAIL = "email"
    PHONE = "phone"
    PAYMENT_CARD = "payment_card"
    IBAN = "iban"
    MIXED_SCRIPTS = "mixed_scripts"
    SHORT_REPLY = "short_reply"
    LONG_REPLY = "long_reply"
    EMPTY_QUESTION = "empty_question"
    SAME_ROLE_AGAIN = "same_role_again"
    LATE_SYSTEM = "late_system"
    UNANSWERED_CALL = "unanswered_call"
    COLUMN_LEFT_OUT = "column_left_out"
    IMAGES_LEFT_OUT = "images_left_out"
    DUPLICATE = "duplicate"
    COPY = "copy"
    CONTRADICTION = "contradiction"


Code = FileCode | RowCode | NoticeCode


@dataclass(frozen=True, slots=True)
class About:
    """What a code is called and what to do about it, in general; the finding's own sentence names the place."""

    severity: Severity
    meaning: str
    advice: str


def _refused(meaning: str, advice: str) -> About:
    return About(Severity.REFUSED, meaning, advice)


def _error(meaning: str, advice: str) -> About:
    return About(Severity.ERROR, meaning, advice)


def _warning(meaning: str, advice: str) -> About:
    return About(Severity.WARNING, meaning, advice)


F, R, N = FileCode, RowCode, NoticeCode

CODES: Mapping[Code, About] = {
    F.EMPTY: _refused("There is no row in the file", "Choose a file with at least one example"),
    F.OTHER_FORMAT: _refused("A kind of file that is not read", "Save it as one of the formats listed above"),
    F.OTHER_ENCODING: _refused("Text in an encoding that is not read", "Save the file as UTF-8"),
    F.UNKNOWN_LAYOUT: _refused("No known layout of examples", "Say which columns hold the question and the reply"),
    F.WRONG_LAYOUT: _refused("Not the layout that was asked for", "Choose the layout again, or let it be recognised"),
    F.PREFERENCES: _refused("Preference data", "Training on preferences comes later; choose examples with one reply"),
    F.NOT_JSONL: _refused("No row is a JSON object", "Put one whole object on each line"),
    F.BROKEN_ARRAY: _refused("A JSON array that lost its structure", "Mend the place named, or write JSON Lines"),
    F.BROKEN_TABLE: _refused("A table that lost its structure", "Mend the header or the quotation mark named"),
    F.BROKEN_PARQUET: _refused("A Parquet file that cannot be read", "Write the file again"),
    F.BROKEN_WORKBOOK: _refused("A workbook that cannot be read", "Save it again as .xlsx, with one sheet of rows"),
    F.BROKEN_ARCHIVE: _refused("A damaged or locked archive", "Pack the file again, without a password"),
    F.ARCHIVE_LEAVES_FOLDER: _refused("An archive with paths outside its folder", "Pack it again with plain names"),
    F.ARCHIVE_IN_ARCHIVE: _refused("An archive inside an archive", "Unpack the inner one first"),
    F.ARCHIVE_HOLDS_SEVERAL: _refused("Several data files in one archive", "Pack one data file at a time"),
    F.ARCHIVE_HOLDS_NONE: _refused("No data file in the archive", "Pack the file with the examples"),
    F.UNPACKED_TOO_LARGE: _refused("Unpacks to more than the limit", "Send the file unpacked, or split it"),
    F.ROW_TOO_LONG: _refused("A row longer than the limit", "Split or shorten that example"),
    F.TOO_LARGE: _refused("More than this kind of file may hold", "Write JSON Lines, which have no such limit"),
    F.IMAGES_NOT_SENT: _refused("Rows that name images, sent without them", "Pack rows and images into one zip"),
    R.NOT_UTF8: _error("Not UTF-8", "Save the file as UTF-8"),
    R.NOT_JSON: _error("Not valid JSON", "Mend the place named; each row is one JSON object"),
    R.CUT_OFF: _error("The row ends in the middle", "Send the file again whole, or remove its end"),
    R.SEVERAL_VALUES: _error("Several values in one row", "Put each object on a line of its own"),
    R.NOT_OBJECT: _error("Not an object", "Each row is one JSON object"),
    R.TOO_DEEP: _error("Nested too deeply", "Objects and lists may stand 64 deep inside each other"),
    R.REPEATED_KEY: _error("A key stands twice", "Keep one of them; which one counts would be chance"),
    R.NOT_FINITE: _error("NaN or infinite number", "Write a number, or null"),
    R.NUMBER_TOO_LARGE: _error("A whole number beyond 64 bits", "Write it as text"),
    R.BAD_CHARACTER: _error("Half a character or NUL", "Remove lone surrogates and NUL"),
    R.BAD_CELLS: _error("More or fewer cells than columns", "Quote cells that hold the separator or a line end"),
    R.NO_MESSAGES: _error("No list of messages", "A row needs messages, a list with at least one in it"),
    R.MISSING_FIELD: _error("A field is missing or empty", "Fill it in, or remove the row"),
    R.BAD_MESSAGE: _error("A message is no object", "Every message has a role and content"),
    R.BAD_ROLE: _error("Unknown role", "Use one of the layout's roles"),
    R.BAD_ORDER: _error("Messages in an order nobody can answer", "Begin with a question, and answer calls where made"),
    R.BAD_CONTENT: _error("Content is not readable", "Content is a text, or a list of text parts"),
    R.BAD_TOOLS: _error("The list of tools is not right", "Each tool is an object with a name of its own"),
    R.BAD_CALL: _error("A tool call is not right", "A call has a name, and arguments that are a JSON object"),
    R.UNKNOWN_TOOL: _error("A call of an undeclared tool", "Add the tool to the row's tools, or mend its name"),
    R.UNKNOWN_CALL: _error("A tool's answer without its call", "Name the call that it answers in tool_call_id"),
    R.BAD_WEIGHT: _error("Weight is not 0 or 1", "A reply's weight says whether it is learned: 0 or 1"),
    R.EMPTY_REPLY: _error("The reply is empty", "There is nothing to learn from an empty reply"),
    R.NO_REPLY: _error("No assistant reply", "A row without a reply has nothing to learn"),
    R.NO_TRAINED_REPLY: _error("No trained reply", "Give at least one reply the weight 1, or leave the row out"),
    R.LAST_NOT_REPLY: _error("The last message is no reply", "End each row with the assistant's reply"),
    R.IMAGE_IN_TEXT: _error("An image in a text project", "Remove the image, or choose a vision model"),
    R.IMAGE_COUNT: _error("As many images as marks are needed", "Give each <image> mark one image"),
    R.IMAGE_BROKEN: _error("An image that cannot be decoded", "Replace it by a whole PNG, JPEG, WebP or GIF"),
    R.IMAGE_MISSING: _error("An image that is not there", "Put it into the folder of images, or mend its path"),
    R.IMAGE_OUTSIDE: _error("A path outside the folder of images", "Use paths inside the folder"),
    R.IMAGE_ELSEWHERE: _error("An image on the internet", "Nothing is fetched: put the image into the folder"),
    N.INVISIBLE: _warning("An invisible character", "Often pasted by accident; look at it and remove it"),
    N.CONTROL_CHARACTER: _warning("A control character", "Often left over from another encoding"),
    N.HTML: _warning("HTML in the text", "The model learns to write it; keep it only where that is meant"),
    N.CONTROL_TOKEN: _warning("A control token typed in the text", "It would end or begin a turn inside a text"),
    N.EMAIL: _warning("An e-mail address", "A model can repeat what it was trained on"),
    N.PHONE: _warning("A telephone number", "A model can repeat what it was trained on"),
    N.PAYMENT_CARD: _warning("A payment card number", "The safety check refuses it before a run"),
    N.IBAN: _warning("A bank account number (IBAN)", "A model can repeat what it was trained on"),
    N.MIXED_SCRIPTS: _warning("A reply in another script", "Question and reply are written in different scripts"),
    N.SHORT_REPLY: _warning("A suspiciously short reply", "A placeholder, or far shorter than the file's others"),
    N.LONG_REPLY: _warning("A suspiciously long reply", "Far longer than the file's others"),
    N.EMPTY_QUESTION: _warning("An empty question", "The model learns to answer nothing at all"),
    N.SAME_ROLE_AGAIN: _warning("Two turns of one role in a row", "Some models' templates refuse them"),
    N.LATE_SYSTEM: _warning("A system text after the beginning", "Some models' templates refuse it"),
    N.UNANSWERED_CALL: _warning("A tool call without an answer", "The conversation goes on as if it had one"),
    N.COLUMN_LEFT_OUT: _warning(
        "A column that is not kept", "Training does not read it; nothing is lost for the model"
    ),
    N.IMAGES_LEFT_OUT: _warning(
        "Images that are not read", "A text model reads no images; choose a vision model for the project"
    ),
    N.DUPLICATE: _warning("The same row again", "Copies always stand on one side of a split"),
    N.COPY: _warning("The same but for case and space", "Copies always stand on one side of a split"),
    N.CONTRADICTION: _warning("The same question, another reply", "Keep the right one; both together teach nothing"),
}
