# SPDX-License-Identifier: Apache-2.0
"""Excel workbooks, written here by hand: the same table as a CSV file gives the same release."""

import json
import zipfile

import pytest

from onedraw.cli.sheet import first_sheet
from onedraw.cli.table import count_rows, read_header, read_table
from onedraw.errors import InvalidInput

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
BOOK = f"""<workbook {MAIN} xmlns:r="{LINKS}"><sheets><sheet name="people" sheetId="1" r:id="rId7"/>
<sheet name="notes" sheetId="2" r:id="rId2"/></sheets></workbook>"""
RELATIONS = """<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId2" Target="worksheets/sheet1.xml"/><Relationship Id="rId7" Target="worksheets/data.xml"/>
</Relationships>"""
OTHER = f"<worksheet {MAIN}><sheetData><row><c><v>1</v></c></row></sheetData></worksheet>"


def workbook(path, rows, texts=()):
    """A workbook whose first sheet has these rows of cells, as XML."""
    data = "".join(f'<row r="{i}">{"".join(row)}</row>' for i, row in enumerate(rows, start=1))
    shared = "".join(f"<si>{text}</si>" for text in texts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/workbook.xml", BOOK)
        book.writestr("xl/_rels/workbook.xml.rels", RELATIONS)
        book.writestr("xl/worksheets/sheet1.xml", OTHER)
        sheet = f"<worksheet {MAIN}><sheetData>{data}</sheetData></worksheet>"
        book.writestr("xl/worksheets/data.xml", sheet)
        book.writestr("xl/sharedStrings.xml", f"<sst {MAIN}>{shared}</sst>")
    return str(path)


def inline(text):
    return f'<c t="inlineStr"><is><t>{text}</t></is></c>'


def test_every_kind_of_cell(tmp_path):
    rows = [
        [inline("age"), '<c t="s"><v>0</v></c>', inline("tall"), inline("when"), '<c r="E1"><v/></c>'],
        ['<c r="A2"><v>61.5</v></c>', '<c r="B2" t="s"><v>1</v></c>', '<c r="C2" t="b"><v>1</v></c>'],
        ['<c r="C3" t="b"><v>0</v></c>', '<c r="D3" t="str"><f>A2+1</f><v>62.5</v></c>'],
        [],
    ]
    texts = ["<t>smo</t>", "<r><t>for</t></r><r><t>mer</t></r><rPh><t>spoken</t></rPh>"]
    path = workbook(tmp_path / "a.xlsx", rows, texts)
    with first_sheet(path) as found:
        assert list(found) == [
            ["age", "smo", "tall", "when"],
            ["61.5", "former", "TRUE", ""],
            ["", "", "FALSE", "62.5"],
        ]
    assert read_header(path) == ("age", "smo", "tall", "when")
    assert count_rows(path) == 2
    assert read_table(path).columns["age"] == ["61.5", ""]


def test_a_workbook_and_a_csv_file_of_one_table_give_one_release(cli):
    lines = [line.split(",") for line in (cli.folder / "patients.csv").read_text().splitlines()]
    rows = [[f"<c><v>{v}</v></c>" if v.isdigit() else inline(v) for v in line] for line in lines]
    workbook(cli.folder / "patients.xlsx", rows)
    draws = []
    for data in ("patients.csv", "patients.xlsx"):
        result = cli.fit("--seed", "3", "--force", data=data)
        assert result.exit_code == 0, result.stderr
        draws.append(json.loads((cli.folder / "release.json").read_text())["draws"])
    assert draws[0] == draws[1]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"\xd0\xcf\x11\xe0 a locked book"])
def test_what_is_no_workbook_is_refused_with_the_remedy(tmp_path, content):
    path = tmp_path / "a.xlsx"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"not an Excel workbook.*Save its sheet as CSV"):
        read_header(str(path))


def test_a_workbook_of_zeros_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    path = workbook(tmp_path / "a.xlsx", [[inline("age")]])
    monkeypatch.setattr("onedraw.cli.sheet.LARGEST", 50)
    with pytest.raises(InvalidInput, match="not an Excel workbook"):
        read_header(path)


@pytest.mark.parametrize("name", ["a.xls", "a.sav", "a.data", "a.ods"])
def test_other_files_are_named_with_the_remedy(tmp_path, name):
    with pytest.raises(InvalidInput, match=r"\.xlsx or \.parquet.*separator = .*Save the table as CSV"):
        read_header(str(tmp_path / name))
    with pytest.raises(InvalidInput, match="No such file"):
        read_header(str(tmp_path / "none.xlsx"))
