# SPDX-License-Identifier: Apache-2.0
"""The data sets of the paper, by name.

>>> sorted(name for name, data in DATASETS.items() if data.task == "classification")
['abalone', 'adult', 'bank', 'breast-cancer', 'raisin', 'vertebral']
>>> DATASETS["abalone"].meaning
'more than 10 rings'
"""

from __future__ import annotations

from onedraw.research.datasets.records import Categories, DataSet, Ignored, Interval, Number, OpenML

UCI = "UCI Machine Learning Repository, {} (https://archive.ics.uci.edu/dataset/{})"
CC_BY = "CC BY 4.0"
UNCONFIRMED = "not confirmed"


def _is(*labels: str) -> _Labels:
    return _Labels(labels)


class _Labels:
    """1 for one of the labels, 0 for any other text: a response that pickles."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        self.labels = labels

    def __call__(self, text: str) -> float:
        return float(text in self.labels)


def _more_than_ten(text: str) -> float:
    return float(float(text) > 10.0)


def _listed(*records: DataSet) -> dict[str, DataSet]:
    return {record.name: record for record in records}


DATASETS = _listed(
    DataSet(
        name="abalone",
        title="Abalone: sex and seven measurements of a shellfish",
        task="classification",
        file="abalone.data",
        sha256="de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f",
        content="acf8dc74b948bfc5956a2fd5f75ae666b7664ce8b2b77fc70a392ea4d8c6cba0",
        rows=4177,
        source=UCI.format("Abalone", 1),
        licence=CC_BY,
        # The measurements are published divided by 200: millimetres up to 200, grams up to 600.
        columns=(
            Categories("sex", ("M", "F", "I")),
            Number("length", 0, 1),
            Number("diameter", 0, 1),
            Number("height", 0, 0.5),
            Number("whole_weight", 0, 3),
            Number("shucked_weight", 0, 1.5),
            Number("viscera_weight", 0, 1),
            Number("shell_weight", 0, 1.5),
            Ignored("rings"),
        ),
        target="rings",
        response=_more_than_ten,
        meaning="more than 10 rings",
        openml=OpenML(
            data_id=183,
            columns=(
                "Sex",
                "Length",
                "Diameter",
                "Height",
                "Whole_weight",
                "Shucked_weight",
                "Viscera_weight",
                "Shell_weight",
                "Class_number_of_rings",
            ),
        ),
    ),
    DataSet(
        name="adult",
        title="Adult: numeric answers of persons in the 1994 US census",
        task="classification",
        file="adult.data",
        sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        content="1f25b9a1c0eb49529094eb9a6652a65b6b8c0630f1f904f07567aa4abadc711c",
        rows=32561,
        source=UCI.format("Adult", 2),
        licence=CC_BY,
        # Ages from 17 (the extract's rule) to 90 (the census's top code); hours are coded 1 to 99.
        columns=(
            Number("age", 17, 90),
            Ignored("workclass"),
            Ignored("fnlwgt"),
            Ignored("education"),
            Number("education_num", 1, 16),
            Ignored("marital_status"),
            Ignored("occupation"),
            Ignored("relationship"),
            Ignored("race"),
            Ignored("sex"),
            Number("capital_gain", 0, 50_000, missing={"99999": 0.0}),
            Number("capital_loss", 0, 5_000),
            Number("hours_per_week", 1, 99),
            Ignored("native_country"),
            Ignored("income"),
        ),
        target="income",
        response=_is(">50K"),
        meaning="income above 50,000 dollars",
        openml=OpenML(
            data_id=1590,
            columns=(
                "age",
                "workclass",
                "fnlwgt",
                "education",
                "education-num",
                "marital-status",
                "occupation",
                "relationship",
                "race",
                "sex",
                "capital-gain",
                "capital-loss",
                "hours-per-week",
                "native-country",
                "class",
            ),
            last=32561,
        ),
    ),
    DataSet(
        name="bank",
        title="Banknote authentication: wavelet statistics of images of banknotes",
        task="classification",
        file="data_banknote_authentication.txt",
        sha256="d0539aaed2139ba7a587b3e34fb345ce503ff7d5d33dbf9912d8e195ce425cb9",
        content="a60d745b53cf437fdf9e59a23ba2bf45d879f01b65f24657b7a7897b13cef88b",
        rows=1372,
        source=UCI.format("Banknote Authentication", 267),
        licence=CC_BY,
        columns=(
            Number("variance", -10, 10),
            Number("skewness", -15, 15),
            Number("curtosis", -10, 20),
            Number("entropy", -10, 5),
            Ignored("class"),
        ),
        target="class",
        response=_is("1"),
        meaning="class 1 of authenticity",
        openml=OpenML(data_id=1462, columns=("V1", "V2", "V3", "V4", "Class"), target={"1": "0", "2": "1"}),
    ),
    DataSet(
        name="vertebral",
        title="Vertebral column: six measurements of spine and pelvis",
        task="classification",
        file="column_2C.dat",
        sha256="ce9b1140ed94bd83c66f0b6cdf1f771f1c3d3312f80754c2a79e6e25fd1844b7",
        content="d083839ee3a20b45563ae19fb2994856a056c33eb677351a400cb3008197ec40",
        rows=310,
        source=UCI.format("Vertebral Column", 212),
        licence=CC_BY,
        separator=None,
        # Angles in degrees, lengths in millimetres.
        columns=(
            Number("pelvic_incidence", 20, 130),
            Number("pelvic_tilt", -10, 50),
            Number("lumbar_lordosis_angle", 10, 130),
            Number("sacral_slope", 10, 120),
            Number("pelvic_radius", 60, 170),
            Number("grade_of_spondylolisthesis", -15, 150),
            Ignored("class"),
        ),
        target="class",
        response=_is("AB"),
        meaning="abnormal",
    ),
    DataSet(
        name="breast-cancer",
        title="Breast cancer (Ljubljana): nine answers about a patient",
        task="classification",
        file="breast-cancer.data",
        sha256="ca7d3fa97b62ff967b6894ffbb3acaaf4a51062e0149e5950b3ad6f685970b65",
        content="26da9d62e64147343729be26ab856ce24ecb1d5a663a17e70d6b954aff927f3a",
        rows=286,
        source=UCI.format("Breast Cancer", 14),
        licence=CC_BY,
        columns=(
            Ignored("class"),
            Interval("age", 10, 100),
            Categories("menopause", ("lt40", "ge40", "premeno")),
            Interval("tumor_size", 0, 60),
            Interval("inv_nodes", 0, 40),
            Categories("node_caps", ("no", "yes")),
            Number("deg_malig", 1, 3),
            Categories("breast", ("left", "right")),
            Categories("quadrant", ("left_up", "left_low", "right_up", "right_low", "central")),
            Categories("irradiat", ("no", "yes")),
        ),
        target="class",
        response=_is("recurrence-events"),
        meaning="the cancer came back",
    ),
    DataSet(
        name="raisin",
        title="Raisin: seven measurements of the image of a grain",
        task="classification",
        file="Raisin_Dataset.arff",
        sha256="8a33803b5961650225150740fa09fa31ee8875266277c7ac3291e2a3ee351814",
        content="a838f47d53f1b4fbfcdf5bd56d245be7043c16658ed4b199697e13c41a917c06",
        rows=900,
        source=UCI.format("Raisin", 850),
        licence=CC_BY,
        skip=("%", "@"),
        # In pixels of the camera; eccentricity and extent are ratios.
        columns=(
            Number("area", 0, 250_000),
            Number("major_axis_length", 200, 1_000),
            Number("minor_axis_length", 100, 500),
            Number("eccentricity", 0, 1),
            Number("convex_area", 0, 300_000),
            Number("extent", 0, 1),
            Number("perimeter", 500, 3_000),
            Ignored("class"),
        ),
        target="class",
        response=_is("Besni"),
        meaning="variety Besni",
    ),
    DataSet(
        name="boston",
        title="Boston housing: thirteen facts about a census tract",
        task="regression",
        file="housing.data",
        sha256="baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        content="694ff0c7e353629dacf271dfae763ef59d3b76ee65c6ed18b484df9a6841ac91",
        rows=506,
        source="StatLib, formerly UCI Machine Learning Repository, Housing",
        licence=UNCONFIRMED,
        separator=None,
        columns=(
            Number("crim", 0, 100),
            Number("zn", 0, 100),
            Number("indus", 0, 30),
            Number("chas", 0, 1),
            Number("nox", 0.3, 0.9),
            Number("rm", 3, 9),
            Number("age", 0, 100),
            Number("dis", 1, 13),
            Number("rad", 1, 24),
            Number("tax", 150, 750),
            Number("ptratio", 12, 23),
            Number("b", 0, 400),
            Number("lstat", 0, 40),
            Number("medv", 0, 50),
        ),
        target="medv",
        response=float,
        meaning="median house price in thousands of dollars",
        openml=OpenML(
            data_id=531,
            columns=(
                "CRIM",
                "ZN",
                "INDUS",
                "CHAS",
                "NOX",
                "RM",
                "AGE",
                "DIS",
                "RAD",
                "TAX",
                "PTRATIO",
                "B",
                "LSTAT",
                "MEDV",
            ),
        ),
    ),
    DataSet(
        name="kin8nm",
        title="Kin8nm: joint angles of a simulated robot arm",
        task="regression",
        file="kin8nm.data",
        sha256="a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
        content="89db3786dfc45066b4c864ab53ed47bd747944875fed0f1138c530adeea2fb36",
        rows=8192,
        source="DELVE kin family, OpenML kin8nm (https://www.openml.org/d/189)",
        licence=UNCONFIRMED,
        separator=None,
        # Angles in radians, a quarter turn either way.
        columns=(*(Number(f"theta{i}", -1.6, 1.6) for i in range(1, 9)), Number("y", 0, 1.5)),
        target="y",
        response=float,
        meaning="distance of the hand from a fixed point",
        openml=OpenML(data_id=189, columns=(*(f"theta{i}" for i in range(1, 9)), "y")),
    ),
    DataSet(
        name="naval",
        title="Naval propulsion: a steady state of a simulated ship's gas turbine",
        task="regression",
        file="naval/data.txt",
        sha256="de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
        content="0801d75c64e1884a871e5702f2f3bdc0fb46c7e31e1312bfb656263e3cabdadd",
        rows=11934,
        source=UCI.format("Condition Based Maintenance of Naval Propulsion Plants", 316),
        licence=CC_BY,
        separator=None,
        columns=(
            Number("lever_position", 0, 10),
            Number("ship_speed", 0, 30),
            Number("shaft_torque", 0, 75_000),
            Number("turbine_rate", 0, 4_000),
            Number("generator_rate", 5_000, 10_000),
            Number("starboard_torque", 0, 700),
            Number("port_torque", 0, 700),
            Number("turbine_exit_temperature", 400, 1_200),
            Ignored("inlet_temperature"),  # constant in the simulation
            Number("outlet_temperature", 500, 800),
            Number("turbine_exit_pressure", 1, 5),
            Ignored("inlet_pressure"),  # likewise
            Number("outlet_pressure", 5, 25),
            Number("exhaust_pressure", 1, 1.1),
            Number("injection_control", 0, 100),
            Number("fuel_flow", 0, 2),
            Number("compressor_decay", 0.95, 1),
            Number("turbine_decay", 0.975, 1),
        ),
        target="turbine_decay",
        response=float,
        meaning="decay coefficient of the turbine",
    ),
    DataSet(
        name="wine",
        title="Wine quality (red): eleven chemical measurements",
        task="regression",
        file="winequality-red.csv",
        sha256="4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
        content="97a46d4cb70bcbb66919dddb182f456626d442992d9c0c38b6a2dfd22ec9361c",
        rows=1599,
        source=UCI.format("Wine Quality", 186),
        licence=CC_BY,
        separator=";",
        header=1,
        columns=(
            Number("fixed_acidity", 3, 17),
            Number("volatile_acidity", 0, 2),
            Number("citric_acid", 0, 1),
            Number("residual_sugar", 0, 20),
            Number("chlorides", 0, 0.7),
            Number("free_sulfur_dioxide", 0, 100),
            Number("total_sulfur_dioxide", 0, 300),
            Number("density", 0.98, 1.01),
            Number("ph", 2.5, 4.5),
            Number("sulphates", 0, 2.5),
            Number("alcohol", 8, 15),
            Number("quality", 0, 10),
        ),
        target="quality",
        response=float,
        meaning="quality, 0 to 10",
    ),
)
"""By name, in the order of the paper's figures."""
