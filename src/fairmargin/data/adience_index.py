"""The fold files of Adience: who is on which image, how old, of which gender."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

from fairmargin.data.sources import Source
from fairmargin.errors import InputError

_COLUMNS = ("user_id", "original_image", "face_id", "age", "gender")
AGES = ("0–2", "4–6", "8–13", "15–20", "25–32", "38–43", "48–53", "60+")
_RANGES = ((0, 2), (4, 6), (8, 13), (15, 20), (25, 32), (38, 43), (48, 53), (60, 100))
_QUIRK = {(25, 23): (25, 32)}  # a slip of the official files
_AGE = re.compile(r"\((\d{1,3}), *(\d{1,3})\)|(\d{1,3})", re.ASCII)
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Index:
    """One entry a face; classes by number, −1 where unknown.

    Parameters
    ----------
    images
        Paths below `faces/`.
    people
        `user_id/face_id`; Adience numbers the people of one album by face_id.
    ages, genders, folds
        One number a face; genders 0 male, 1 female.
    repeated
        Rows left out because they repeat another.
    """

    images: tuple[str, ...]
    people: tuple[str, ...]
    ages: tuple[int, ...]
    genders: tuple[int, ...]
    folds: tuple[int, ...]
    repeated: int = 0

    def take(self, places: Sequence[int]) -> "Index":
        """Some of the faces."""
        return Index(
            images=tuple(self.images[place] for place in places),
            people=tuple(self.people[place] for place in places),
            ages=tuple(self.ages[place] for place in places),
            genders=tuple(self.genders[place] for place in places),
            folds=tuple(self.folds[place] for place in places),
            repeated=self.repeated,
        )


def read_index(source: Source, files: Mapping[str, int]) -> Index:
    """The rows of the fold files; `files` says which fold each of them is."""
    contents = dict(source.members(files.__contains__))
    entries: dict[str, tuple[str, int, int, int]] = {}
    rows = 0
    for file, fold in sorted(files.items(), key=lambda item: item[1]):
        for row in _rows(f"{file} of {source.path}", contents[file]):
            rows += 1
            image = f"{row['user_id']}/coarse_tilt_aligned_face.{row['face_id']}.{row['original_image']}"
            gender = {"m": 0, "f": 1}.get(row["gender"], UNKNOWN)
            entries.setdefault(image, (f"{row['user_id']}/{row['face_id']}", age_class(row["age"]), gender, fold))
    people, ages, genders, folds = zip(*entries.values(), strict=True) if entries else ((), (), (), ())
    return Index(tuple(entries), people, ages, genders, folds, rows - len(entries))


def age_class(text: str) -> int:
    """The age group that an entry of the files certainly falls into, else −1.

    An entry is a range or, now and then, a single age; it counts if it lies within one of the eight groups. (8, 12) and
    (38, 42) do; 35 or (38, 48) do not, and published code assigns them to different neighbours. (25, 23) is (25, 32).

    >>> [age_class(text) for text in ("(8, 12)", "(25, 23)", "29", "35", "(38, 48)", "None")]
    [2, 4, 4, -1, -1, -1]
    """
    match = _AGE.fullmatch(text.strip())
    if match is None:
        return UNKNOWN
    low, high = (int(match[3]), int(match[3])) if match[3] else (int(match[1]), int(match[2]))
    low, high = _QUIRK.get((low, high), (low, high))
    inside = [number for number, (start, end) in enumerate(_RANGES) if start <= low <= high <= end]
    return inside[0] if inside else UNKNOWN


def _rows(file: str, content: bytes) -> list[dict[str, str]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not text in UTF-8 ({error.reason}). Fetch it again.") from error
    reader = csv.DictReader(StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise InputError(
            f"{file} lacks the column {missing[0]!r}. Expected a header with {', '.join(_COLUMNS)}, separated by tabs, "
            "as Adience publishes it."
        )
    rows = list(reader)
    for number, row in enumerate(rows, 2):
        if any(row[column] is None for column in _COLUMNS):
            raise InputError(f"{file} is cut short in line {number:,}. Fetch it again.")
    return rows
