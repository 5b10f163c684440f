"""Small files in the layouts in which Adult, COMPAS and German credit are published."""

from pathlib import Path

ADULT_TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, Cuba, <=50K
50, ?, 83311, Bachelors, 13, Married-civ-spouse, ?, Husband, Black, Male, 0, 0, 13, ?, >50K
22, Private, 1, 11th, 7, Divorced, Sales, Unmarried, White, Female, 0, 0, 40, Cuba, <=50K

"""
ADULT_TEST = """\
|1x3 Cross validator
63, Private, 226802, 11th, 7, Widowed, Sales, Not-in-family, Other, Female, 0, 9, 40, Peru, <=50K.
25, Private, 89814, HS-grad, 9, Divorced, Sales, Husband, White, Male, 0, 0, 50, Cuba, >50K.

"""
COMPAS_HEADER = (
    "id,sex,age,age_cat,race,juv_fel_count,decile_score,juv_misd_count,juv_other_count,priors_count,"
    "days_b_screening_arrest,c_charge_degree,c_charge_desc,is_recid,decile_score,score_text,priors_count,two_year_recid"
)
COMPAS_ROWS = [
    '1,Male,69,Greater than 45,Other,0,1,0,0,7,-1,F,"Battery, ""aggravated""",0,1,Low,7,0',
    "2,Female,34,25 - 45,Hispanic,1,3,0,0,2,30,M,Theft,1,3,Low,2,1",
    "3,Male,24,Less than 25,,0,4,2,1,4,-30,F,Theft,1,4,Low,4,1",
    "4,Male,23,Less than 25,Other,0,4,2,1,4,31,F,Theft,1,4,Low,4,1",  # screened too late
    "5,Male,23,Less than 25,Other,0,4,2,1,4,,F,Theft,1,4,Low,4,1",  # nobody knows when
    "6,Male,23,Less than 25,Other,0,4,2,1,4,0,F,Theft,-1,4,Low,4,1",  # outcome unknown
    "7,Male,23,Less than 25,Other,0,4,2,1,4,0,O,Theft,1,4,Low,4,1",  # ordinary traffic offence
    "8,Male,23,Less than 25,Other,0,4,2,1,4,0,F,Theft,1,4,N/A,4,1",  # not scored
    "9,Male,50,Greater than 45,Other,0,4,0,0,1,0,M,Theft,0,4,High,1,0",
    "10,Male,51,Greater than 45,Other,0,4,0,0,1,0,M,Theft,0,4,High,1,0",
]
GERMAN_ROWS = [
    "A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1",
    "A12 48 A32 A410 5951 A61 A73 2 A92 A101 2 A121 25 A143 A152 1 A173 1 A191 A201 2",
    "A14 12 A34 A46 2096 A61 A74 2 A91 A103 3 A121 26 A143 A153 1 A172 2 A191 A202 1",
    "A14 24 A30 A40 100 A62 A71 1 A95 A102 1 A124 19 A141 A151 3 A174 1 A192 A201 1",
    "A13 24 A30 A40 100 A62 A71 1 A94 A102 1 A124 19 A141 A151 3 A174 1 A192 A201 1",
]


def write_adult(folder: Path, train: str = ADULT_TRAIN, test: str = ADULT_TEST) -> Path:
    (folder / "adult.data").write_text(train, encoding="utf-8")
    (folder / "adult.test").write_text(test, encoding="utf-8")
    return folder


def write_compas(folder: Path, rows: list[str] = COMPAS_ROWS, header: str = COMPAS_HEADER, end: str = "\n") -> Path:
    (folder / "compas-scores-two-years.csv").write_bytes(end.join([header, *rows, ""]).encode())
    return folder


def write_german(folder: Path, rows: list[str] = GERMAN_ROWS) -> Path:
    (folder / "german.data").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder
