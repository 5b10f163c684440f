import sys

import pytest

from fairmargin.attacks.catalog import ATTACKS
from fairmargin.core.catalog import Catalog
from fairmargin.core.norm import Norm
from fairmargin.data.catalog import DATASETS
from fairmargin.distances.catalog import ESTIMATORS
from fairmargin.engine.catalog import ENGINES
from fairmargin.models.architectures.catalog import ARCHITECTURES
from fairmargin.training.catalog import METHODS
from fairmargin.training.loop.loggers import LOGGERS

CATALOGS = [ARCHITECTURES, ATTACKS, DATASETS, ENGINES, ESTIMATORS, LOGGERS, METHODS]
LIGHT = object()
FIXED = Catalog("thing", "fairmargin.core", {"norm": "norm:Norm", "light": LIGHT, "gone": "gone:Gone"})


def test_an_entry_is_imported_on_first_access_or_returned_as_it_is():
    assert FIXED["norm"] is FIXED.find("norm") is Norm
    assert FIXED["light"] is LIGHT
    assert list(FIXED) == ["norm", "light", "gone"]
    assert len(FIXED) == 3
    assert "gone" in FIXED
    assert "fairmargin.core.gone" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        FIXED["gone"]


def test_an_unknown_name_is_missing_as_in_any_mapping():
    assert FIXED.get("nrom") is None
    with pytest.raises(KeyError, match="Unknown thing `nrom`"):
        FIXED["nrom"]


@pytest.mark.parametrize("catalog", CATALOGS, ids=lambda catalog: catalog.noun)
def test_every_entry_of_every_catalog_can_be_imported(catalog):
    assert isinstance(catalog, Catalog)
    assert len({id(entry) for entry in catalog.values()}) == len(catalog) > 1
