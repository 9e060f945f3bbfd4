"""All cases."""
from cases import (chaos, checkpoints, endings, hangs, inputs, network,  # noqa: F401
                   numbers, stops, supervised)
