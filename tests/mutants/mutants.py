"""The planted bugs: defects of the write path that a tired colleague could write on any day.

Each names the texts that it replaces and the tests of which one must notice. A change of the
product that moves such a text moves the bug along, or puts another of its kind in its place.
"""

from tests.mutants.leases import LEASE_MUTANTS
from tests.mutants.maintenance import MAINTENANCE_MUTANTS
from tests.mutants.recovery import RECOVERY_MUTANTS
from tests.mutants.spark import SPARK_MUTANTS
from tests.mutants.storage import STORAGE_MUTANTS
from tests.mutants.write_path import WRITE_PATH_MUTANTS

MUTANTS = (
    *WRITE_PATH_MUTANTS,
    *RECOVERY_MUTANTS,
    *LEASE_MUTANTS,
    *STORAGE_MUTANTS,
    *MAINTENANCE_MUTANTS,
    *SPARK_MUTANTS,
)
