"""All cases."""
from cases import (checkpoints, endings, hangs, inputs, network, numbers,  # noqa: F401
                   stops, supervised)
