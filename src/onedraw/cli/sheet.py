# SPDX-License-Identifier: Apache-2.0
"""The first sheet of an Excel workbook (.xlsx) as rows of text, by the standard library alone.

A workbook is a folder of XML files in a zip archive (ECMA-376, part 1). Numbers come as the file writes them,
dates as the number of days that a spreadsheet keeps for them, formulas as their last value; what a cell looks
like does not count. Rows are as long as the first, so empty cells at their ends are missing values.

>>> column_of("A7"), column_of("Z1"), column_of("AB12")
(0, 25, 27)
"""

from __future__ import annotations

import contextlib
import posixpath
import zipfile
from collections.abc import Iterator
from typing import IO, Any
from xml.etree import ElementTree

from onedraw.errors import InvalidInput

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
BOOK, BOOK_LINKS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
LARGEST = 1 << 30
"""Bytes of a part beyond which it is refused: a small archive can hold any number of zeros."""


@contextlib.contextmanager
def first_sheet(path: str) -> Iterator[Iterator[list[str]]]:
    """The rows of the first sheet; an OSError says why a file cannot be opened."""
    try:
        with zipfile.ZipFile(path) as book:
            texts = _shared_texts(book)
            with _part(book, _first_part(book)) as file:
                yield _rows(file, texts)
    except InvalidInput:  # a ValueError too, of whoever reads the rows
        raise
    except (zipfile.BadZipFile, KeyError, ElementTree.ParseError, ValueError, IndexError):
        # which could quote the file
        raise InvalidInput(
            f"The file {path!r} is not an Excel workbook that can be read. Save its sheet as CSV in UTF-8."
        ) from None


def column_of(reference: str) -> int:
    """The number of a cell's column, from 0 on."""
    number = 0
    for letter in reference.rstrip("0123456789"):
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _rows(file: IO[bytes], texts: list[str]) -> Iterator[list[str]]:
    width = None
    for _, row in ElementTree.iterparse(file):
        if row.tag != f"{MAIN}row":
            continue
        cells: list[str] = []
        for cell in row.iter(f"{MAIN}c"):
            place = column_of(cell.get("r", "")) if cell.get("r") else len(cells)
            cells += [""] * (place - len(cells))
            cells.append(_text(cell, texts))
        while cells and not cells[-1] and (width is None or len(cells) > width):
            cells.pop()
        row.clear()
        if any(cells):
            width = len(cells) if width is None else width
            yield cells + [""] * (width - len(cells))


def _text(cell: Any, texts: list[str]) -> str:
    kind, value = cell.get("t", "n"), cell.findtext(f"{MAIN}v") or ""
    if kind == "s":
        return texts[int(value)]
    if kind == "inlineStr":
        return _joined(cell)
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    return value


def _joined(element: Any) -> str:
    """A text in one or several runs; how it is pronounced is left out."""
    runs = [run for part in element.iter(f"{MAIN}r") for run in part.findall(f"{MAIN}t")]
    return "".join(run.text or "" for run in runs or element.iter(f"{MAIN}t"))


def _shared_texts(book: zipfile.ZipFile) -> list[str]:
    if "xl/sharedStrings.xml" not in book.namelist():
        return []
    with _part(book, "xl/sharedStrings.xml") as file:
        return [_joined(part) for part in ElementTree.parse(file).getroot().findall(f"{MAIN}si")]


def _first_part(book: zipfile.ZipFile) -> str:
    """Where the first sheet stands in the archive."""
    with _part(book, BOOK) as file:
        sheet = next(ElementTree.parse(file).getroot().iter(f"{MAIN}sheet"), None)
    if sheet is None:
        raise ValueError
    with _part(book, BOOK_LINKS) as file:
        links = {link.get("Id"): link.get("Target", "") for link in ElementTree.parse(file).getroot()}
    return posixpath.normpath(posixpath.join("/xl", links[sheet.get(LINK)])).lstrip("/")


def _part(book: zipfile.ZipFile, name: str) -> IO[bytes]:
    if book.getinfo(name).file_size > LARGEST:
        raise ValueError
    return book.open(name)
