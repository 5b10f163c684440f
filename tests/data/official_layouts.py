"""Small files in the layouts in which datasets are published."""

import gzip
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.data.files import noise, python2_pickle, write

# Adult, COMPAS and German credit

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


# MNIST and Fashion-MNIST

MNIST_TRAIN, MNIST_TEST = 12, 5


def idx(array: np.ndarray) -> bytes:
    """Return an idx file of bytes."""
    axes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + axes + array.astype(np.uint8).tobytes()


def mnist_files(seed: int = 0) -> dict[str, bytes]:
    """Return the four files of MNIST, with 12 images for training and 5 for testing."""
    rng = np.random.RandomState(seed)
    return {
        "train-images-idx3-ubyte": idx(rng.randint(0, 256, (MNIST_TRAIN, 28, 28))),
        "train-labels-idx1-ubyte": idx(np.arange(MNIST_TRAIN) % 10),
        "t10k-images-idx3-ubyte": idx(rng.randint(0, 256, (MNIST_TEST, 28, 28))),
        "t10k-labels-idx1-ubyte": idx(np.arange(MNIST_TEST)[::-1]),
    }


def zipped(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the same files, gzipped."""
    return {f"{name}.gz": gzip.compress(content) for name, content in files.items()}


# CIFAR

CIFAR_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
CIFAR_FINE, CIFAR_COARSE = [f"fine_{i}" for i in range(100)], [f"coarse_{i}" for i in range(20)]
CIFAR_10, CIFAR_100 = "cifar-10-batches-py", "cifar-100-python"
CIFAR_10_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


def _pixels(count: int, seed: int) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 256, (count, 3072), dtype=np.uint8)


def cifar10_records(per_batch: int = 3) -> dict[str, Any]:
    """Return what the files of CIFAR-10 hold, with a few images in each batch."""
    batches = {
        name: {
            "batch_label": name,
            "labels": [(seed + i) % 10 for i in range(per_batch)],
            "data": _pixels(per_batch, seed),
            "filenames": ["x.png"] * per_batch,
        }
        for seed, name in enumerate(CIFAR_10_BATCHES)
    }
    return {"batches.meta": {"num_cases_per_batch": per_batch, "label_names": CIFAR_NAMES, "num_vis": 3072}, **batches}


def cifar100_records() -> dict[str, Any]:
    """Return what the files of CIFAR-100 hold: 8 images for training and 4 for testing."""

    def batch(count: int, seed: int) -> dict[str, Any]:
        fine = [(7 * i + seed) % 100 for i in range(count)]
        return {"data": _pixels(count, seed), "fine_labels": fine, "coarse_labels": [label % 20 for label in fine]}

    meta = {"fine_label_names": CIFAR_FINE, "coarse_label_names": CIFAR_COARSE}
    return {"meta": meta, "train": batch(8, 1), "test": batch(4, 2)}


def write_cifar(
    root: Path, folder: str, records: Mapping[str, Any], dump: Callable[[Any], bytes] = python2_pickle
) -> Path:
    """Write each record as a pickle, or as it is if it is bytes already; return the folder."""
    files = {name: content if isinstance(content, bytes) else dump(content) for name, content in records.items()}
    return write(root / folder, files)


# Adience

FOLD_HEADER = (
    "user_id\toriginal_image\tface_id\tage\tgender\tx\ty\tdx\tdy\ttilt_ang\tfiducial_yaw_angle\tfiducial_score"
)
FOLD_AGES = (
    *("(0, 2)", "(4, 6)", "(8, 12)", "(15, 20)", "(25, 32)", "(38, 43)", "(48, 53)", "(60, 100)"),
    *("(25, 23)", "None"),
)


def fold_row(user: str, image: str, face: int, age: str = "(25, 32)", gender: str = "f") -> str:
    return f"{user}\t{image}\t{face}\t{age}\t{gender}\t0\t414\t1086\t1383\t-115\t30\t17"


def face_name(user: str, image: str, face: int) -> str:
    return f"faces/{user}/coarse_tilt_aligned_face.{face}.{image}"


def fold_file(rows: Sequence[str]) -> str:
    return "\n".join([FOLD_HEADER, *rows, ""])


def five_folds() -> dict[str, bytes | str]:
    """Return files with ten faces in each fold: two of each of five people, one of each kind of age."""
    files: dict[str, bytes | str] = {}
    for fold in range(5):
        faces = [(f"{fold}@N0{face % 5}", f"{fold}{face}_o.jpg", face % 5) for face in range(10)]
        about = zip(faces, FOLD_AGES, "mfumfumfum", strict=True)
        files[f"fold_{fold}_data.txt"] = fold_file([fold_row(*face, age, gender) for face, age, gender in about])
        files |= {face_name(*face): noise(10 * fold + place) for place, face in enumerate(faces)}
    return files
