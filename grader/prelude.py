"""What every process of ours does before torch and hypothesis are imported in it."""

import os
import warnings


def begin() -> None:
    """One thread, no .hypothesis folder where somebody happens to stand, no complaint about what is not needed."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", f"{os.devnull}/none")
    warnings.filterwarnings("ignore", "Failed to initialize NumPy")
