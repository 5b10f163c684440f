import sys

import pytest

from fairmargin.attacks.catalog import ATTACKS
from fairmargin.core.catalog import Catalog
from fairmargin.core.norm import Norm
from fairmargin.data.catalog import DATASETS
from fairmargin.distances.catalog import ESTIMATORS
from fairmargin.engine.catalog import ENGINES
from fairmargin.errors import InputError, ModelError
from fairmargin.models.architectures.catalog import ARCHITECTURES
from fairmargin.training.catalog import METHODS
from fairmargin.training.loop.loggers import LOGGERS

CATALOGS = [ARCHITECTURES, ATTACKS, DATASETS, ENGINES, ESTIMATORS, LOGGERS, METHODS]
LIGHT = object()
FIXED: Catalog[object] = Catalog("thing", "fairmargin.core", {"norm": "norm:Norm", "light": LIGHT, "gone": "gone:Gone"})


def test_an_entry_is_imported_or_returned_as_it_is() -> None:
    assert FIXED["norm"] is Norm
    assert FIXED["light"] is LIGHT
    assert FIXED.find("norm") is Norm


def test_names_are_listed_and_looked_up_without_an_import() -> None:
    assert list(FIXED) == ["norm", "light", "gone"]
    assert len(FIXED) == 3
    assert "gone" in FIXED
    assert "fairmargin.core.gone" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        FIXED["gone"]


def test_the_error_for_an_unknown_name_suggests_the_nearest_one() -> None:
    with pytest.raises(KeyError, match="Unknown thing `nrom`"):
        FIXED["nrom"]
    assert FIXED.get("nrom") is None
    with pytest.raises(InputError, match=r"`nrom`\. Did you mean 'norm'\? There are: norm, light, gone\."):
        FIXED.find("nrom")
    with pytest.raises(ModelError, match="Unknown thing `nrom`"):
        FIXED.find("nrom", ModelError)


@pytest.mark.parametrize("catalog", CATALOGS, ids=lambda catalog: catalog.noun)
def test_every_entry_of_every_catalog_can_be_imported(catalog: Catalog[object]) -> None:
    assert isinstance(catalog, Catalog)
    assert len({id(entry) for entry in catalog.values()}) == len(catalog) > 1
