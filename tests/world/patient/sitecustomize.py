"""What Python reads before all else in a process whose `PYTHONPATH` has this folder (`patient_stores.EVERYWHERE`)."""

from tests.world.patience import be_patient

be_patient()
